"""Figures stand for the numbers that they are drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from planner import PlannerError, Report
from planner.cli import main
from planner.documents.sampling import Sampling
from planner.estimates.assumed_acceptance import PowerLaw
from planner.optimizer import solve
from planner.show.drawing import DRAFT, TIP, apart
from planner.show.figures import plan_figure, report_figure
from planner.show.profile_drawing import acceptance_figure
from planner.show.speed_figure import Outcome, speed_figure
from planner.show.step_times_figure import step_times_figure
from planner.show.step_trees_figure import step_trees_figure
from planner.show.tree_figure import tree_figure
from tests.documents import samples
from tests.optimizer import factory

from .profiles import two_verifiers
from .test_view import estimate

PLAN = solve(two_verifiers(), solver="fixed")
WARM = Sampling(temperature=0.6)


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


def rejected(profile, sampling=WARM):
    """The axes of the picture, and its words by their text."""
    (axes,) = acceptance_figure(profile, sampling).axes
    return axes, {text.get_text(): text.xy for text in axes.texts}


def test_every_verifier_has_its_name_at_the_end_of_its_line():
    profile = two_verifiers()
    axes, names = rejected(profile)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_legend() is None
    for entry in profile.acceptance:
        x, y = names[entry.verifier]
        assert (x, y) == pytest.approx((entry.num_ranks, 1 - entry.by_count()[-1]))


def test_the_straight_line_is_the_law_of_who_rejects_least():
    axes, names = rejected(two_verifiers())
    (entry, _) = two_verifiers().acceptance  # rrsw, the better one
    law = PowerLaw.near(1 - entry.by_count())
    assert f"power law, {1 - law.first:.2g} / k^{law.exponent:.2g}" in names
    xs, ys = np.log(axes.lines[0].get_xydata()).T
    assert np.diff(ys) / np.diff(xs) == pytest.approx(-law.exponent)


def test_a_line_ends_where_nothing_is_rejected_any_more():
    entry = factory.positional([[0.5, 0.25, 0.25, 0.0]] * 2, temperature=0.0)
    _, names = rejected(factory.profile([entry]), Sampling(temperature=0.0))
    assert names["all verifiers"] == pytest.approx((2, 0.25))


def test_nothing_accepted_at_all_is_drawn_without_a_law():
    _, names = rejected(factory.profile([factory.positional([[0.0, 0.0]] * 2)]))
    assert set(names) == {"rrsw"}


@pytest.mark.parametrize("seed", range(5))
def test_names_are_moved_apart_and_no_further(seed):
    rng = np.random.default_rng(seed)
    heights = np.sort(rng.random(7)).tolist()
    moved = np.array(apart(heights, 0.1))
    assert np.diff(moved).min() >= 0.1 - 1e-12
    cost = ((moved - heights) ** 2).sum()
    for _ in range(300):  # any other heights that are far enough apart cost more
        other = np.sort(moved + rng.normal(0, 0.05, 7))
        if np.diff(other).min() >= 0.1:
            assert ((other - heights) ** 2).sum() > cost
    assert apart(moved.tolist(), 0.1) == pytest.approx(moved.tolist())


def test_the_times_of_steps_are_drawn_in_their_shares():
    """1 to 100 ms, of which the longest is beyond the scale."""
    times = [float(ms) for ms in range(1, 101)]
    content = samples.report_content()
    content["continuations"][0] |= {"tokens_by_step": [1] * 100, "ms_by_step": times}
    report = Report.parse(content, "sample")
    (axes,) = step_times_figure(report).axes
    assert sum(bar.get_height() for bar in axes.patches if bar.get_gid()) == pytest.approx(0.99)
    assert axes.get_xlabel() == "ms (1.0 % of the steps took longer, up to 100)"
    (mean,) = (text for text in axes.texts if "measured" in text.get_text())
    assert (mean.get_text(), mean.xy[0]) == ("50.5 measured, on average", 50.5)


def test_a_report_with_times_of_steps_is_drawn_with_them():
    content = samples.report_content()
    content["plan"] = PLAN.model_dump(mode="json")
    untimed = Report.parse(content, "sample")
    content["continuations"][0]["ms_by_step"] = [3.0, 3.0]
    timed = Report.parse(content, "sample")
    assert len(report_figure(timed).axes) == len(report_figure(untimed).axes) + 1
    content["continuations"][0]["ms_by_step"] = [3.0]
    with pytest.raises(PlannerError, match=r"ms_by_step of 2 entries, one a step, not 1"):
        Report.parse(content, "sample")


def test_a_plan_without_reach_is_drawn():
    unknown = PLAN.model_copy(
        update={"predicted": PLAN.predicted.model_copy(update={"reach": None})}
    )
    tips = [line.get_gid() for line in plan_figure(unknown).axes[0].lines if line.get_gid()]
    assert len(tips) == PLAN.tree.num_nodes


STEP_TREE = {
    "continuation": 0, "step": 1, "before": "def f(self", "parents": [-1, 0, 0, 1, 1],
    "tokens": ["self", "):", ",", "\n    ", " #"], "reach": [1.0, 0.75, 0.25, 0.5, 0.125],
    "path": [1, 4], "bonus": " noqa",
}  # fmt: skip


def with_trees():
    content = samples.report_content()
    content["trees"] = [STEP_TREE, STEP_TREE | {"step": 0, "path": []}]
    return Report.parse(content, "sample")


def test_a_steps_tree_stands_with_its_tokens_and_what_was_accepted():
    report = with_trees()
    first, second = step_trees_figure(report.trees).axes
    assert [text.get_text() for text in first.texts] == [
        "self", "):", ",", "↵", "#", "2 of 4 tokens accepted, then “noqa”",
    ]  # fmt: skip
    nodes = [line for line in first.lines if line.get_gid()]
    places = np.array([line.get_xydata()[0] for line in nodes])
    assert places[:, 0].tolist() == report.trees[0].tree.depths.tolist()
    assert places[1, 1] < places[2, 1]  # the first child is nearest the top of a scale that falls
    assert first.yaxis_inverted()
    areas = np.array([line.get_markersize() for line in nodes]) ** 2 - 6
    assert areas / areas[0] == pytest.approx(report.trees[0].reach)
    accepted = [line.get_color() == DRAFT for line in nodes]
    assert accepted == [True, True, False, False, True]
    assert second.texts[-1].get_text() == "0 of 4 tokens accepted, then “noqa”"


def test_a_report_with_trees_is_drawn_with_them():
    content = with_trees().model_dump(mode="json") | {"plan": PLAN.model_dump(mode="json")}
    kept = Report.parse(content, "sample")
    without = kept.model_copy(update={"trees": None})
    assert len(report_figure(kept).axes) == len(report_figure(without).axes) + 2
