"""The papers' figures, drawn from the numbers of their rows on one sheet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from itertools import cycle, groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from ...documents.document import PlannerError
from ...trees.frontier import best_tree
from ..drawing import INK, MANY, MARKS, PAPER, QUIET, TARGET, Name, named, plain
from ..tree_figure import leaf_order
from .mask_blocks import best_first, drafted_order, heavy_path, ordered_mask
from .row import Bars, Lines, Masks, Orders, PaperRow, Picture, RowNumber, RowResult, Spot
from .rows_text import Outcome
from .sequoia_claims import DEMO_ACCEPTANCE

ACROSS = 4
"""Panels beside one another, on a sheet of its own."""
FEW = 4
"""Ticks of a scale, about."""
SIZE = 7.5
"""The size of the words in a panel, in points."""
Placed = tuple[Spot, RowNumber]


def sheet(found: Sequence[Outcome], *, across: int = ACROSS) -> Figure:
    """A panel for each row that has a picture and what it needs; lines and bars are computed here,
    hollow marks are printed in the paper.

    across  panels beside one another: on a page there is room for two

    Raises PlannerError where there is none.
    """
    panels = [(row, placed(result)) for row, result in found if _is_drawn(row, result)]
    if not panels:
        raise PlannerError("rows: got none that can be drawn, expected a profile; name one")
    down = -(-len(panels) // across)
    figure = Figure(figsize=(3 * across, 0.4 + 2.3 * down))
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.07)
    every = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (row, numbers) in zip(every, panels, strict=False):
        under = numbers[0][0].under if numbers else ""
        axes.set_title(f"{_short(row)}, {row.name}" + (f", {under}" if under else ""))
    plain(figure)  # before panels, whose words it would move otherwise
    for axes, (row, numbers) in zip(every, panels, strict=False):
        assert row.picture is not None
        draw_picture(row.picture, axes, numbers)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set(fontsize=SIZE, color=INK)
        axes.tick_params(which="both", labelsize=SIZE)
    for axes in every[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(
        "lines, dots and bars: computed here; hollow marks: printed in the paper",
        x=0.01, ha="left", fontsize=9.5, color=INK,
    )  # fmt: skip
    return figure


def left_out(found: Sequence[Outcome]) -> str:
    """The figures that are not on the sheet, in a line; empty where all are."""
    missing = [row for row, result in found
               if row.name.startswith("Figure") and not _is_drawn(row, result)]  # fmt: skip
    papers = [
        f"{paper} " + ", ".join(row.name.removeprefix("Figure ") for row in rows)
        for paper, rows in groupby(missing, key=_short)
    ]
    return f"left out, without numbers of their own: {'; '.join(papers)}" if papers else ""


def placed(result: RowResult | str) -> list[Placed]:
    """The numbers that are drawn, under the first condition that any is drawn under."""
    if isinstance(result, str):
        return []
    found = [(each.spot, each) for each in result.numbers if each.spot is not None]
    return [(spot, each) for spot, each in found if spot.under == found[0][0].under]


def _is_drawn(row: PaperRow, result: RowResult | str) -> bool:
    return isinstance(row.picture, Masks | Orders) or (
        row.picture is not None and bool(placed(result))
    )


def _short(row: PaperRow) -> str:
    return row.paper.partition(" (")[0]


@singledispatch
def draw_picture(picture: Picture, axes: Axes, numbers: Sequence[Placed]) -> None:
    """Draw a row's numbers as its picture says."""
    raise TypeError(picture)


@draw_picture.register
def _lines(picture: Lines, axes: Axes, numbers: Sequence[Placed]) -> None:
    ends, looks = [], cycle(zip(MANY, MARKS, strict=True))
    names = list(dict.fromkeys(spot.line for spot, _ in numbers))
    for line, (colour, mark) in zip(names, looks, strict=False):
        own = sorted(((s.x, n) for s, n in numbers if s.line == line), key=lambda each: each[0])
        xs, ys = [x for x, _ in own], [n.computed for _, n in own]
        axes.plot(xs, ys, f"{mark}-", ms=3.5, linewidth=1.1, color=colour, label=line)
        known = np.array([(x, n.printed) for x, n in own if n.printed is not None])
        if len(known):
            axes.plot(*known.T, mark, ms=5, color=colour, markerfacecolor=PAPER, label="printed")
        ends.append(Name(line, xs[-1], ys[-1], colour))
    axes.set(xlabel=picture.xlabel, ylabel=picture.ylabel)
    _scaled(axes, picture, sorted({spot.x for spot, _ in numbers}))
    last = max(each.x for each in ends)
    named(axes, [each for each in ends if each.x == last], size=SIZE)
    for each in ends:
        if each.x != last:
            axes.annotate(
                each.words, (each.x, each.y), xytext=(3, 4), textcoords="offset points",
                fontsize=SIZE, color=each.colour,
            )  # fmt: skip


