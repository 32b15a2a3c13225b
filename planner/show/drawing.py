"""Colours of all figures, and their plain look."""

from __future__ import annotations

from matplotlib.figure import Figure

INK, TARGET, DRAFT, QUIET = "#1b1b1b", "#1f6f8b", "#c8553d", "#9aa5a9"


def plain(figure: Figure) -> Figure:
    """`figure` without frames, its titles small."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontsize(9)
    return figure
