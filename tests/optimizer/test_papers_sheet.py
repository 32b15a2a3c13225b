"""The papers' figures are drawn from the numbers of their rows, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from planner import PlannerError
from planner.cli import main
from planner.show import papers
from planner.show.papers import dyspec_rows, sequoia_rows, specdecpp_rows, spechub_rows
from planner.show.papers.ground import Ground
from planner.show.papers.row import Bars, Lines
from planner.show.papers.rows_text import Outcome
from planner.show.papers.sheet import left_out, placed, sheet

from .recorded_trees import in_profile, made_up
from .test_papers import made, row_of


@pytest.fixture(scope="module")
def found() -> list[Outcome]:
    """The rows with pictures, of a profile with recorded trees."""
    ground = Ground(in_profile(made(), made_up(1, num_children=8, num_expanded=30)), 50)
    return [(row, row.result(ground)) for row in papers.ROWS if row.picture is not None]


@pytest.fixture(scope="module")
def panels(found):
    """The axes of the sheet, by their title's beginning."""
    drawn = [axes for axes in sheet(found).axes if axes.get_title("left")]
    return {", ".join(axes.get_title("left").split(", ")[:2]): axes for axes in drawn}


def test_lines_go_through_the_numbers_and_hollow_marks_through_the_printed_ones(found, panels):
    num_printed = 0
    for row, result in found:
        if not isinstance(row.picture, Lines) or isinstance(result, str):
            continue
        axes = panels[f"{row.paper.split(' (')[0]}, {row.name}"]
        drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines
                 if line.get_label() != "printed"}  # fmt: skip
        numbers = placed(result)
        for name, places in drawn.items():
            own = [[s.x, n.computed] for s, n in numbers if s.line == name]
            assert places == sorted(own, key=lambda each: each[0]), (row.name, name)
        assert set(drawn) == {spot.line for spot, _ in numbers}
        shown = [place for line in axes.lines if line.get_label() == "printed"
                 for place in line.get_xydata().tolist()]  # fmt: skip
        known = [[s.x, n.printed] for s, n in numbers if n.printed is not None]
        assert sorted(shown) == sorted(known)
        num_printed += len(known)
    assert num_printed >= 24  # three methods at four sizes, twice


def test_bars_are_as_long_as_their_numbers(found, panels):
    bars = [(row, placed(result)) for row, result in found if isinstance(row.picture, Bars)]
    for row, numbers in bars:
        if numbers:
            axes = panels[f"{row.paper.split(' (')[0]}, {row.name}"]
            assert [bar.get_width() for bar in axes.patches] == [n.computed for _, n in numbers]
    assert sum(bool(numbers) for _, numbers in bars) >= 5


def test_the_numbers_of_figure_2_are_those_of_figure_1_where_both_have_them(found):
    by_name = {row.name: placed(result) for row, result in found if row.paper == sequoia_rows.PAPER}
    largest = {spot.line: n.computed for spot, n in by_name["Figure 2"] if spot.x == 512}
    assert largest == {spot.line: n.computed for spot, n in by_name["Figure 1"]}


def test_stopping_rules_stand_beside_fixed_lengths(found):
    ((_, result),) = [each for each in found if each[0].paper == specdecpp_rows.PAPER
                      and each[0].name == "Figure 3"]  # fmt: skip
    lines = {spot.line for spot, _ in placed(result)}
    assert lines == {specdecpp_rows.FIXED, *specdecpp_rows.SCORES}


def test_acceptance_by_chance_is_the_mean_of_each_part(found):
    ((_, result),) = [each for each in found if each[0].paper == dyspec_rows.PAPER
                      and each[0].name == "Figure 2"]  # fmt: skip
    assert {spot.line for spot, _ in placed(result)} == {"random pairs", "recorded, T=0.6"}
    drawn, accepted = np.array([0.1, 0.15, 0.5]), np.array([1.0, 0.0, 1.0])
    weights = np.array([1.0, 3.0, 1.0])
    spot = dyspec_rows.Spot("random pairs")
    some = dyspec_rows._by_chance(drawn, accepted, weights, "", spot)
    assert [each.computed for each in some] == [0.25, 0.0, 1.0, 0.0, 0.0]
    assert [each.spot and each.spot.x for each in some] == pytest.approx(
        [0.1, None, 0.5, None, None]
    )


def test_the_masks_are_those_whose_blocks_are_counted(panels):
    """A node sees its ancestors, whatever the order: as many cells in both, the root by all."""
    (image,) = panels["DySpec, Figure 7"].images
    cells = np.asarray(image.get_array())
    size = len(cells)
    first, second = cells[:, :size], cells[:, -size:]
    assert first.sum() == second.sum() > size
    assert first[:, 0].all()
    assert second[:, 0].all()
    for mask in (first, second):
        assert mask.tolist() == np.tril(mask).tolist()  # ancestors stand before
    assert num_filled(second) < num_filled(first)


def num_filled(mask: np.ndarray) -> int:
    """Blocks of 8 by 8 with anything in them."""
    blocks = mask.reshape(len(mask) // 8, 8, -1, 8)
    return int(blocks.any(axis=(1, 3)).sum())


def test_the_orders_number_every_node_once(panels):
    words = [text.get_text().split(" · ") for text in panels["DySpec, Figure 6"].texts]
    for numbers in zip(*words, strict=True):
        assert sorted(map(int, numbers)) == list(range(12))


def test_what_is_not_drawn_is_named_in_a_line(monkeypatch, tmp_path):
    some = tuple(
        row_of(spechub_rows, name) for name in ("Figure 2", "Figure 5", "Figure 7", "Table 4")
    )
    monkeypatch.setattr(papers, "ROWS", some)
    png = tmp_path / "papers.png"
    result = CliRunner().invoke(main, ["reproduce", "--num-pairs", "100", "--png", str(png)])
    assert f"wrote {png}; left out, without numbers of their own: SpecHub 2, 7\n" in result.output
    assert png.read_bytes().startswith(b"\x89PNG")
    drawn = [(row, row.result(Ground())) for row in some[1:2]]
    assert left_out(drawn) == ""
    with pytest.raises(PlannerError, match="rows: got none that can be drawn"):
        sheet([(row, row.result(Ground())) for row in some[:1]])
