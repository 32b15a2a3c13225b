"""Exports as lists of rank paths, which Medusa and EAGLE-1 take for a fixed tree."""

from __future__ import annotations

from .notations import HEADS_NOTE, as_json, rank_paths
from .task import Export, Task
from .ways import list_of_ranks, matched_tree

MOST_RANKS = 10
"""The most tokens of a node that both programs serve."""


class Paths:
    """The ranks on the way to each node."""

    def __init__(self, *notes: str) -> None:
        self._notes = notes

    def export(self, task: Task) -> Export:
        choice = task.choose((matched_tree(list_of_ranks(MOST_RANKS)),))
        return Export(
            as_json(rank_paths(choice.plan.tree)), choice.plan, (HEADS_NOTE, *self._notes)
        )
