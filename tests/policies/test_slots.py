"""DySpec's two policies: worked examples, slow twins, and what they have to do with each other."""

from __future__ import annotations

import numpy as np
import pytest

from planner.policies import GreedyDrafting, ThresholdDrafting
from tests.policies.driving import Drawn, Grown, Path, grown, of_text, same_everywhere

SIZES = (1, 2, 3, 7, 24, 63, 100)


def greedy(num_nodes: int, max_children: int, max_depth: int = 99):
    settings = GreedyDrafting(num_nodes=num_nodes, max_depth=max_depth, max_children=max_children)
    return settings.policy(deterministic=False)


def threshold(value: float, max_children: int, num_nodes: int = 500, max_depth: int = 99):
    settings = ThresholdDrafting(
        threshold=value, num_nodes=num_nodes, max_depth=max_depth, max_children=max_children
    )
    return settings.policy(deterministic=False)


def one_at_a_time(
    drawn: Drawn, num_nodes: int, max_children: int, max_depth: int
) -> tuple[list[Path], list[float]]:
    """DySpec's Algorithm 1 as a list of slots that is searched anew for every node: the paths of
    the nodes in the order in which they are added, and the values of their slots."""
    paths: list[Path] = [()]
    values: list[float] = []
    slots = [(1.0, 0, 0)] if max_depth > 0 else []  # value, parent, rank
    while slots and len(paths) < num_nodes:
        best = max(slots, key=lambda slot: (slot[0], -slot[1]))
        slots.remove(best)
        value, parent, rank = best
        share = float(drawn(paths[parent])[rank])
        paths.append((*paths[parent], rank))
        values.append(value)
        if len(paths[-1]) < max_depth and value * share > 0:
            slots.append((value * share, len(paths) - 1, 0))
        if rank + 1 < max_children and value * (1 - share) > 0:
            slots.append((value * (1 - share), parent, rank + 1))
    return paths[1:], values


def test_greedy_by_hand():
    """A draft of three tokens, q = (.6, .3, .1), drawn in this order at every node, and a target
    equal to it.  Drawn values: .6, .3/.4 = .75, .1/.1 = 1.

    filled            its slot   leaves below it   leaves beside it
    1 = first of 0    1          .6                .4
    2 = first of 1    .6         .36               .24
    3 = second of 0   .4         .3                .1
    4 = first of 2    .36        .216              .144
    5 = first of 3    .3         .18               .12
    6 = second of 1   .24        .18               .06
    7 = first of 4    .216       .1296             .0864
    """
    policy = greedy(8, 3)
    tree = grown(policy, same_everywhere(0.6, 0.75, 1.0))
    assert tree.parents == [-1, 0, 1, 0, 2, 3, 1, 4]
    assert policy.slot_values == pytest.approx([1, 1, 0.6, 0.4, 0.36, 0.3, 0.24, 0.216])


def test_greedy_by_hand_in_draft_passes():
    """The same tree.  A pass is due when the next slot lies below a node that is not expanded:

    slot   below   with others whose slots are at least
    1      0       (there are none)
    .6     1       (there are none: the other slot, .4, lies below the root)
    .36    2       (.36 + .3 + .24 + .1) / (4 slots + 3 nodes left) = .143: node 3 (.3)
    .216   4       (no node is left after the one that it gives)
    """
    tree = grown(greedy(8, 3), same_everywhere(0.6, 0.75, 1.0))
    number = {path: node for node, path in enumerate(tree.paths)}
    passes = [sorted(number[path] for path in made) for made in tree.passes]
    assert passes == [[0], [1], [2, 3], [4]]


