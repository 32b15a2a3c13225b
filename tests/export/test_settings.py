"""Numbers and lists in engines' notations, by hand."""

import ast

import numpy as np
import pytest
import yaml

from planner import Tree
from planner.estimates.law import AcceptanceLaw
from planner.export import sglang, trtllm
from planner.export.hugging_face import settings_of
from planner.export.notations import as_flags, as_json, as_yaml, by_position, ranges, rank_paths
from planner.policies import ConfidentDrafting, DynamicDrafting, TreeDrafting

#     0
#    / \
#   1   2
#  / \   \
# 3   4   5
TREE = Tree([-1, 0, 0, 1, 1, 2])


def test_rank_paths_by_hand():
    assert rank_paths(TREE) == [(0,), (1,), (0, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize("seed", range(10))
def test_rank_paths_name_every_node_once_after_its_parent(seed):
    rng = np.random.default_rng(seed)
    parents = [-1]
    for node in range(1, 20):
        parents.append(int(rng.integers(max(parents[-1], 0), node)))
    paths = rank_paths(Tree(parents))
    assert len(set(paths)) == len(paths) == 19
    for place, path in enumerate(paths):
        assert path[:-1] == () or path[:-1] in paths[:place]
        assert path[-1] == 0 or (*path[:-1], path[-1] - 1) in paths[:place]
    assert ast.literal_eval(str(paths)) == paths


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ([(1, 3)], [(1, 1, 3)]),
        ([(4, 3), (16, 1)], [(1, 4, 3), (5, 16, 1)]),
        ([(1, 3), (8, 3), (32, 0)], [(1, 8, 3), (9, 32, 0)]),
    ],
)
def test_ranges_by_hand(schedule, expected):
    assert ranges(schedule) == expected


def test_chances_by_position_are_reach_summed_by_depth():
    reach = AcceptanceLaw.by_rank([0.6, 0.2]).reach(TREE)
    assert by_position(reach, TREE.depths) == pytest.approx([0.8, 0.36 + 0.12 + 0.12])
    assert by_position([1.0], [0]) == []


def binary(depth: int, num_nodes: int) -> Tree:
    """Full but for its last level."""
    tree = Tree([-1, *((node - 1) // 2 for node in range(1, num_nodes))])
    assert tree.depth == depth
    return tree


@pytest.mark.parametrize(
    ("tree", "scored", "bounded"),
    [
        (Tree([-1, 0, 0]), 2, 2),
        (Tree([-1, 0, 1, 2, 3]), 1, 1),
        (binary(3, 11), 2, 4),
        (binary(3, 12), 3, 4),
        (binary(3, 14), 3, 5),
    ],
)
def test_widths_with_which_engines_score_so_many_tokens(tree, scored, bounded):
    """SGLang: k + (depth - 1) k^2 >= nodes: 2 + 2 * 4 = 10 with k = 2, 3 + 2 * 9 = 21 with k = 3.
    TensorRT-LLM: k depth >= nodes: 10, 11 and 13 nodes in 3 levels need 4, 4 and 5."""
    assert sglang.least_width(tree) == scored
    assert trtllm.least_width(tree) == bounded


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ([(1, 4), (8, 2), (32, 0)], {1: 4, 8: 2, 32: 0}),
        ([(1, 3), (8, 5), (32, 1)], {8: 3, 32: 1}),
        ([(1, 0), (8, 2)], {8: 1}),
    ],
)
def test_lengths_by_upper_bound_start_with_the_longest(schedule, expected):
    assert trtllm.by_upper_bound(schedule) == expected


def test_flags_and_json_are_one_line():
    assert as_flags({"a": 1, "b": None, "c": "x/y"}) == "--a 1 --c x/y\n"
    assert as_json({"a": [(1, 2)]}) == '{"a": [[1, 2]]}\n'


def test_flags_that_a_shell_would_take_apart_are_quoted():
    assert as_flags({"model": "my models/it's"}) == "--model 'my models/it'\"'\"'s'\n"


def test_yaml_is_what_a_yaml_reader_reads():
    config = {"a": "x: y", "on": True, "n": 3, "none": None, "empty": {}, "by": {1: 4, 8: 2}}
    expected = {"a": "x: y", "on": True, "n": 3, "by": {1: 4, 8: 2}}
    read = yaml.safe_load(as_yaml({"speculative_config": config}))["speculative_config"]
    assert {str(key) if key is not True else "on": value for key, value in read.items()} == expected


@pytest.mark.parametrize(
    ("drafting", "confidence"),
    [
        (TreeDrafting(parents=[-1, 0, 1, 2, 3, 4]), 0.0),
        (ConfidentDrafting(max_depth=5, confidence=0.3), 0.3),
        (DynamicDrafting(max_depth=5, num_tokens=5, confidence=0.2), 0.2),
    ],
)
def test_transformers_is_told_the_length_and_the_confidence(drafting, confidence):
    told = settings_of(drafting)
    assert told["num_assistant_tokens"] == 5
    assert told["num_assistant_tokens_schedule"] == "constant"
    assert told["assistant_confidence_threshold"] == confidence
