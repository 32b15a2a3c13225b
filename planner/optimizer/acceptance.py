"""How many tokens does a step emit?  From an acceptance vector, or from recorded traces.

Rounds do not start anywhere: each starts where the last one ended, just after a rejection, where
the draft is at its worst.  Averages over all positions therefore promise too much.  Traces allow
the exact answer (renewal recursion): along a recorded text of N tokens let v[t] be the probability
that a round starts at position t; v[0] = 1.  A node of depth l that is visited with mass m in such
a round stands at position t + l.  It passes m * emitted[t + l, r] to its child of rank r, if it has
one; the rest ends the round there, and the next starts at t + l + 1.  Tokens per step = N / sum v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from ..plan import Estimate
from ..profile import Acceptance, Profile
from ..schema import PlannerError
from ..tree import Tree
from .bootstrap import interval, resamples
from .checks import probabilities


def expected_tokens(tree: Tree, acceptance: Any) -> float:
    """Expected tokens emitted per step when `tree` is verified once: G in Sequoia, section 3.1.

    acceptance  float64 [k]  P(child of rank r is the accepted one | its parent was); sums to <= 1

    Returns tokens per step, bonus token included, so a lone root scores exactly 1.0.
    Assumes that acceptance depends on rank alone (positional assumption, Definition 3.1).
    Raises PlannerError if the tree has more children at a node than there are ranks.
    """
    acceptance = probabilities(acceptance, "acceptance")
    _check_ranks(tree, len(acceptance), "acceptance")
    return float(_reach(tree.parents, tree.ranks, acceptance).sum())


@dataclass(frozen=True)
class Prediction:
    """What a tree would do on the recorded text."""

    tokens_per_step: Estimate
    """Bonus token included; 95 % interval over prompts."""
    reach: np.ndarray
    """float64 [n]: expected visits of each node per step; they sum to tokens_per_step."""
    acceptance: np.ndarray
    """float64 [k]: mean acceptance by rank at the visited nodes that have children (for a lone
    root: everywhere), as if each had all k: the vector that holds inside this tree."""


@dataclass(frozen=True)
class Traces:
    """The target's own continuations, scored: P(child of rank r was accepted | token emitted)."""

    emitted: np.ndarray
    """float64 [N, k], prompts one after the other; rows sum to at most 1."""
    starts: np.ndarray
    """int64 [prompts + 1]: where each prompt's continuation starts, and the end of the last."""

    @property
    def acceptance(self) -> np.ndarray:
        """float64 [k]: by rank, every position weighing the same."""
        return self.emitted.mean(axis=0)

    def predict(self, tree: Tree) -> Prediction:
        """Exact for this text and tree, by the renewal recursion."""
        _check_ranks(tree, self.emitted.shape[1], "the profile's traces")
        rounds = np.zeros(len(self.starts) - 1)
        visits = np.zeros(tree.num_nodes)
        examined = np.zeros(len(self.emitted))
        _fill_rounds(
            self.emitted, self.starts, tree.parents, tree.ranks, tree.depths, tree.num_children > 0,
            rounds, visits, examined,
        )  # fmt: skip
        tokens = np.diff(self.starts).astype(np.float64)
        value = float(tokens.sum() / rounds.sum())
        weights = resamples(len(rounds))
        samples = (weights @ tokens) / (weights @ rounds)
        weight = examined.sum()
        inside = examined @ self.emitted / weight if weight > 0 else self.acceptance
        return Prediction(
            tokens_per_step=_tokens_interval(value, samples, len(rounds), tree),
            reach=visits / rounds.sum(),
            acceptance=inside,
        )


