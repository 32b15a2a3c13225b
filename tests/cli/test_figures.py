"""Figures stand for the numbers that they are drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from planner.cli import main
from planner.optimizer import solve
from planner.show.drawing import TIP
from planner.show.figures import plan_figure
from planner.show.speed_figure import Outcome, speed_figure
from planner.show.tree_figure import tree_figure
from tests.optimizer import factory

from .profiles import two_verifiers
from .test_view import estimate

PLAN = solve(two_verifiers(), solver="fixed")


def marks(figure, begin):
    """(x, y, size) of the marks whose words begin so."""
    (axes,) = figure.axes
    lines = [line for line in axes.lines if str(line.get_gid()).startswith(f"{TIP}{begin}")]
    return [(*map(float, line.get_xydata()[0]), line.get_markersize()) for line in lines]


def test_the_plan_and_what_came_of_it_stand_at_their_speeds():
    measured = (Outcome("a.json", estimate(1.5, 1.4, 1.6)), Outcome("b", estimate(1.2, 1, 1.3)))
    figure = speed_figure(PLAN, two_verifiers(), measured)
    ((nodes, speed, _),) = marks(figure, "the plan")
    assert (nodes, speed) == (PLAN.tree.num_nodes, PLAN.predicted.speedup.value)
    ((first, one, _),) = marks(figure, "a.json")
    ((second, other, _),) = marks(figure, "b:")
    assert (one, other) == (1.5, 1.2)
    assert nodes < first < second


@pytest.mark.parametrize("profile", [None, two_verifiers()])
def test_all_that_was_weighed_is_drawn(profile):
    figure = speed_figure(PLAN, profile)
    drawn = {(x, y) for one in PLAN.made_from.alternatives
             for x, y, _ in marks(figure, f"{one.solver} under {one.verifier}")}  # fmt: skip
    others = [one for one in PLAN.made_from.alternatives if one.speculates]
    assert drawn == {(one.nodes, one.speedup.value) for one in others}


def test_the_line_is_highest_where_the_plan_is():
    figure = speed_figure(PLAN, two_verifiers())
    spots = [*marks(figure, "tree of"), *marks(figure, "chain of")]
    assert len(spots) == 7  # sizes 2 to 8
    x, y, _ = max(spots, key=lambda each: each[1])
    assert x == PLAN.tree.num_nodes
    assert y == pytest.approx(PLAN.predicted.speedup.value, rel=1e-12)


def test_a_nodes_area_is_its_reach_and_children_lie_below_in_their_order():
    tree, reach = PLAN.tree, np.array(PLAN.predicted.reach)
    found = [marks(tree_figure(PLAN), f"node {node},") for node in range(tree.num_nodes)]
    places = np.array([each for ((*each, _),) in found])
    sizes = np.array([size for ((_, _, size),) in found])
    areas = sizes**2 - 8
    assert areas == pytest.approx(areas[0] * reach / reach[0])
    assert places[:, 1].tolist() == (-tree.depths).tolist()
    for children in tree.children:
        assert sorted(children, key=lambda node: places[node, 0]) == list(children)


def test_a_profile_with_siblings_is_drawn(tmp_path):
    entry = factory.positional([[0.6, 0.3, 0.2]] * 2, verifier="kseq", siblings=True)
    factory.profile([entry]).save(tmp_path / "profile.json")
    drawn = CliRunner().invoke(
        main, ["show", str(tmp_path / "profile.json"), "--png", str(tmp_path / "figure.png")]
    )
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_plan_without_reach_is_drawn():
    unknown = PLAN.model_copy(
        update={"predicted": PLAN.predicted.model_copy(update={"reach": None})}
    )
    tips = [line.get_gid() for line in plan_figure(unknown).axes[0].lines if line.get_gid()]
    assert len(tips) == PLAN.tree.num_nodes
