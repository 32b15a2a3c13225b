"""The same trees by name, as lists of three kinds, in files, and as plans."""

from __future__ import annotations

import json

import pytest

from planner import PlannerError, Tree
from planner.export.notations import rank_paths
from planner.export.tree_words import MOST_NODES, tree_of_words
from tests.documents.samples import plan_content

BRANCHED = [-1, 0, 0, 1, 1, 2, 2]
KINDS = {
    "5x2": [-1, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5],
    "2 × 2": [-1, 0, 0, 1, 2],
    "1x3": [-1, 0, 1, 2],
    "3x1": [-1, 0, 0, 0],
    "2^2": BRANCHED,
    "2,2": BRANCHED,
    "[2, 2]": BRANCHED,
    "4": [-1, 0, 0, 0, 0],
    "2, 1": [-1, 0, 0, 1, 2],
    "2 1": [-1, 0, 0, 1, 2],
    "[-1, 0, 0, 1]": [-1, 0, 0, 1],
    "[-1]": [-1],
    "[[0], [1], [0, 0]]": [-1, 0, 0, 1],
    "mc_sim = [(0,), (1,), (0, 0)]": [-1, 0, 0, 1],
}
"""Words -> parents, written out by hand."""


@pytest.mark.parametrize("words", KINDS)
def test_words_mean_the_tree_and_so_does_a_file_that_holds_them(words, tmp_path):
    assert tree_of_words(words).parents.tolist() == KINDS[words]
    (tmp_path / "tree.txt").write_text(f"{words}\n")
    assert tree_of_words(str(tmp_path / "tree.txt")) == Tree(KINDS[words])


@pytest.mark.parametrize("parents", [[-1, 0, 0, 1], BRANCHED, [-1, 0, 0, 0, 2, 2, 4]])
def test_paths_and_parents_are_one_tree(parents):
    tree = Tree(parents)
    assert tree_of_words(json.dumps(parents)) == tree
    assert tree_of_words(json.dumps(rank_paths(tree))) == tree


def test_a_plan_means_its_tree(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_content()))
    assert tree_of_words(str(path)) == Tree([-1, 0, 0, 1])
    growing = {"kind": "dynamic", "max_depth": 3, "num_tokens": 3, "confidence": 0.3}
    path.write_text(json.dumps(plan_content() | {"drafting": growing}))
    with pytest.raises(PlannerError, match="another tree in every step"):
        tree_of_words(str(path))


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("abc", "expected a file, or a shape: 5x8"),
        ("", "expected a file, or a shape: 5x8"),
        ("0x3", "expected a file, or a shape: 5x8"),
        ("2,,1", "expected a file, or a shape: 5x8"),
        ("[]", "got []"),
        ("[1, true]", "got [1, True]"),
        ("[0, 1]", "got 0 children a node"),
        ("[1, 2", "not valid JSON"),
        ("[-1, 1]", "parents[1]: got 1"),
        ("[[1]]", "stands there without [0]"),
        ("[[]]", "expected ranks"),
        ("99999999999999", f"expected at most {MOST_NODES}"),
        ("9^99", f"expected at most {MOST_NODES}"),
        ("1^999999999", f"expected at most {MOST_NODES}"),
        ("99999x99999", f"expected at most {MOST_NODES}"),
    ],
)
def test_what_means_no_tree_is_one_line(words, fault):
    with pytest.raises(PlannerError) as caught:
        tree_of_words(words)
    assert fault in str(caught.value)
    assert str(caught.value).startswith(f"tree {words!r}: ")
    assert "\n" not in str(caught.value)