def _scaled(axes: Axes, picture: Lines, places: Sequence[float]) -> None:
    """The scales as the picture has them, with a tick at every place where there are few."""
    if picture.xscale == "log":
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    elif len(places) <= FEW:
        axes.set_xticks(places)
    else:
        whole = all(place == int(place) for place in places)
        axes.xaxis.set_major_locator(MaxNLocator(FEW, integer=whole))
    if picture.yscale == "log":
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")
    axes.margins(y=0.08)
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # names are placed by them


@draw_picture.register
def _bars(picture: Bars, axes: Axes, numbers: Sequence[Placed]) -> None:
    most = max(abs(number.computed) for _, number in numbers)
    for row, (_, number) in enumerate(numbers):
        axes.barh(row, number.computed, height=0.62, color=TARGET)
        words, end = f"{number.computed:.3g}", number.computed
        if number.printed is not None:
            axes.plot(number.printed, row, "D", ms=5, color=INK, markerfacecolor=PAPER)
            words, end = f"{words} ({number.printed:.3g})", max(end, number.printed)
        axes.annotate(
            words, (end, row), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize=SIZE, color=INK,
        )  # fmt: skip
    axes.set_yticks(range(len(numbers)), [spot.line for spot, _ in numbers])
    axes.set(xlabel=picture.xlabel, ylim=(max(len(numbers), 3) - 0.4, -0.6))
    axes.locator_params(axis="x", nbins=FEW)
    axes.set_xlim(0, 1.25 * max([most, *(n.printed or 0 for _, n in numbers)]) or 1)


@draw_picture.register
def _masks(picture: Masks, axes: Axes, numbers: Sequence[Placed]) -> None:
    """Both side by side: who sees whom, a row a node."""
    tree = best_tree(DEMO_ACCEPTANCE, picture.num_nodes)
    parents = best_first(tree, DEMO_ACCEPTANCE)
    size, gap = len(parents), len(parents) // 8
    both = np.zeros((size, 2 * size + gap))
    both[:, :size] = ordered_mask(parents, np.arange(size))
    both[:, size + gap :] = ordered_mask(parents, heavy_path(parents))
    axes.imshow(both, cmap=ListedColormap([PAPER, TARGET]), interpolation="nearest")
    axes.set(xticks=[size / 2, 1.5 * size + gap], yticks=[])
    axes.set_xticklabels(["as drafted", "depth first"])
    axes.tick_params(length=0)
    axes.set_anchor("NW")
    axes.spines[:].set_visible(False)


@draw_picture.register
def _orders(picture: Orders, axes: Axes, numbers: Sequence[Placed]) -> None:
    """The numbers of a node as drafted and depth first, a node's one over the other."""
    tree = best_tree(DEMO_ACCEPTANCE, picture.num_nodes)
    nodes = drafted_order(tree, DEMO_ACCEPTANCE)
    drafted = np.argsort(nodes)
    depth_first = np.argsort(heavy_path(best_first(tree, DEMO_ACCEPTANCE)))[drafted]
    across = leaf_order(tree)
    for node in range(1, tree.num_nodes):
        parent = tree.parents[node]
        axes.plot(across[[parent, node]], -tree.depths[[parent, node]], color=QUIET, linewidth=0.9)
    for node in range(tree.num_nodes):
        axes.text(
            across[node], -tree.depths[node], f"{drafted[node]} · {depth_first[node]}", ha="center",
            va="center", fontsize=SIZE, color=INK,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": PAPER, "edgecolor": TARGET},
        )  # fmt: skip
    axes.margins(0.12)
    axes.set(xticks=[], yticks=[], xlabel="number as drafted · depth first")
    axes.spines[:].set_visible(False)
