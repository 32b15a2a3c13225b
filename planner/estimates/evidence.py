"""How many tokens does a step emit?  From an acceptance vector, or from recorded traces.

Rounds do not start anywhere: each starts where the last one ended, just after a rejection, where
the draft is at its worst.  Averages over all positions therefore promise too much.  Traces allow
the exact answer (renewal recursion): along a recorded text of N tokens let v[t] be the probability
that a round starts at position t; v[0] = 1.  A node of depth l that is visited with mass m in such
a round stands at position t + l.  It passes m * emitted[t + l, r] to its child of rank r, if it has
one; the rest ends the round there, and the next starts at t + l + 1.  There are sum v rounds, and
tokens per step are the visits of all nodes over sum v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numba import njit

from ..documents.arguments import probabilities
from ..documents.document import PlannerError
from ..documents.estimate import Estimate
from ..documents.profile import Acceptance, Profile, family_columns
from ..documents.tree import Tree
from ..verifiers import VERIFIERS
from .bootstrap import differ, interval, resamples
from .law import AcceptanceLaw

_DEPTHS_TOLD_APART = 4
"""Deeper nodes are taken together: rounds come there too rarely to tell them apart."""


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
    """The steps that a tree would make on the recorded text."""

    tokens_per_step: Estimate
    """Bonus token included; 95 % interval over prompts."""
    reach: np.ndarray
    """float64 [n]: expected visits of each node per step; they sum to tokens_per_step."""
    acceptance: np.ndarray
    """float64 [k]: mean acceptance by rank at the visited nodes that have children (for a lone
    root: everywhere), as if each had all k: the vector that holds inside this tree."""


class Evidence(Protocol):
    """All that was recorded of one verifier."""

    @property
    def law(self) -> AcceptanceLaw:
        """Every position weighing the same."""
        ...

    def predict(self, tree: Tree) -> Prediction:
        """The prediction for `tree`.  Raises PlannerError for more children than were measured."""
        ...

    def samples(self, tree: Tree) -> np.ndarray:
        """float64 [2000]: tokens per step of `tree`, by bootstrap sample of the prompts.

        The samples are the same for all that was recorded on as many prompts.
        """
        ...

    def law_inside(self, tree: Tree) -> AcceptanceLaw:
        """The law that holds at the nodes of `tree` where its rounds come by."""
        ...

    @property
    def num_prompts(self) -> int:
        """How many prompts it was recorded on."""
        ...


@dataclass(frozen=True)
class Traces:
    """The target's own continuations, scored.

    A column is a rank, or, where siblings matter, a rank among so many (see `Acceptance`).
    """

    emitted: np.ndarray
    """float64 [N, columns], prompts one after the other: P(child was accepted | token emitted)."""
    starts: np.ndarray
    """int64 [prompts + 1]: where each prompt's continuation starts, and the end of the last."""
    expected: np.ndarray
    """float64 [N, columns]: P(child is accepted), before the token is known."""
    by_rank_alone: bool = True
    non_increasing: bool = False
    """Does the method guarantee that acceptance never rises with the rank?"""

    @property
    def law(self) -> AcceptanceLaw:
        """Every position weighing the same."""
        return self._law(self.expected.mean(axis=0)[None, :])

    def predict(self, tree: Tree) -> Prediction:
        """The renewal recursion: unbiased for this tree.

        Rounds start where the emitted text makes them start; given where a round comes by, its
        children count with their expected acceptance, which is less noisy than what was emitted.
        """
        walk = self._walk(tree)
        value = float(walk.tokens.sum() / walk.rounds.sum())
        examined = walk.examined.sum(axis=0)
        weight = examined.sum()
        last = _last_family(self.expected.shape[1], self.by_rank_alone)
        inside = self.expected[:, last]
        return Prediction(
            tokens_per_step=_tokens_interval(value, walk.samples(), len(walk.rounds), tree),
            reach=walk.visits / walk.rounds.sum(),
            acceptance=examined @ inside / weight if weight > 0 else inside.mean(axis=0),
        )

    def samples(self, tree: Tree) -> np.ndarray:
        """Tokens per step by the renewal recursion, prompts drawn anew."""
        return self._walk(tree).samples()

    @property
    def num_prompts(self) -> int:
        """How many texts there are."""
        return len(self.starts) - 1

    def rounds(self, tree: Tree) -> tuple[np.ndarray, np.ndarray]:
        """(tokens, rounds), float64 [prompts] each: what `predict` divides, prompt by prompt."""
        walk = self._walk(tree)
        return walk.tokens, walk.rounds

    def law_inside(self, tree: Tree) -> AcceptanceLaw:
        """The law inside `tree`: by depth of the parent where that matters beyond chance."""
        examined = self._walk(tree).examined
        examined = examined[examined.sum(axis=1) > 0]
        if len(examined) == 0:
            return self.law
        firsts = self.starts[:-1]
        weights = np.add.reduceat(examined.T, firsts, axis=0)
        sums = np.stack(
            [np.add.reduceat(row[:, None] * self.expected, firsts, axis=0) for row in examined],
            axis=1,
        )
        if differ(sums, weights):
            return self._law(sums.sum(axis=0) / weights.sum(axis=0)[:, None])
        return self._law((sums.sum(axis=(0, 1)) / weights.sum())[None, :])

    def _law(self, columns: np.ndarray) -> AcceptanceLaw:
        law = AcceptanceLaw.from_columns(columns, self.by_rank_alone)
        return law.non_increasing() if self.non_increasing else law

    def _walk(self, tree: Tree) -> _TextWalk:
        columns = _columns(tree, self.expected.shape[1], self.by_rank_alone, "the profile's traces")
        walk = _TextWalk(
            rounds=np.zeros(self.num_prompts),
            tokens=np.zeros(self.num_prompts),
            visits=np.zeros(tree.num_nodes),
            examined=np.zeros((min(max(tree.depth, 1), _DEPTHS_TOLD_APART), len(self.emitted))),
        )
        _fill_walk(
            (self.emitted, self.expected, self.starts),
            (tree.parents, columns, tree.depths, tree.num_children > 0),
            (walk.rounds, walk.tokens, walk.visits, walk.examined),
        )
        return walk


