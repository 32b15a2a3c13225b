"""A tree by its name, as a list, or in a file: the shapes that people and programs speak of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ..documents.document import PlannerError, read_json, read_text
from ..documents.tree import Tree
from ..optimizer.solvers.uniform import uniform_tree
from ..plans.plan import Plan
from .notations import is_there, literal, tree_of, unassigned

MOST_NODES = 4096
"""The largest tree by its name: what is larger is a slip of the pen."""
EXPECTED = (
    "a file, or a shape: 5x8 (5 chains of 8), 2^4 (2 children a node, 4 levels), 4,2,1 (children "
    "a node, level by level), [-1, 0, 0, 1] (parents), [[0], [0, 0], [1]] (rank paths)"
)


def chains(count: int, length: int) -> Tree:
    """So many chains side by side, which part at the root."""
    _check_size(1 + count * length)
    return Tree([-1, *[0] * count, *range(1, count * (length - 1) + 1)])


def full(count: int, levels: int) -> Tree:
    """Every node above the last level has so many children."""
    return by_level([count] * min(levels, MOST_NODES))


def by_level(counts: Sequence[int]) -> Tree:
    """Every node of a level has as many children as is said of the level, the root's first."""
    size = width = 1
    for count in counts:
        width *= count
        size += width
        _check_size(size)
    return uniform_tree(counts)


NAMES: dict[str, Callable[[int, int], Tree]] = {
    r"([1-9]\d*)\s*[xX×]\s*([1-9]\d*)": chains,
    r"([1-9]\d*)\s*\^\s*([1-9]\d*)": full,
}
"""A pattern of two numbers -> the tree that they mean."""


def tree_of_words(words: str) -> Tree:
    """The tree that is meant: a name, a list, or a file that holds one of these, or a plan.

    Raises PlannerError for what means none.
    """
    text, where = words, f"tree {words[:40]!r}"
    if is_there(words):
        text, where = read_text(words, EXPECTED), words
        if text.lstrip().startswith("{"):
            return _planned(Plan.parse(read_json(words), words), where)
    try:
        return _tree(unassigned(text))
    except PlannerError as error:
        raise PlannerError(f"{where}: {error}") from None


def _planned(plan: Plan, where: str) -> Tree:
    if plan.grows:
        raise PlannerError(
            f"{where}: drafts {plan.drafting.words()}, another tree in every step; expected one "
            "tree for all steps (planner compare grades such plans)"
        )
    return plan.tree


def _tree(text: str) -> Tree:
    for pattern, tree in NAMES.items():
        found = re.fullmatch(pattern, text)
        if found:
            return tree(*(int(number[:9]) for number in found.groups()))
    if re.fullmatch(r"[1-9]\d*((\s*,\s*|\s+)[1-9]\d*)*", text):
        return by_level([int(number[:9]) for number in re.findall(r"\d+", text)])
    if not text.startswith(("[", "(")):
        raise PlannerError(f"got no tree and no file that is there, expected {EXPECTED}")
    return _listed(literal(text, "list"))


def _listed(content: Any) -> Tree:
    """Parents begin with -1; paths are lists; all else are children by level."""
    if not isinstance(content, list | tuple) or not content:
        raise PlannerError(f"got {content!r:.40}, expected {EXPECTED}")
    if all(isinstance(each, list | tuple) for each in content):
        return tree_of(content)
    if not all(type(each) is int for each in content):
        raise PlannerError(f"got {content!r:.40}, expected {EXPECTED}")
    if content[0] == -1:
        return Tree(content)
    if min(content) < 1:
        raise PlannerError(
            f"got {min(content)} children a node, expected 1 or more; a list of parents begins "
            "with -1"
        )
    return by_level(content)


def _check_size(num_nodes: int) -> None:
    if num_nodes > MOST_NODES:
        raise PlannerError(f"got {num_nodes} nodes or more, expected at most {MOST_NODES}")
