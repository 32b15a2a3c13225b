"""Models, plans and numbers in words."""

from __future__ import annotations

from functools import singledispatch

from ..documents.origin import ModelInfo
from ..plans.plan import Plan
from ..policies.settings import (
    ConfidentDrafting,
    Drafting,
    DynamicDrafting,
    GreedyDrafting,
    PriceDrafting,
    StoppingDrafting,
    ThresholdDrafting,
    TreeDrafting,
)


def model_words(info: ModelInfo) -> str:
    """Name and size of a model, and, if it was inflated, what that means for the numbers."""
    words = f"{info.name} ({info.num_parameters / 1e6:.3g} M parameters)"
    if info.inflated_from:
        words += ", inflated: costs are this shape's, acceptance is the small model's"
    return words


def summary(plan: Plan) -> str:
    """One line: what the plan does and what it is expected to bring."""
    what = f"{drafting_words(plan.drafting)}, {plan.verifier}"
    if not plan.speculates:
        what = "do not speculate"
    line = f"{what}, {plan.sampling}"
    if plan.predicted:
        line += (
            f": predicted {plan.predicted.tokens_per_step} tokens per step, "
            f"speedup {plan.predicted.speedup}"
        )
        if plan.predicted.optimality_gap is not None:
            line += f", {certificate(plan.predicted.optimality_gap)} (proven)"
    return line


@singledispatch
def drafting_words(drafting: Drafting) -> str:
    """What is drafted, in a few words."""
    raise NotImplementedError(f"no words for {type(drafting).__name__}")


@drafting_words.register
def _(drafting: TreeDrafting) -> str:
    if drafting.most_children == 1:
        return f"chain of {tokens(drafting.tree.depth)}"
    return f"tree of {drafting.most_nodes} nodes, depth {drafting.tree.depth}"


@drafting_words.register
def _(drafting: GreedyDrafting) -> str:
    return (
        f"trees of {drafting.num_nodes} nodes, the likeliest place first, at most "
        f"{levels(drafting.max_depth)}"
    )


@drafting_words.register
def _(drafting: ThresholdDrafting) -> str:
    return (
        f"trees of all places likelier than {drafting.threshold:g}, at most "
        f"{drafting.num_nodes} nodes and {levels(drafting.max_depth)}"
    )


@drafting_words.register
def _(drafting: PriceDrafting) -> str:
    what = "chains" if drafting.most_children == 1 else "trees"
    return (
        f"{what} grown at {drafting.price_per_ms:.3g} tokens per ms, at most {drafting.num_nodes} "
        f"nodes and {levels(drafting.max_depth)}"
    )


@drafting_words.register
def _(drafting: StoppingDrafting) -> str:
    return (
        f"chains that end once {drafting.score} says that one in them is rejected with chance "
        f"{drafting.threshold:g}, at most {tokens(drafting.max_depth)}"
    )


@drafting_words.register
def _(drafting: DynamicDrafting) -> str:
    most = drafting.max_depth
    length = f"{tokens(min(drafting.num_tokens, most))} ({drafting.schedule})"
    if drafting.schedule == "heuristic":
        length += f" at first, at most {most}"
    return f"chains of {length}, ended below probability {drafting.confidence:g}"


@drafting_words.register
def _(drafting: ConfidentDrafting) -> str:
    return (
        f"chains of at most {tokens(drafting.max_depth)}, ended where no token has probability "
        f"{drafting.confidence:g}"
    )


def levels(depth: int) -> str:
    """1 level, 2 levels."""
    return counted(depth, "level")


def tokens(length: int) -> str:
    """1 token, 2 tokens."""
    return counted(length, "token")


def counted(number: int, noun: str) -> str:
    """1 level, 2 levels."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def certificate(gap: float) -> str:
    """What an optimality gap says, in words."""
    if gap < 0.0005:
        return "no static tree within the limits is faster"
    if gap < 1:
        return f"within {percent(gap)} of the best static tree"
    return f"the best static tree at most {1 + gap:.1f} times as fast"


def percent(share: float) -> str:
    """With a digit behind the point: 1.2 %."""
    return f"{100 * share:.1f} %"
