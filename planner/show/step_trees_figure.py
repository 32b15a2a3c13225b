"""A few steps' trees on a real text: what was drafted, and which of it the target accepted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..documents.counted import counted
from ..plans.step_tree import StepTree
from .drawing import DRAFT, INK, PAGE_WIDTH, QUIET, TARGET, tip
from .tree_figure import leaf_order
from .words import percent

AREA = 150.0
"""The area of a node that the draft is sure of, in points squared."""
NUM_BEFORE = 34
"""Characters of the text before a tree that there is room for."""
LEAF = 0.26
"""Inches that a leaf takes up."""


def step_trees_figure(trees: Sequence[StepTree]) -> Figure:
    """The pictures of `draw_step_tree` below one another, as a page has room for them."""
    heights = [tree_height(each) for each in trees]
    figure = Figure(figsize=(PAGE_WIDTH, sum(heights)))
    figure.set_layout_engine("constrained", h_pad=0.1)  # a tree stands by its own text
    every = figure.subplots(len(trees), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, tree in zip(every, trees, strict=True):
        draw_step_tree(axes, tree)
    return figure


def tree_height(step: StepTree) -> float:
    """Inches that the picture of a step's tree needs, words included."""
    return 0.95 + LEAF * int((step.tree.num_children == 0).sum())


def draw_step_tree(axes: Axes, step: StepTree) -> None:
    """The tree from left to right, children by rank from above, below the text before it.

    A node's area is how likely the draft held its token to be written there; what the target
    accepted is in the draft's colour, and stands above what the step emitted.
    """
    tree, down = step.tree, leaf_order(step.tree)
    accepted = {0, *step.path}
    axes.set_axis_off()
    axes.set(xlim=(-0.35, max(tree.depth, 2) + 0.95), ylim=(down.max() + 0.6, -0.9))
    letters = int(_inches(axes) / (axes.get_xlim()[1] - axes.get_xlim()[0]) / 0.075)
    for node in range(1, tree.num_nodes):
        parent, on = tree.parents[node], node in accepted
        axes.plot(
            [tree.depths[parent], tree.depths[node]], [down[parent], down[node]],
            color=DRAFT if on else QUIET, linewidth=2.4 if on else 0.9, zorder=1 + on,
            solid_capstyle="round",
        )  # fmt: skip
    for node in range(tree.num_nodes):
        on, place = node in accepted, (tree.depths[node], down[node])
        size = float(np.sqrt(6 + AREA * step.reach[node]))
        colour = DRAFT if on else TARGET
        mark = axes.plot(*place, "o", color=colour, markersize=size, markeredgewidth=0, zorder=3)
        word = readable(step.tokens[node])
        said = "the last token written" if node == 0 else f"level {tree.depths[node]}"
        said += ", accepted" if node and on else ""
        tip(mark, f"“{word}”, {said}: {percent(step.reach[node])} by the draft")
        leaf = tree.num_children[node] == 0
        axes.annotate(
            word if len(word) <= letters else word[: letters - 1] + "…", place,
            xytext=(size / 2 + 3, 0) if leaf else (0, size / 2 + 1.5),
            textcoords="offset points", ha="left" if leaf else "center",
            va="center" if leaf else "bottom", fontsize=8.5, color=INK, zorder=4,
            fontweight="bold" if on else "normal",
        )  # fmt: skip
    before = "…" + " ".join(step.before.split())[-NUM_BEFORE:]
    which = f"step {step.step + 1} of text {step.continuation + 1}, after"
    axes.set_title(f"{which}\n{before}", loc="left", fontsize=9.5, color=INK)
    taken = f"{len(step.path)} of {counted(tree.num_nodes - 1, 'token')} accepted"
    axes.text(
        0, 0, f"{taken}, then “{readable(step.bonus)}”", transform=axes.transAxes, fontsize=8.5,
        color=DRAFT, va="top",
    )  # fmt: skip


def readable(token: str) -> str:
    """A token's text as it can stand beside a mark: line ends and lone blanks as signs."""
    words = token.replace("\r", "").replace("\t", " ")
    if not words.strip():
        return "↵" if "\n" in words else "␣"
    return "↵".join(" ".join(line.split()) for line in words.split("\n"))


def _inches(axes: Axes) -> float:
    """The width of the axes."""
    return float(axes.bbox.width / axes.figure.dpi)
