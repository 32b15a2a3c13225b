"""Exports as lists of rank paths, which Medusa and EAGLE-1 take for a fixed tree."""

from __future__ import annotations

from ..schema import PlannerError
from .settings import as_json, rank_paths
from .task import MATCHED_TREE, Export, Task

MOST_RANKS = 10
"""Of a node's tokens, in both programs."""


class Paths:
    """The ranks on the way to each node."""

    def __init__(self, *notes: str) -> None:
        self._notes = notes

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_TREE,))
        width = choice.plan.drafting.most_children
        if width > MOST_RANKS:
            raise PlannerError(
                f"plan: got a node with {width} children, expected at most {MOST_RANKS}, the "
                f"ranks that {task.engine} knows; plan with a tighter tree"
            )
        notes = (f"predicted for the profiled draft, not for heads of {task.engine}", *self._notes)
        return Export(as_json(rank_paths(choice.plan.tree)), choice.plan, notes)