def test_a_certain_token_has_no_sibling():
    """q puts everything on one token: a chain, and no division 0/0."""
    tree = grown(greedy(6, 4), same_everywhere(1.0, 0.0, 0.0, 0.0))
    assert tree.parents == [-1, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize(("max_children", "max_depth"), [(1, 99), (2, 3), (3, 99), (8, 5), (5, 1)])
@pytest.mark.parametrize("sharpness", [0.05, 0.3, 2.0])
def test_greedy_is_the_slow_policy_however_draft_passes_are_shared(
    num_nodes, max_children, max_depth, sharpness
):
    drawn = of_text(num_nodes, max_children, sharpness=sharpness)
    policy = greedy(num_nodes, max_children, max_depth)
    for _ in range(2):  # a second step starts anew
        tree = grown(policy, drawn, max_depth=max_depth)
        paths, values = one_at_a_time(drawn, num_nodes, max_children, max_depth)
        assert tree.revealed == paths
        assert policy.slot_values[1:] == pytest.approx(values, rel=1e-12)


def test_shared_passes_are_few():
    """A pass a level or so: far fewer than one for every node with children."""
    drawn = of_text(3, 8)
    tree = grown(greedy(64, 8), drawn)
    with_children = {path[:-1] for path in tree.revealed}
    depth = max(map(len, tree.paths))
    assert len(tree.passes) <= depth + 2 < len(with_children) / 2


@pytest.mark.parametrize("limit", [0, 1, 2, 4])
def test_the_text_s_end_limits_the_depth(limit):
    """The shallower of the plan's limit and the step's."""
    for policy in (greedy(30, 3, 3), threshold(0.01, 3, 30, 3)):
        tree = grown(policy, of_text(1, 3), max_depth=limit)
        assert max(map(len, tree.paths)) == min(3, limit)


@pytest.mark.parametrize("num_nodes", [3, 7, 24, 63])
@pytest.mark.parametrize("max_children", [1, 3, 8])
def test_the_threshold_tree_is_the_greedy_tree_when_its_last_slot_is_the_last_above(
    num_nodes, max_children
):
    """Slots are filled that exceed the threshold, so it is put just below greedy's last value."""
    drawn = of_text(7 * num_nodes, max_children)
    paths, values = one_at_a_time(drawn, num_nodes, max_children, 99)
    last = values[-1]
    tree = grown(threshold(float(np.nextafter(last, 0.0)), max_children), drawn)
    assert set(tree.paths) == {(), *paths}
    without = grown(threshold(last, max_children), drawn)
    assert set(without.paths) == {(), *paths[:-1]}


def above(drawn: Drawn, value: float, max_children: int, max_depth: int) -> set[Path]:
    """All nodes whose slots exceed `value`, by recursion: every slot is looked at by itself."""
    found: set[Path] = {()}

    def fill(path: Path, slot: float, rank: int) -> None:
        if slot <= value or rank == max_children or len(path) == max_depth:
            return
        share = float(drawn(path)[rank])
        found.add((*path, rank))
        fill((*path, rank), slot * share, 0)
        fill(path, slot * (1 - share), rank + 1)

    fill((), 1.0, 0)
    return found


@pytest.mark.parametrize("value", [0.3, 0.05, 0.013])
@pytest.mark.parametrize(("max_children", "max_depth"), [(1, 99), (2, 3), (8, 99)])
def test_threshold_fills_every_slot_above_it(value, max_children, max_depth):
    drawn = of_text(5, max_children)
    tree = grown(threshold(value, max_children, max_depth=max_depth), drawn, max_depth=max_depth)
    assert set(tree.paths) == above(drawn, value, max_children, max_depth)


@pytest.mark.parametrize("num_nodes", [1, 2, 7, 24])
def test_the_limit_of_the_threshold_policy_stops_further_sampling_only(num_nodes):
    """A limited tree is a part of the unlimited one, full to the limit; the levels above the cut
    are whole, and no node is expanded without getting a child."""
    drawn = of_text(11, 5)
    whole = grown(threshold(0.005, 5), drawn)
    assert len(whole.paths) > 24
    tree = grown(threshold(0.005, 5, num_nodes), drawn)
    assert len(tree.paths) == num_nodes
    assert set(tree.paths) <= set(whole.paths)
    depth = max(map(len, tree.paths))
    assert [p for p in sorted(whole.paths) if len(p) < depth] == [
        p for p in sorted(tree.paths) if len(p) < depth
    ]
    parents = {path[:-1] for path in tree.revealed}
    assert {path for made in tree.passes for path in made} == parents


def test_threshold_makes_one_draft_pass_a_level():
    tree = grown(threshold(0.01, 6), of_text(2, 6))
    assert [{len(path) for path in made} for made in tree.passes] == [
        {depth} for depth in range(len(tree.passes))
    ]
    assert len(tree.passes) > 3


@pytest.mark.parametrize(
    "policy", [greedy(40, 4), threshold(0.01, 4, 40)], ids=["greedy", "threshold"]
)
def test_trees_have_parents_before_children_and_ranks_in_order(policy):
    tree: Grown = grown(policy, of_text(9, 4))
    assert all(parent < node for node, parent in enumerate(tree.parents))
    for node, path in enumerate(tree.paths[1:], start=1):
        if path[-1] > 0:
            assert (*path[:-1], path[-1] - 1) in tree.paths[:node]
