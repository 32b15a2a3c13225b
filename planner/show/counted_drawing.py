"""The steps that an engine counted of its chains, as a picture."""

from __future__ import annotations

from matplotlib.axes import Axes

from ..documents.profile import Acceptance, Profile
from ..documents.tree import Tree
from ..estimates.evidence import recorded
from .drawing import INK, TARGET, spots


def draw_counted(axes: Axes, profile: Profile, entry: Acceptance) -> None:
    """Tokens per step by the length of the chain: what was counted, and the line that is planned
    with, its 95 % interval shaded."""
    evidence = recorded(profile, entry)
    lengths = range(entry.counted[-1].length + 1)
    line = [evidence.predict(Tree(range(-1, length))).tokens_per_step for length in lengths]
    low, high = [each.low for each in line], [each.high for each in line]
    axes.fill_between(lengths, low, high, color=TARGET, alpha=0.15, linewidth=0)
    axes.plot(lengths, [each.value for each in line], color=TARGET, label="planned with, 95 %")
    counts = [(each.length, each.tokens_per_step) for each in entry.counted]
    places, rates = zip(*counts, strict=True)
    axes.plot(places, rates, "o", ms=4, color=INK, label="counted")
    words = [f"chain of {n}: {rate:.2f} tokens per step" for n, rate in counts]
    spots(axes, places, rates, words)
    axes.set(title=f"tokens per step, {entry.sampling}", xlabel="drafted tokens")
    axes.legend(fontsize=8, frameon=False)