@dataclass(frozen=True)
class _TextWalk:
    """Rounds of one tree along the recorded text."""

    rounds: np.ndarray
    """float64 [prompts]: expected rounds."""
    tokens: np.ndarray
    """float64 [prompts]: expected tokens of these rounds."""
    visits: np.ndarray
    """float64 [n]: expected visits of each node."""
    examined: np.ndarray
    """float64 [depths, N]: chance that a node with children is visited, by its depth."""

    def samples(self) -> np.ndarray:
        """float64 [2000]: tokens per round, by bootstrap sample of the prompts."""
        weights = resamples(len(self.rounds))
        return (weights @ self.tokens) / (weights @ self.rounds)


@dataclass(frozen=True)
class PromptMeans:
    """Only each prompt's mean acceptance: no traces were recorded.

    Takes rounds to start anywhere with equal chance, which promises up to some 20 % too much.
    """

    means: np.ndarray
    """float64 [prompts, columns]."""
    num_positions: np.ndarray
    """float64 [prompts]."""
    by_rank_alone: bool = True
    non_increasing: bool = False

    @property
    def law(self) -> AcceptanceLaw:
        """Every position weighing the same."""
        columns = self._mean(self.num_positions[None, :])
        law = AcceptanceLaw.from_columns(columns, self.by_rank_alone)
        return law.non_increasing() if self.non_increasing else law

    def predict(self, tree: Tree) -> Prediction:
        """Products of mean acceptance along each path."""
        num_columns = self.means.shape[1]
        columns = _columns(tree, num_columns, self.by_rank_alone, "the profile's acceptance")
        vector = self._mean(self.num_positions[None, :])[0]
        reach = _reach(tree.parents, columns, vector)
        value = float(reach.sum())
        return Prediction(
            tokens_per_step=_tokens_interval(value, self.samples(tree), self.num_prompts, tree),
            reach=reach,
            acceptance=vector[_last_family(num_columns, self.by_rank_alone)],
        )

    def samples(self, tree: Tree) -> np.ndarray:
        """Products of each sample's mean acceptance."""
        columns = _columns(
            tree, self.means.shape[1], self.by_rank_alone, "the profile's acceptance"
        )
        vectors = self._mean(resamples(self.num_prompts) * self.num_positions)
        return np.asarray(_expected_tokens_each(tree.parents, columns, vectors))

    @property
    def num_prompts(self) -> int:
        """How many prompts were averaged over."""
        return len(self.means)

    def law_inside(self, tree: Tree) -> AcceptanceLaw:
        """Nothing is known but the mean over all positions."""
        return self.law

    def _mean(self, weights: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(weights @ self.means / weights.sum(axis=1, keepdims=True))


def recorded(profile: Profile, entry: Acceptance) -> Traces | PromptMeans:
    """The best evidence the profile holds for one of its acceptance entries."""
    lengths = np.array([prompt.num_positions for prompt in entry.prompts], np.int64)
    traces = profile.traces(entry)
    verifier = VERIFIERS.get(entry.verifier)
    # at temperature 0 the verifier is another, which guarantees nothing
    falls = not entry.sampling.is_greedy and verifier is not None and verifier.non_increasing
    if traces is None:
        means = np.array([prompt.acceptance for prompt in entry.prompts], np.float64)
        means = _substochastic(means, entry)
        return PromptMeans(means, lengths.astype(np.float64), entry.by_rank_alone, falls)
    expected, emitted = (_substochastic(np.array(array, np.float64), entry) for array in traces)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    return Traces(emitted, starts, expected, entry.by_rank_alone, falls)


def _substochastic(rows: np.ndarray, entry: Acceptance) -> np.ndarray:
    """`rows` (in place) where the children of a node exceed 1 by rounding, brought back to 1."""
    for family in entry.families:
        rows[:, family] /= np.maximum(rows[:, family].sum(axis=1, keepdims=True), 1.0)
    return rows


def _last_family(num_columns: int, by_rank_alone: bool) -> slice:
    """Columns of the children of a node that has all."""
    return slice(None) if by_rank_alone else family_columns(Acceptance.ranks_in(num_columns))


def _columns(tree: Tree, num_columns: int, by_rank_alone: bool, what: str) -> np.ndarray:
    """int32 [n]: the column of each node; the root's is 0."""
    if by_rank_alone:
        _check_ranks(tree, num_columns, what)
        return tree.ranks
    _check_ranks(tree, Acceptance.ranks_in(num_columns), what)
    siblings = tree.num_children[np.maximum(tree.parents, 0)]
    columns = (siblings * (siblings - 1) // 2 + tree.ranks).astype(np.int32)
    columns[0] = 0
    return columns


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
def _reach(parents, columns, acceptance):  # type: ignore[no-untyped-def]
    """Product of acceptance[column] along the path to each node."""
    reach = np.ones(len(parents))
    for node in range(1, len(parents)):
        reach[node] = reach[parents[node]] * acceptance[columns[node]]
    return reach


@njit(cache=True)
def _expected_tokens_each(parents, columns, vectors):  # type: ignore[no-untyped-def]
    tokens = np.zeros(len(vectors))
    for i in range(len(vectors)):
        tokens[i] = _reach(parents, columns, vectors[i]).sum()
    return tokens


@njit(cache=True, nogil=True)
def _fill_walk(texts, tree, walk):  # type: ignore[no-untyped-def]
    """Renewal recursion over every prompt's text; fills the arrays of `_TextWalk`.

    texts  the arrays of `Traces`
    tree   parents, columns, depths, and which nodes have children
    """
    emitted, expected, starts = texts
    parents, columns, depths, expands = tree
    rounds, tokens, visits, examined = walk
    num_nodes = len(parents)
    last_depth = len(examined) - 1
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
            tokens[prompt] += begins[t]
            visits[0] += begins[t]
            mass[0] = begins[t]
            rest[0] = begins[t]
            reached = 1
            while reached < num_nodes and t + depths[reached] < end - first:
                parent = parents[reached]
                share = mass[parent]
                if share > 0.0:
                    place = first + t + depths[parent]
                    visit = share * expected[place, columns[reached]]
                    visits[reached] += visit
                    tokens[prompt] += visit
                    share *= emitted[place, columns[reached]]
                    rest[parent] -= share
                mass[reached] = share
                rest[reached] = share
                reached += 1
            for node in range(reached):
                if mass[node] > 0.0:
                    place = t + depths[node]
                    begins[place + 1] += max(rest[node], 0.0)
                    if expands[node]:
                        examined[min(depths[node], last_depth), first + place] += mass[node]
