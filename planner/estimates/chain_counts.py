"""Tokens per step of chains that an engine drafted by its own method, from what it counted.

Nobody else knows what a head or a look-up in an engine will draft, so chains of every length k are
decoded there, and T(k) is tokens over steps.  With r_i for the chance that i drafted tokens of a
step or more are accepted, T(k) = 1 + r_1 + ... + r_k.  No r_i is larger than the one before it, so
T is concave: what is predicted is the concave line that is nearest to the counts, each length
weighing by its steps.  A length that ran on luck is drawn to its neighbours by that, and one that
was not counted lies on the straight line between them.

Taken for granted is that r_i is the same whatever the length of the chain.  Steps begin where the
last one ended, so it is so but nearly.

Two things are made up for.  A text ends in the middle of a step, which is counted whole.  Had it
gone on, that step would have emitted (E X^2 / E X - 1) / 2 tokens more on average, X being those of
a step (the residual life of renewal theory).  And not all lengths are decoded behind all prompts:
where one was decoded behind fewer than another, its T - 1 is taken as a multiple of the other's
behind the same prompts, and that multiple of the other's behind all (a ratio estimator).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.optimize import nnls

from ..documents.document import PlannerError
from ..documents.profile import Acceptance
from ..documents.tree import Tree
from .bootstrap import resamples
from .law import AcceptanceLaw
from .prediction import Prediction, tokens_interval


def accepted_in_a_row(lengths: np.ndarray, gains: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """float64 [longest]: the chance that 1, 2, ... drafted tokens of a step, or more, are accepted.

    lengths  int64 [L], ascending
    gains    float64 [L], T - 1 of chains of each length
    steps    float64 [L], that they are of; 0 where nothing is known of a length

    A concave line through (0, 1) is 1 + the sum of w_j min(k, j) over the lengths j, no w_j below
    0: least squares with that bound (Lawson and Hanson, 1974).

        accepted_in_a_row(np.array([1, 2]), np.array([0.5, 0.75]), np.array([100.0, 100.0]))
        # array([0.5, 0.25])
    """
    weights = np.sqrt(steps / max(steps.max(), 1.0))
    bends = np.minimum(lengths[:, None], lengths[None, :]).astype(np.float64)
    slopes, _ = nnls(weights[:, None] * bends, weights * gains, maxiter=100 * len(lengths))
    places = np.arange(1, lengths[-1] + 1)
    return np.asarray(np.minimum((places[:, None] <= lengths) @ slopes, 1.0))


def cut_off(reached: np.ndarray) -> float:
    """The tokens, on average, that the step in which a long text ends would have emitted behind it.

    reached  float64 [k]: the chance that 1, 2, ... k drafted tokens or more are accepted
    """
    mean = 1 + reached.sum()
    square = 1 + ((2 * np.arange(1, len(reached) + 1) + 1) * reached).sum()
    return float((square / mean - 1) / 2)


@dataclass(frozen=True)
class ChainCounts:
    """Steps of an engine with chains of several lengths."""

    by_rank_alone: ClassVar[bool] = True
    entered: ClassVar[np.ndarray] = np.ones(1)

    lengths: np.ndarray
    """int64 [L], ascending.  Chains shorter than the first lie on the straight line to not
    drafting, which is less than they emit, or as much."""
    tokens: np.ndarray
    """float64 [L, prompts]."""
    steps: np.ndarray
    """float64 [L, prompts]; 0 where a length was not decoded behind a prompt."""
    texts: np.ndarray
    """float64 [L, prompts]: how often it was."""

    @classmethod
    def of(cls, entry: Acceptance) -> ChainCounts:
        """The counts of one of a profile's acceptance entries."""
        rows = [(row, each) for row, of in enumerate(entry.counted) for each in of.prompts]
        places = {place: n for n, place in enumerate(sorted({each.prompt for _, each in rows}))}
        tokens, steps, texts = np.zeros((3, len(entry.counted), len(places)))
        for row, each in rows:
            cell = row, places[each.prompt]
            tokens[cell] += each.tokens
            steps[cell] += each.steps
            texts[cell] += 1
        return cls(np.array([each.length for each in entry.counted]), tokens, steps, texts)

    @property
    def num_prompts(self) -> int:
        return int(self.steps.shape[1])

    @property
    def most_levels(self) -> int:
        """The longest chain that was counted."""
        return int(self.lengths[-1])

    @property
    def law(self) -> AcceptanceLaw:
        """The law along a chain: acceptance by depth."""
        before = np.append(1.0, self._reached[:-1])
        rates = np.divide(self._reached, before, out=np.zeros(len(before)), where=before > 0)
        return AcceptanceLaw(np.minimum(rates, 1.0)[:, None, None])

    def law_inside(self, tree: Tree) -> AcceptanceLaw:
        """The same: counts do not tell chains apart."""
        return self.law

    def predict(self, tree: Tree) -> Prediction:
        """The tokens per step of a chain.  Raises PlannerError for others, and for longer ones than
        were counted."""
        value = float(self.reach(tree).sum())
        row = int(np.searchsorted(self.lengths, self._length(tree)))
        num_prompts = int((self.steps[row] > 0).sum())
        return Prediction(tokens_interval(value, self.samples(tree), num_prompts, tree), tree, self)

    def reach(self, tree: Tree) -> np.ndarray:
        """float64 [n]: expected visits of each node per step."""
        return np.append(1.0, self._reached[: self._length(tree)])

    def acceptance_inside(self, tree: Tree) -> np.ndarray:
        """float64 [1]: the share of accepted ones among the drafted tokens that are judged, those
        before them being accepted."""
        reach = self.reach(tree if tree.num_nodes > 1 else Tree([-1, 0]))
        return np.array([reach[1:].sum() / reach[:-1].sum()])

    def samples(self, tree: Tree) -> np.ndarray:
        """float64 [2000]: tokens per step of `tree`, by bootstrap sample of the prompts."""
        return np.asarray(1 + self._sampled[:, : self._length(tree)].sum(axis=1))

    def _length(self, tree: Tree) -> int:
        length = tree.num_nodes - 1
        if tree.depth != length or length > self.lengths[-1]:
            raise PlannerError(
                f"tree: got {length} nodes below the root on {tree.depth} levels, expected a chain "
                f"of at most {self.lengths[-1]}: what the engine counted is of these"
            )
        return length

    @cached_property
    def _reached(self) -> np.ndarray:
        (gains,) = self._gains(np.ones((1, self.num_prompts)))
        return accepted_in_a_row(self.lengths, gains, self.steps.sum(axis=1))

    @cached_property
    def _sampled(self) -> np.ndarray:
        """float64 [2000, longest]."""
        weights = self.steps.sum(axis=1)
        gains = self._gains(resamples(self.num_prompts))
        return np.array([accepted_in_a_row(self.lengths, each, weights) for each in gains])

    @cached_property
    def _whole(self) -> np.ndarray:
        """float64 [L, prompts]: the tokens, had the last step of every text been let go on."""
        steps = self.steps.sum(axis=1)
        gains = _over(self.tokens.sum(axis=1), steps) - 1
        reached = accepted_in_a_row(self.lengths, np.maximum(gains, 0.0), steps)
        more = np.array([cut_off(reached[:length]) for length in self.lengths])
        return self.tokens + self.texts * more[:, None]

    def _gains(self, weights: np.ndarray) -> np.ndarray:
        """float64 [n, L]: T - 1 of every length where prompts weigh so, float64 [n, prompts]."""
        most = int(np.argmax((self.steps > 0).sum(axis=1)))
        level = _over(weights @ self._whole[most], weights @ self.steps[most])[:, None] - 1
        both = (self.steps > 0) & (self.steps[most] > 0)
        one = np.ones((1, self.num_prompts))
        ratios, usual = self._ratios(weights, both, most), self._ratios(one, both, most)
        ratios = np.where(np.isnan(ratios), usual, ratios)  # none of its prompts was drawn
        own = _over(one @ self._whole.T, one @ self.steps.T) - 1
        return np.clip(np.where(np.isnan(ratios), own, ratios * level), 0.0, self.lengths)

    def _ratios(self, weights: np.ndarray, both: np.ndarray, most: int) -> np.ndarray:
        """float64 [n, L]: T - 1 of every length over that of the length in row `most`, behind the
        same prompts; NaN where that is not known."""
        own = weights @ (both * self._whole).T, weights @ (both * self.steps).T
        other = weights @ (both * self._whole[most]).T, weights @ (both * self.steps[most]).T
        above, below = (_over(*each) - 1 for each in (own, other))
        known = (own[1] > 0) & (other[1] > 0) & (below > 0)
        return np.divide(above, below, out=np.full(above.shape, np.nan), where=known)


def _over(tokens: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Tokens per step; 1 where there are no steps."""
    return np.divide(tokens, steps, out=np.ones(np.shape(steps)), where=steps > 0)
