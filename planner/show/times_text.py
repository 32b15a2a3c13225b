"""A profile's times as they look in a terminal, at one batch size and context."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..documents.counted import counted
from ..documents.times import Costs, Curve
from .tables import Shown, table

MOST_ROWS = 20
"""Rows of a table of times, at most."""

UNSTEADY = 1.25
"""Upper over lower quartile of the times of most passes, or of the sweeps' paces, from which on a
profile says so."""
STEADIER = (
    "if nothing else runs on this machine, its cores are shared with others: fewer --threads may "
    "be steadier"
)

BY_ROWS = " (read off one request with as many rows)"
FEW = (2, 4, 8)
"""Nodes for which it is said what else a step takes, by who decides on its tree."""


def show_times(costs: Costs) -> Iterator[Shown]:
    """Tables by size, and by who decides on a step's tree."""
    yield _by_size(costs)
    if costs.growing is not None:
        yield _by_policy(costs)
    unsteady = "; ".join(_unsteady(costs))
    if unsteady:
        yield f"unsteady: {unsteady}; {STEADIER}"


def _by_size(costs: Costs) -> Shown:
    how = BY_ROWS if costs.by_rows else ""
    at = f", {costs.sampling}" if costs.sampling else ""
    alone = (costs.target_step, costs.draft_step, costs.draft_root)
    target, draft, root = (f"{curve.median_ms[0]:.2f} ms" for curve in alone)
    title = (
        f"batch {costs.batch_size}{how}, context {costs.context}{at}: one token alone {target} "
        f"(target), {draft} (draft); first draft pass of a step {root}; below, in ms, "
        "verifying n nodes, a later draft pass over n nodes, and what else a step takes, by "
        "verifier (medians)"
    )
    if costs.are_whole:
        title = (
            f"batch {costs.batch_size}{how}, context {costs.context}{at}: one token alone "
            f"{target}; below, in ms, whole steps of n nodes (medians)"
        )
        rows = [[str(n), _words(costs.verify, n)] for n in costs.verify.counts]
        return table(title, ["n", "step"], rows)
    curves = {"verify": costs.verify, "draft pass": costs.draft}
    if costs.growing is not None:
        curves["growing"] = costs.growing.draft
    curves |= costs.overhead
    rows = [[str(n), *(_words(each, n) for each in curves.values())] for n in _shown_counts(costs)]
    return table(title, ["n", *curves], rows)


def _by_policy(costs: Costs) -> Shown:
    verifier, overhead = next(iter(costs.overhead.items()))
    title = (
        "by who decides on a step's tree, in ms: its first draft pass, a later one over 1 node, "
        f"and all else with {verifier}, by number of nodes"
    )
    growing = {"growing trees": costs.growing, "chains": costs.chains}
    growing |= {f"chains, head {head[:8]}": times for head, times in costs.scored.items()}
    timed = {"fixed trees": (costs.draft_root, costs.draft, overhead)}
    for name, times in growing.items():
        if times is not None:
            timed[name] = (times.draft_root, times.draft, times.overhead)
    headings = ["", "first pass", "later pass", *(f"{n} nodes" for n in FEW)]
    rows = [
        [name, _words(root, 1), _words(draft, 1), *(_words(rest, n) for n in FEW)]
        for name, (root, draft, rest) in timed.items()
    ]
    return table(title, headings, rows)


def _words(curve: Curve, count: int) -> str:
    """The time at a count; nothing where it was not measured."""
    if count not in curve.counts:
        return ""
    ms = curve.median_ms[curve.counts.index(count)]
    return f"{ms:.3g}" if ms < 1000 else f"{ms:.0f}"


def _shown_counts(costs: Costs) -> list[int]:
    """The counts at which more than tree sizes was timed, of which there are too many to look at (a
    figure has them), and the largest tree; all sizes of small profiles."""
    sizes = costs.verify.counts
    if len(sizes) <= MOST_ROWS:
        return sorted({*sizes, *costs.draft.counts})
    few = min(costs.overhead.values(), key=lambda curve: len(curve.counts))
    widths = costs.draft.counts
    if len(widths) > MOST_ROWS:  # predicted ones cost nothing
        widths = [width for width in widths if width.bit_count() == 1]
    return sorted({1, *widths, *few.counts[:MOST_ROWS], sizes[-1]})


def _unsteady(costs: Costs) -> Iterator[str]:
    """Was the whole machine faster and slower, and did one and the same pass take other times?"""
    if costs.pace:
        low, high = np.percentile(costs.pace, [25, 75])
        if high >= UNSTEADY * low:
            yield (
                f"a quarter of the sweeps took at least {high / low:.2f} times as long as the "
                "fastest quarter (times here are as at the median pace)"
            )
    verify = costs.verify
    ratios = np.divide(verify.high_ms, verify.low_ms)
    if np.median(ratios) >= UNSTEADY:
        worst = int(ratios.argmax())
        yield (
            f"a quarter of the passes over {counted(verify.counts[worst], 'node')} took at "
            f"most {verify.low_ms[worst]:.3g} ms, a quarter at least {verify.high_ms[worst]:.3g}"
        )
