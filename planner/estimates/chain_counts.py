"""Tokens per step of chains that an engine drafted by its own method, from what it counted.

Nobody else knows what a head or a look-up in an engine will draft, so chains of every length k are
decoded there, and T(k) is tokens over steps.  With r_i for the chance that i drafted tokens of a
step or more are accepted, T(k) = 1 + r_1 + ... + r_k.  No r_i is larger than the one before it, so
T is concave: what is predicted is the concave line that is nearest to the counts, each length
weighing by its steps.  A length that ran on luck is drawn to its neighbours by that, and one that
was not counted lies on the straight line between them.

Taken for granted is that r_i is the same whatever the length of the chain.  Steps begin where the
last one ended, so it is so but nearly.
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


def accepted_in_a_row(lengths: np.ndarray, tokens: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """float64 [longest]: the chance that 1, 2, ... drafted tokens of a step, or more, are accepted.

    lengths  int64 [L], ascending from 1
    tokens   float64 [L], emitted by chains of each length
    steps    float64 [L], that they took; 0 where nothing is known of a length

    A concave line through (0, 1) is 1 + the sum of w_j min(k, j) over the lengths j, no w_j below
    0: least squares with that bound (Lawson and Hanson, 1974).

        accepted_in_a_row(np.array([1, 2]), np.array([150.0, 175.0]), np.array([100.0, 100.0]))
        # array([0.5, 0.25])
    """
    known = np.divide(tokens, steps, out=np.ones(len(steps)), where=steps > 0) - 1
    weights = np.sqrt(steps / max(steps.max(), 1.0))
    bends = np.minimum(lengths[:, None], lengths[None, :]).astype(np.float64)
    slopes, _ = nnls(weights[:, None] * bends, weights * known, maxiter=100 * len(lengths))
    places = np.arange(1, lengths[-1] + 1)
    return np.asarray(np.minimum((places[:, None] <= lengths) @ slopes, 1.0))


@dataclass(frozen=True)
class ChainCounts:
    """Steps of an engine with chains of several lengths."""

    by_rank_alone: ClassVar[bool] = True
    entered: ClassVar[np.ndarray] = np.ones(1)

    lengths: np.ndarray
    """int64 [L], ascending from 1."""
    tokens: np.ndarray
    """float64 [L, prompts]."""
    steps: np.ndarray
    """float64 [L, prompts]; 0 where a length was not decoded behind a prompt."""

    @classmethod
    def of(cls, entry: Acceptance) -> ChainCounts:
        """The counts of one of a profile's acceptance entries."""
        rows = [(row, each) for row, of in enumerate(entry.counted) for each in of.prompts]
        places = {place: n for n, place in enumerate(sorted({each.prompt for _, each in rows}))}
        tokens, steps = np.zeros((2, len(entry.counted), len(places)))
        for row, each in rows:
            tokens[row, places[each.prompt]] += each.tokens
            steps[row, places[each.prompt]] += each.steps
        return cls(np.array([each.length for each in entry.counted]), tokens, steps)

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
        estimate = tokens_interval(value, self.samples(tree), self.num_prompts, tree)
        return Prediction(estimate, tree, self)

    def reach(self, tree: Tree) -> np.ndarray:
        """float64 [n]: expected visits of each node per step."""
        return np.append(1.0, self._reached[: self._length(tree)])

    def acceptance_inside(self, tree: Tree) -> np.ndarray:
        """float64 [1]: of drafted tokens, each one before which was accepted."""
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
        return accepted_in_a_row(self.lengths, self.tokens.sum(axis=1), self.steps.sum(axis=1))

    @cached_property
    def _sampled(self) -> np.ndarray:
        """float64 [2000, longest]."""
        drawn = resamples(self.num_prompts)
        both = zip(drawn @ self.tokens.T, drawn @ self.steps.T, strict=True)
        return np.array([accepted_in_a_row(self.lengths, *each) for each in both])