@dataclass(frozen=True)
class PromptMeans:
    """Only each prompt's mean acceptance by rank: no traces were recorded.

    Takes rounds to start anywhere with equal chance, which promises up to some 20 % too much.
    """

    means: np.ndarray
    """float64 [prompts, k]."""
    num_positions: np.ndarray
    """float64 [prompts]."""

    @property
    def acceptance(self) -> np.ndarray:
        """float64 [k]: by rank, every position weighing the same."""
        return self._mean(self.num_positions[None, :])[0]

    def predict(self, tree: Tree) -> Prediction:
        """Products of mean acceptance along each path."""
        _check_ranks(tree, self.means.shape[1], "the profile's acceptance")
        reach = _reach(tree.parents, tree.ranks, self.acceptance)
        vectors = self._mean(resamples(len(self.means)) * self.num_positions)
        samples = _expected_tokens_each(tree.parents, tree.ranks, vectors)
        return Prediction(
            tokens_per_step=_tokens_interval(float(reach.sum()), samples, len(self.means), tree),
            reach=reach,
            acceptance=self.acceptance,
        )

    def _mean(self, weights: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(weights @ self.means / weights.sum(axis=1, keepdims=True))


def recorded(profile: Profile, entry: Acceptance) -> Traces | PromptMeans:
    """The best evidence the profile holds for one of its acceptance entries."""
    lengths = np.array([prompt.num_positions for prompt in entry.prompts], np.int64)
    traces = profile.traces(entry)
    if traces is None:
        means = np.array([prompt.acceptance for prompt in entry.prompts], np.float64)
        return PromptMeans(_substochastic(means), lengths.astype(np.float64))
    starts = np.concatenate(([0], np.cumsum(lengths)))
    return Traces(_substochastic(np.array(traces[1], np.float64, order="C")), starts)


def _substochastic(rows: np.ndarray) -> np.ndarray:
    """Rows that exceed 1 by rounding, brought back to 1."""
    return rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)


def _check_ranks(tree: Tree, num_ranks: int, what: str) -> None:
    most = int(tree.num_children.max())
    if most > num_ranks:
        raise PlannerError(
            f"tree: has a node with {most} children, but {what} "
            f"{'have' if what.endswith('s') else 'has'} {num_ranks} ranks; "
            "give at least as many ranks as children"
        )


def _tokens_interval(value: float, samples: np.ndarray, num_prompts: int, tree: Tree) -> Estimate:
    """A step emits at least one token and at most one per level, root included."""
    most = max(value, float(tree.depth + 1))
    low, high = interval(samples, num_prompts, least=min(value, 1.0), most=most)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


@njit(cache=True)
def _reach(parents, ranks, acceptance):  # type: ignore[no-untyped-def]
    """Product of acceptance[rank] along the path to each node."""
    reach = np.ones(len(parents))
    for node in range(1, len(parents)):
        reach[node] = reach[parents[node]] * acceptance[ranks[node]]
    return reach


@njit(cache=True)
def _expected_tokens_each(parents, ranks, vectors):  # type: ignore[no-untyped-def]
    tokens = np.zeros(len(vectors))
    for i in range(len(vectors)):
        tokens[i] = _reach(parents, ranks, vectors[i]).sum()
    return tokens


@njit(cache=True)
def _fill_rounds(  # type: ignore[no-untyped-def]
    emitted, starts, parents, ranks, depths, expands, rounds, visits, examined
):
    """Renewal recursion over every prompt's text.

    rounds [prompts]: expected rounds.  visits [n]: expected visits of each node.
    examined [N]: probability that the node visited at each position has children.
    """
    num_nodes = len(parents)
    mass = np.zeros(num_nodes)
    rest = np.zeros(num_nodes)
    for prompt in range(len(starts) - 1):
        first, end = starts[prompt], starts[prompt + 1]
        begins = np.zeros(end - first + 1)
        begins[0] = 1.0
        for t in range(end - first):
            if begins[t] == 0.0:
                continue
            rounds[prompt] += begins[t]
            mass[0] = begins[t]
            rest[0] = begins[t]
            reached = 1
            while reached < num_nodes and t + depths[reached] < end - first:
                parent = parents[reached]
                share = mass[parent]
                if share > 0.0:
                    share *= emitted[first + t + depths[parent], ranks[reached]]
                    rest[parent] -= share
                mass[reached] = share
                rest[reached] = share
                reached += 1
            for node in range(reached):
                if mass[node] > 0.0:
                    place = t + depths[node]
                    visits[node] += mass[node]
                    begins[place + 1] += max(rest[node], 0.0)
                    if expands[node]:
                        examined[first + place] += mass[node]
