"""Exports as lists of rank paths, which Medusa and EAGLE-1 take for a fixed tree."""

from __future__ import annotations

from dataclasses import replace

from ..policies import TreeDrafting
from .notations import HEADS_NOTE, as_json, rank_paths, tree_of
from .setting import OWN_HEADS, Reading, Setting
from .task import Export, Task
from .ways import MATCHED_TREE

SERVED_TREE = replace(MATCHED_TREE, most_children=10)
"""Both programs serve no more tokens of a node."""


class Paths:
    """The ranks on the way to each node."""

    def __init__(self, *notes: str) -> None:
        self._notes = notes

    def export(self, task: Task) -> Export:
        plan = task.choose((SERVED_TREE,)).plan
        return Export(as_json(rank_paths(plan.tree)), plan, (HEADS_NOTE, *self._notes))

    def read(self, setting: Setting) -> Reading:
        if not isinstance(setting.content, list):
            raise setting.error(
                "got settings by name, expected a list of rank paths (trees chosen anew in every "
                "step, as of EAGLE-2, are no plan's)"
            )
        tree = tree_of(setting.content)
        drafting = TreeDrafting(parents=tree.parents.tolist())
        return Reading(drafting, MATCHED_TREE.verifier, (OWN_HEADS, *self._notes))
