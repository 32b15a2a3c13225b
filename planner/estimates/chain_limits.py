"""Does it change a step how many tokens its chain may have?

An engine is told how many, and makes room for them.  That can change what all its steps take, also
those that draft fewer: llama.cpp's passes over a few tokens take up to a third more under one limit
than under another (docs/results/engines.md).  A profile's tables are of full chains, each of them
under a limit of its own length; so this is said of chains that end early.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..documents.times import Costs
from .time_table import TimeTable, table_of

CHAIN_LIMIT = "tree size (chain limit)"


def limits_of(costs: Costs) -> dict[int, TimeTable]:
    """Milliseconds that steps of chains that end early take besides those of full chains, by the
    limit and by nodes; those that are not begun, besides those under the first limit."""
    if costs.unbegun is None:
        return {}
    alone = table_of(costs.unbegun, CHAIN_LIMIT)
    ended = {most: table_of(curve, CHAIN_LIMIT) for most, curve in costs.ended.items()}
    full = [(most + 1, *table(most + 1)) for most, table in sorted(ended.items())]
    counts, ms, errors = np.array(full).T
    found = {}
    for most, table in ended.items():
        nodes = np.arange(2, most + 2)
        own, lone, first = np.interp(nodes, counts, ms), alone(most), alone(alone.first)
        own_errors = np.interp(nodes, counts, errors)
        own_errors[-1] = table.error_ms[-1] = 0.0  # of itself
        found[most] = TimeTable(
            what=CHAIN_LIMIT,
            first=1,
            ms=np.concatenate([[lone.ms - first.ms], table.ms - own]),
            error_ms=np.concatenate([[lone.error_ms], np.hypot(table.error_ms, own_errors)]),
        )
    return found


def limit_of(limits: Mapping[int, TimeTable], most: int) -> TimeTable | None:
    """The milliseconds that steps take besides what the tables say, by nodes, where a chain may
    have `most` tokens; between two limits that were timed, linearly.  None: none.

    limits  see `limits_of`
    """
    if not limits or most < 1:
        return None
    known = sorted(limits)
    most = min(max(most, known[0]), known[-1])
    below = max(each for each in known if each <= most)
    above = min(each for each in known if each >= most)
    if below == above:
        return limits[most]
    return _mixed(limits[below], limits[above], (most - below) / (above - below), most)


def _mixed(one: TimeTable, two: TimeTable, weight: float, most: int) -> TimeTable:
    """(1 - weight) of the smaller limit's and weight of the larger one's, for a limit of `most`
    tokens between them; a chain that has them all is a full one."""
    parts = []
    for small, large in ((one.ms, two.ms), (one.error_ms, two.error_ms)):
        mixed = weight * large[: most + 1]
        mixed[: len(small)] += (1 - weight) * small
        mixed[most] = 0.0
        parts.append(mixed)
    return TimeTable(one.what, 1, *parts)
