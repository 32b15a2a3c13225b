"""The tree of a plan: a node's area is the probability that it is reached."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..documents.tree import Tree
from ..plans.plan import Plan
from .drawing import INK, PAGE_WIDTH, QUIET, TARGET, tip

FEW_NODES = 24
"""Nodes, up to which each has its words."""
AREA = 420.0
"""The area of a node that is always reached, in points squared."""
UNKNOWN = 0.15
"""The share of it that all nodes have where nothing is known of how often they are reached."""


def tree_figure(plan: Plan, *, titled: bool = True) -> Figure:
    """The picture of `draw_tree` alone, under what the plan is."""
    tree = plan.tree
    num_leaves = int((tree.num_children == 0).sum())
    width = min(PAGE_WIDTH + 0.12 * max(num_leaves - 6, 0), 16)
    height = (1.4 if titled else 0.8) + 0.62 * tree.depth
    figure = Figure(figsize=(width, height))
    draw_tree(figure.add_axes((0.02, 0.02, 0.96, 1 - (0.6 if titled else 0.1) / height)), plan)
    title = f"{tree.num_nodes} nodes, depth {tree.depth}, {plan.verifier}, {plan.sampling}"
    if plan.predicted:
        title += (
            f"\npredicted {plan.predicted.tokens_per_step.value:.2f} tokens per step, "
            f"speedup {plan.predicted.speedup.value:.2f}"
        )
    if titled:
        figure.text(0.02, 1 - 0.1 / height, title, fontsize=9.5, va="top", color=INK)
    return figure


def draw_tree(axes: Axes, plan: Plan) -> None:
    """The nodes by level, children by rank from the left, each with its rank beside it and how
    often it is reached, where there is room."""
    tree, across = plan.tree, leaf_order(plan.tree)
    known = plan.predicted.reach if plan.predicted else None
    reach = np.full(tree.num_nodes, UNKNOWN) if known is None else np.array(known)
    for node in range(1, tree.num_nodes):
        parent = tree.parents[node]
        axes.plot(
            [across[parent], across[node]], [-tree.depths[parent], -tree.depths[node]],
            color=QUIET, linewidth=0.5 + 3 * reach[node], zorder=1, solid_capstyle="round",
        )  # fmt: skip
    few = tree.num_nodes <= FEW_NODES
    for node in range(tree.num_nodes):
        place = (across[node], -tree.depths[node])
        rank = f"rank {tree.ranks[node]}" if node else "root"
        words = f"node {node}, {rank}, level {tree.depths[node]}"
        words += "" if known is None else f": reached by {100 * reach[node]:.1f} % of the steps"
        size = float(np.sqrt(8 + AREA * reach[node]))
        mark = axes.plot(*place, "o", color=TARGET, markersize=size, markeredgewidth=0, zorder=2)
        tip(mark, words)
        if few:
            name = str(tree.ranks[node]) if node else "root"
            axes.annotate(
                name if known is None else f"{name} · {reach[node]:.0%}".replace("%", " %"), place,
                xytext=(size / 2 + 4, 0), textcoords="offset points", ha="left", va="center",
                fontsize=8.5, color=INK,
            )  # fmt: skip
    axes.set_axis_off()
    axes.margins(0.08, 0.14)
    left, right = axes.get_xlim()
    axes.set_xlim(left, right + 0.2 * (right - left))  # room for words


def leaf_order(tree: Tree) -> np.ndarray:
    """float [n]: leaves side by side in depth-first order, parents amid their children."""
    children = tree.children
    across = np.zeros(len(children))
    seats = iter(range(len(children)))
    stack = [0]
    while stack:
        node = stack.pop()
        if not children[node]:
            across[node] = next(seats)
        stack.extend(reversed(children[node]))
    for node in reversed(range(len(children))):
        if children[node]:
            across[node] = across[list(children[node])].mean()
    return across
