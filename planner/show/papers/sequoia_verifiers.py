"""Sequoia's figures on verifiers: its own beside SpecInfer's, SpecTr's and top-k."""

from __future__ import annotations

import numpy as np

from ...estimates.evidence import expected_tokens
from ...trees.frontier import best_tree
from ...verifiers.rates import acceptance_rates
from .ground import Ground, Missing
from .row import RowNumber, RowResult, Spot
from .toy_pairs import toy_pairs

_EXACT = 1e-9
_VERIFIERS = {"Sequoia": "rrsw", "SpecInfer": "rrs", "SpecTr": "kseq", "top-k": "topk"}
"""The paper's names -> ours."""


def rejections(ground: Ground) -> RowResult:
    """Rejection of all of k children, by k; a power law is a line on logarithmic scales."""
    numbers, against, holds = [], [], True
    for sampling in ground.random_samplings:
        where = str(sampling)
        if ground.law(_VERIFIERS["Sequoia"], sampling).num_ranks < 2:
            raise Missing("needs a profile of 2 ranks or more (--num-ranks)")
        rejected = {}
        for method, name in _VERIFIERS.items():
            law = ground.law(name, sampling)
            counts = range(1, law.num_ranks + 1)
            rejected[method] = np.array([1 - law.of_children(0, k).sum() for k in counts])
        own = rejected["Sequoia"]
        scale = np.log(np.arange(1, len(own) + 1))
        exponent, _ = np.polyfit(scale, np.log(own), 1)
        straight = np.corrcoef(scale, np.log(own))[0, 1] ** 2
        numbers += [
            RowNumber(
                method,
                each[k - 1],
                None,
                f"{where}, {k} children",
                k == min(8, len(own)),
                spot=Spot(method, k, where),
            )
            for method, each in rejected.items()
            for k in range(1, len(each) + 1)
        ]
        numbers += [
            RowNumber("exponent b of Sequoia's", -exponent, None, where),
            RowNumber("R2 of the power law", straight, None, where),
        ]
        holds &= straight >= 0.95
        for method, other in rejected.items():
            both = min(len(own), len(other))
            more = np.flatnonzero(own[:both] > other[:both] + _EXACT)
            if len(more):
                against.append(f"{where}, {more[0] + 1} children or more ({method})")
    note = f"not at {', '.join(against)}" if against else ""
    return RowResult.of(ground.source(), numbers, holds and not against, note)


def one_tree(ground: Ground) -> RowResult:
    """One tree under three verifiers at every temperature."""
    tree = ground.best(128, "rrsw", ground.random_samplings[0], depth=6)
    numbers, gains = [], []
    for sampling in ground.samplings:
        tokens = {
            method: ground.tokens(tree, _VERIFIERS[method], sampling)
            for method in ("Sequoia", "SpecInfer", "top-k")
        }
        numbers += [
            RowNumber(method, each, None, str(sampling), spot=Spot(method, sampling.temperature))
            for method, each in tokens.items()
        ]
        gains.append([tokens["Sequoia"] / tokens[other] for other in ("SpecInfer", "top-k")])
    most = np.max(gains, axis=0)
    numbers += [
        RowNumber("over SpecInfer", most[0], 1.65, "at most"),
        RowNumber("over top-k", most[1], 1.27, "at most"),
    ]
    source = f"{ground.source()}; best tree of 128 nodes, 6 levels"
    return RowResult.of(source, numbers, np.min(gains) >= 1 - _EXACT, "printed: of speed")


def cut_tails(ground: Ground) -> RowResult:
    """Tokens of one tree on random pairs whose tails are cut."""
    shares, toy = {0.8: (3.18, 2.93, 2.90), 0.9: (3.27, 3.01, 2.71), 1.0: (3.26, 3.10, 2.44)}, 4
    num_pairs = min(ground.num_pairs, 300)
    pair = toy_pairs(toy, num_pairs)
    names = ("rrsw", "rrs", "topk")
    whole = acceptance_rates(*pair, "rrsw", 8).mean(axis=0)
    tree = best_tree(whole, 128, 6)
    numbers, holds = [], True
    for share, known in shares.items():
        p, q = (top_p(each, share) for each in pair)
        tokens = [expected_tokens(tree, acceptance_rates(p, q, n, 8).mean(axis=0)) for n in names]
        cells = zip(("Sequoia", "SpecInfer", "top-k"), tokens, known, strict=True)
        numbers += [RowNumber(*cell, f"top-p {share:g}") for cell in cells]
        holds &= tokens[0] >= max(tokens)
    source = f"{num_pairs} random pairs (T=0.5, lambda=0.7); best tree of 128 nodes, 6 levels"
    return RowResult.of(source, numbers, holds)


def top_p(law: np.ndarray, share: float) -> np.ndarray:
    """The likeliest tokens of each row that have so much probability together, renormalised.

    law  float64 [..., V]
    """
    order = np.argsort(-law, axis=-1, kind="stable")
    falling = np.take_along_axis(law, order, -1)
    kept = falling.cumsum(axis=-1) - falling < share
    cut = np.zeros_like(law)
    np.put_along_axis(cut, order, np.where(kept, falling, 0.0), -1)
    return cut / cut.sum(axis=-1, keepdims=True)
