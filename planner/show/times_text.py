"""A profile's times as they look in a terminal, at one batch size and context."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from ..documents.counted import counted
from ..documents.times import Costs, Curve
from .tables import table

MOST_ROWS = 20
"""Rows of a table of times, at most."""

UNSTEADY = 1.25
"""Upper over lower quartile of the times of most passes, or of the sweeps' paces, from which on a
profile says so."""
ADVICE = (
    "if nothing else runs on this machine, its cores are shared with others: fewer --threads may "
    "be steadier"
)

FEW = (2, 4, 8)
"""Nodes for which it is said what else a step takes, by who decides on its tree."""


def show_times(costs: Costs) -> list[RenderableType]:
    """Tables by size, and by who decides on a step's tree."""
    parts: list[RenderableType] = [_by_size(costs)]
    if costs.growing is not None:
        parts += [Text(), _by_policy(costs)]
    unsteady = [each for each in (_changes(costs.pace), _spread(costs.verify)) if each]
    return [*parts, Text(f"unsteady: {'; '.join(unsteady)}; {ADVICE}")] if unsteady else parts


def _by_size(costs: Costs) -> RenderableType:
    title = (
        f"batch {costs.batch_size}, context {costs.context}: one token alone "
        f"{costs.target_step.low_ms[0]:.2f} ms (target), {costs.draft_step.low_ms[0]:.2f} ms "
        f"(draft); first draft pass of a step {costs.draft_root.low_ms[0]:.2f} ms; below, in ms, "
        "verifying n nodes, a later draft pass over n nodes, and what else a step takes, by "
        "verifier (lower quartiles)"
    )
    curves = {
        "verify": costs.verify,
        "draft pass": costs.draft,
        **({} if costs.growing is None else {"growing": costs.growing.draft}),
        **costs.overhead,
    }
    rows = [
        [str(n), *(_words(curve, n) for curve in curves.values())] for n in _shown_counts(costs)
    ]
    return table(title, ["n", *curves], rows)


def _by_policy(costs: Costs) -> RenderableType:
    verifier = next(iter(costs.overhead))
    title = (
        "by who decides on a step's tree, in ms: its first draft pass, a later one over 1 node, "
        f"and all else with {verifier}, by number of nodes"
    )
    fixed = (costs.draft_root, costs.draft, costs.overhead[verifier])
    growing = {
        "growing trees": costs.growing,
        "chains": costs.chains,
        **{f"chains, head {head[:8]}": times for head, times in costs.scored.items()},
    }
    rows = {"fixed trees": fixed} | {
        name: (times.draft_root, times.draft, times.overhead)
        for name, times in growing.items()
        if times is not None
    }
    headings = ["", "first pass", "later pass", *(f"{n} nodes" for n in FEW)]
    return table(
        title,
        headings,
        [
            [name, _words(root, 1), _words(draft, 1), *(_words(rest, n) for n in FEW)]
            for name, (root, draft, rest) in rows.items()
        ],
    )


def _words(curve: Curve, count: int) -> str:
    """The time at a count; nothing where it was not measured."""
    return f"{curve.low_ms[curve.counts.index(count)]:.3g}" if count in curve.counts else ""


def _shown_counts(costs: Costs) -> list[int]:
    """Where more than tree sizes was timed, of which there are too many to look at (a figure has
    them), and the largest tree; all sizes of small profiles."""
    sizes = costs.verify.counts
    if len(sizes) <= MOST_ROWS:
        return sorted({*sizes, *costs.draft.counts})
    few = min(costs.overhead.values(), key=lambda curve: len(curve.counts))
    return sorted({1, *costs.draft.counts, *few.counts[:MOST_ROWS], sizes[-1]})


def _changes(pace: Sequence[float]) -> str:
    """What there is to know where the whole machine was faster and slower."""
    if not pace:
        return ""
    low, high = np.percentile(pace, [25, 75])
    if high < UNSTEADY * low:
        return ""
    return (
        f"a quarter of the sweeps took at least {high / low:.2f} times as long as the fastest "
        "quarter (times here are as at the median pace)"
    )


def _spread(verify: Curve) -> str:
    """What there is to know where one and the same pass took different times."""
    ratios = np.divide(verify.high_ms, verify.low_ms)
    if np.median(ratios) < UNSTEADY:
        return ""
    worst = int(ratios.argmax())
    return (
        f"a quarter of the passes over {counted(verify.counts[worst], 'node')} took at "
        f"most {verify.low_ms[worst]:.3g} ms, a quarter at least {verify.high_ms[worst]:.3g}"
    )
