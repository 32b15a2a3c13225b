"""Colours of all figures, their plain look, and words that appear over a mark.

Blue, vermilion and greys can be told apart by everybody, and in print by their lightness; lines
that could still be mixed up have marks or names of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from ..documents.estimate import Estimate

INK, TARGET, DRAFT, QUIET, PAPER = "#1b1b1b", "#1f6f8b", "#c8553d", "#8b969a", "#ffffff"
MANY = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b08500", "#7a5195", "#8b969a")
"""Colours of lines beside one another (after Okabe and Ito), each with a mark of `MARKS`."""
MARKS = "osD^vP<X"
PAGE_WIDTH = 4.4
"""Inches of a figure for a page, so that its words can be read where the page is a phone's."""
TIP = "tip:"
"""The ids of marks begin with it that have words of their own in a picture on a page."""


def plain(figure: Figure) -> Figure:
    """`figure` without frames, its titles small and on the left, its scales quiet, and its words as
    they are: a dollar in a model's name begins no formula."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(QUIET)
        axes.tick_params(which="both", color=QUIET, labelcolor=INK, labelsize=8.5)
        title = axes.get_title("left") or axes.get_title()
        axes.set_title("")
        axes.set_title(title, loc="left", fontsize=9.5, color=INK)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set(fontsize=8.5, color=INK)
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    return figure


def tip(marks: Sequence[Artist], words: object) -> None:
    """Let `words` appear over marks, as `Axes.plot` gives them, where a figure is on a page."""
    for mark in marks:
        mark.set_gid(f"{TIP}{words}")


def spots(axes: Axes, xs: Iterable[float], ys: Iterable[float], words: Iterable[str]) -> None:
    """Places on a line over which words appear, without a mark that is seen."""
    for x, y, each in zip(xs, ys, words, strict=True):
        tip(axes.plot(x, y, "o", markersize=9, alpha=0, color=QUIET), each)


@dataclass(frozen=True)
class Name:
    """Words for a place in a picture."""

    words: str
    x: float
    y: float
    colour: str


def named(axes: Axes, names: Sequence[Name], *, size: float = 8.5) -> None:
    """The words in a column to the right of all of their places, no two on top of each other, with
    a line to each that does not stand beside its own.

    To be called when the limits of both scales stand.
    """
    if not names:
        return
    to_share = (axes.transData - axes.transAxes).transform
    places = sorted(((*to_share((each.x, each.y)), each) for each in names), key=lambda p: p[1])
    column = max(across for across, *_ in places)
    behind = {"boxstyle": "square,pad=0", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.75}
    line = 1.25 * size / 72 * axes.figure.dpi / axes.bbox.height
    heights = apart([own for _, own, _ in places], line)
    for (across, own, each), height in zip(places, heights, strict=True):
        away = abs(height - own) > line / 2 or across < column
        axes.annotate(
            each.words, (each.x, each.y), xytext=(column + (0.07 if away else 0.025), height),
            textcoords="axes fraction", fontsize=size, color=each.colour, va="center", zorder=5,
            bbox=behind,
            arrowprops={"arrowstyle": "-", "color": QUIET, "linewidth": 0.6, "relpos": (0, 0.5)}
            if away else None,
        )  # fmt: skip


def apart(heights: Sequence[float], least: float) -> list[float]:
    """Heights, the lowest first, moved so that neighbours are at least so far apart, with the
    smallest sum of squared moves.

    Less what those below take up, they only have to be in order, which is brought about by pooling
    neighbours that are not (isotonic regression).
    """
    pools: list[tuple[float, int]] = []
    for place, height in enumerate(heights):
        mean, size = height - place * least, 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean, size = (mean * size + other * others) / (size + others), size + others
        pools.append((mean, size))
    means = [mean for mean, size in pools for _ in range(size)]
    return [mean + place * least for place, mean in enumerate(means)]


def whiskers(axes: Axes, x: float, estimate: Estimate, colour: str) -> None:
    """The interval of a number that stands at `x`."""
    axes.plot([x, x], [estimate.low, estimate.high], color=colour, linewidth=1.6, zorder=4)
    for end in (estimate.low, estimate.high):
        axes.plot(x, end, "_", color=colour, markersize=7, markeredgewidth=1.6, zorder=4)
