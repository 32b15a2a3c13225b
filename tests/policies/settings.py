"""Small settings of every kind of drafting whose trees grow, for trees of a few nodes."""

from __future__ import annotations

from planner.documents.head_card import HeadFile
from planner.policies import (
    ConfidentDrafting,
    Drafting,
    DynamicDrafting,
    GreedyDrafting,
    PriceDrafting,
    StoppingDrafting,
    ThresholdDrafting,
)

HEAD = HeadFile(file="head.safetensors", sha256="0" * 64)


def trees(num_nodes: int, max_children: int, max_depth: int = 9) -> dict[str, Drafting]:
    """Policies that grow trees of up to `num_nodes` nodes."""
    sizes = {"num_nodes": num_nodes, "max_depth": max_depth, "max_children": max_children}
    times = {
        "draft_root_ms": 1.0,
        "draft_ms": [1.0, 1.1, 1.3],
        "verify_ms": [8.0 + 0.5 * (n // 2) for n in range(num_nodes)],
    }
    tables = {
        "knots": [0.0, 0.3, 0.6, 1.0],
        "before": [[0.1, 0.4, 0.6, 0.9], [0.05, 0.3, 0.4, 0.8]],
        "after": [[0.05, 0.4, 0.7, 0.95], [0.02, 0.3, 0.5, 0.8]],
        "ahead": [[0.6 / 2**rank for rank in range(max_children)]] * 2,
    }
    prices = {"node_price": 0.03, "lookahead": 1.3, "price_per_ms": 0.06}
    return {
        "greedy": GreedyDrafting(**sizes),
        "threshold": ThresholdDrafting(**sizes, threshold=0.15),
        "price": PriceDrafting(**sizes, **times, **tables, **prices),
        "price online": PriceDrafting(**sizes, **times, **tables, **prices, online=True),
    }


def chains(max_depth: int) -> dict[str, Drafting]:
    """Policies that grow chains of up to `max_depth` tokens."""
    scores = {"head": 0.6, "confidence": 0.5, "entropy": 0.7, "probability": 0.6}
    stopping: dict[str, Drafting] = {
        f"stop by {score}": StoppingDrafting(
            score=score,  # type: ignore[arg-type]
            threshold=threshold,
            max_depth=max_depth,
            head=HEAD if score == "head" else None,
        )
        for score, threshold in scores.items()
    }
    few = {"max_depth": max_depth, "num_tokens": 2}
    return stopping | {
        "confident": ConfidentDrafting(max_depth=max_depth, confidence=0.5),
        "constant": DynamicDrafting(**few),
        "heuristic": DynamicDrafting(**few, schedule="heuristic"),
    }
