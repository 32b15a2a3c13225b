"""How many tokens does a step emit?  From an acceptance vector, or from recorded traces.

Rounds do not start anywhere: each starts where the last one ended, just after a rejection, where
the draft is at its worst.  Averages over all positions therefore promise too much.  Traces allow
the exact answer (renewal recursion): along a recorded text of N tokens let v[t] be the probability
that a round starts at position t; v[0] = 1.  A node of depth l that is visited with mass m in such
a round stands at position t + l.  It passes m * emitted[t + l, r] to its child of rank r, if it has
one; the rest ends the round there, and the next starts at t + l + 1.  There are sum v rounds, and
tokens per step are the visits of all nodes over sum v.

Where whole paths are judged, m is the chance that the round ends at the node or below it, and what
becomes of that depends on the acceptance a, too, with which the node is entered; the child's is
entering[t + l, r].  Traces are kept for some values of a: the mass of any other is shared out
between the two on either side, so that the mean of a stays what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..documents.arguments import probabilities
from ..documents.document import PlannerError
from ..documents.profile import Acceptance, Profile, family_columns
from ..documents.tree import Tree
from ..verifiers import VERIFIERS
from .bootstrap import differ, ratio_samples, resamples
from .chain_counts import ChainCounts
from .law import AcceptanceLaw
from .prediction import Prediction, tokens_interval
from .renewal import Families, Passage, TextTables, fill_passage

_DEPTHS_TOLD_APART = 4
"""Deeper nodes are taken together: rounds come there too rarely to tell them apart."""


def expected_tokens(tree: Tree, acceptance: Any) -> float:
    """Expected tokens emitted per step when `tree` is verified once: G in Sequoia, section 3.1.

    acceptance  float64 [k]  P(child of rank r is the accepted one | its parent was); sums to <= 1

    Returns tokens per step, bonus token included, so a lone root scores exactly 1.0.
    Assumes that acceptance depends on rank alone (positional assumption, Definition 3.1).
    Raises PlannerError if the tree has more children at a node than there are ranks.
    """
    if not isinstance(tree, Tree):
        raise PlannerError(f"tree: got {tree!r:.80}, expected a Tree")
    acceptance = probabilities(acceptance, "acceptance")
    _check_ranks(tree, len(acceptance), "acceptance has")
    return float(_reach(tree.parents, tree.ranks, acceptance).sum())


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """The part that both kinds of evidence share: arrays of a column for each rank, or, where
    siblings matter, for each rank among so many (see `Acceptance`)."""

    holder: ClassVar[str]
    most_levels: ClassVar[int | None] = None
    """Levels of the deepest tree that they tell of; None: of any."""

    by_rank_alone: bool = True
    non_increasing: bool = False
    """Does the method guarantee that acceptance never rises with the rank?"""
    entered: np.ndarray = field(default_factory=lambda: np.ones(1))
    """float64 [E], ascending to 1: the acceptances with which a node may be entered; traces repeat
    all columns for each of them."""

    def _law(self, columns: np.ndarray) -> AcceptanceLaw:
        law = AcceptanceLaw.from_columns(columns, self.by_rank_alone)
        return law.non_increasing() if self.non_increasing else law

    def _of_all(self, columns: np.ndarray) -> np.ndarray:
        """The columns of a node's children, if it has all; columns float64 [..., num_columns]."""
        if self.by_rank_alone:
            return columns
        return columns[..., family_columns(Acceptance.ranks_in(columns.shape[-1]))]

    def _columns(self, tree: Tree, num_columns: int) -> np.ndarray:
        """int32 [n]: the column of each node; the root's is 0."""
        if self.by_rank_alone:
            _check_ranks(tree, num_columns, self.holder)
            return tree.ranks
        _check_ranks(tree, Acceptance.ranks_in(num_columns), self.holder)
        siblings = tree.num_children[np.maximum(tree.parents, 0)]
        columns = (siblings * (siblings - 1) // 2 + tree.ranks).astype(np.int32)
        columns[0] = 0
        return columns


@dataclass(frozen=True)
class Traces(_Columns):
    """The target's own continuations, scored."""

    holder = "the profile's traces have"

    emitted: np.ndarray
    """float64 [N, columns], prompts one after the other: P(child was accepted | token emitted)."""
    starts: np.ndarray
    """int64 [prompts + 1]: where each prompt's continuation starts, and the end of the last."""
    expected: np.ndarray
    """float64 [N, columns]: P(child is accepted), before the token is known."""
    entering: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)), kw_only=True)
    """float64 [N, columns]: the acceptance that the child is entered with, if it carries the text
    on; empty where every node is judged by itself."""

    @classmethod
    def of(
        cls, entry: Acceptance, traces: tuple[np.ndarray, np.ndarray], entering: np.ndarray | None
    ) -> Traces:
        """The traces of one of a profile's acceptance entries; arrays as there."""
        expected, emitted = (_substochastic(np.array(array, np.float64), entry) for array in traces)
        lengths = [prompt.num_positions for prompt in entry.prompts]
        return cls(
            emitted,
            np.concatenate(([0], np.cumsum(lengths))),
            expected,
            entering=np.zeros((0, 0)) if entering is None else np.array(entering, np.float64),
            entered=np.array(entry.entered),
            by_rank_alone=entry.by_rank_alone,
            non_increasing=_falls(entry),
        )

    @property
    def num_prompts(self) -> int:
        return len(self.starts) - 1

    @property
    def law(self) -> AcceptanceLaw:
        """The law of all positions, each weighing the same."""
        at_roots = self._inside[len(self.entered) - 1 :: len(self.entered)]
        return self._law(at_roots.mean(axis=0)[None, :])

    @property
    def _inside(self) -> np.ndarray:
        """float64 [N * E, columns / E]: `expected`, by position and acceptance entered with."""
        return self.expected.reshape(len(self.expected) * len(self.entered), -1)

    def predict(self, tree: Tree) -> Prediction:
        """The renewal recursion: unbiased for this tree.

        Rounds start where the emitted text makes them start; given where a round comes by, its
        children count with their expected acceptance, which is less noisy than what was emitted.
        Raises PlannerError for more children than were measured.
        """
        tokens, rounds = self.rounds(tree)
        samples = ratio_samples(tokens, rounds)
        value = tokens.sum() / rounds.sum()
        return Prediction(tokens_interval(value, samples, self.num_prompts, tree), tree, self)

    def reach(self, tree: Tree) -> np.ndarray:
        """float64 [n]: expected visits of each node per step."""
        walk = self._walk(tree, visits=True)
        return walk.visits / walk.rounds.sum()

    def acceptance_inside(self, tree: Tree) -> np.ndarray:
        """float64 [k]: by rank, where rounds of `tree` come by; see `Prediction`."""
        examined = self._walk(tree, examined=True).examined.sum(axis=0)
        inside, weight = self._of_all(self._inside), examined.sum()
        return np.asarray(examined @ inside / weight if weight > 0 else inside.mean(axis=0))

    def samples(self, tree: Tree) -> np.ndarray:
        """float64 [2000]: tokens per step of `tree`, by bootstrap sample of the prompts.

        The samples are the same for all that was recorded on as many prompts.
        """
        return ratio_samples(*self.rounds(tree))

    def rounds(self, tree: Tree) -> tuple[np.ndarray, np.ndarray]:
        """(tokens, rounds), float64 [prompts] each: what `predict` divides, prompt by prompt."""
        walk = self._walk(tree)
        return walk.tokens, walk.rounds

    def law_inside(self, tree: Tree) -> AcceptanceLaw:
        """The law that holds at the nodes of `tree` where its rounds come by: by depth of the
        parent where that matters beyond chance."""
        examined = self._walk(tree, examined=True).examined
        examined = examined[examined.sum(axis=1) > 0]
        if len(examined) == 0:
            return self.law
        firsts, inside = self.starts[:-1] * len(self.entered), self._inside
        weights = np.add.reduceat(examined.T, firsts, axis=0)
        sums = np.stack(
            [np.add.reduceat(row[:, None] * inside, firsts, axis=0) for row in examined], axis=1
        )
        if differ(sums, weights):
            return self._law(sums.sum(axis=0) / weights.sum(axis=0)[:, None])
        return self._law((sums.sum(axis=(0, 1)) / weights.sum())[None, :])

    def _walk(self, tree: Tree, *, visits: bool = False, examined: bool = False) -> Passage:
        """Rounds of `tree`, and what else is asked for."""
        num_depths = min(max(tree.depth, 1), _DEPTHS_TOLD_APART) if examined else 0
        walk = Passage(
            rounds=np.zeros(self.num_prompts),
            tokens=np.zeros(self.num_prompts),
            visits=np.zeros(tree.num_nodes if visits else 0),
            examined=np.zeros((num_depths, len(self._inside))),
        )
        columns = self._columns(tree, self._inside.shape[1])
        fill_passage(self._texts, Families.of(tree, columns), walk)
        return walk

    @cached_property
    def _texts(self) -> TextTables:
        return TextTables(
            num_entered=len(self.entered),
            emitted=np.ascontiguousarray(self.emitted.T),
            expected=np.ascontiguousarray(self.expected.T),
            places=np.interp(self.entering.T, self.entered, np.arange(len(self.entered))),
            all_emitted=self._of_families(self.emitted),
            all_expected=self._of_families(self.expected),
            starts=self.starts,
        )

    def _of_families(self, columns: np.ndarray) -> np.ndarray:
        """float64 [E F, N]: the sums over all children of a node of 1 child, of 2, ..., of F."""
        wide = columns.reshape(len(columns), len(self.entered), -1)
        if self.by_rank_alone:
            sums = wide.cumsum(axis=-1)
        else:
            counts = range(1, Acceptance.ranks_in(wide.shape[-1]) + 1)
            sums = np.stack([wide[..., family_columns(k)].sum(axis=-1) for k in counts], axis=-1)
        return np.ascontiguousarray(sums.reshape(len(columns), -1).T)


@dataclass(frozen=True)
class PromptMeans(_Columns):
    """Only each prompt's mean acceptance: no traces were recorded.

    Takes rounds to start anywhere with equal chance, which promises up to some 20 % too much.
    """

    holder = "the profile's acceptance has"

    means: np.ndarray
    """float64 [prompts, columns]."""
    num_positions: np.ndarray
    """float64 [prompts]."""

    @property
    def num_prompts(self) -> int:
        return len(self.means)

    @property
    def law(self) -> AcceptanceLaw:
        """The law of all positions, each weighing the same."""
        return self._law(self._everywhere)

    def predict(self, tree: Tree) -> Prediction:
        """Products of mean acceptance along each path.

        Raises PlannerError for more children than were measured.
        """
        tokens, samples = float(self.reach(tree).sum()), self.samples(tree)
        return Prediction(tokens_interval(tokens, samples, self.num_prompts, tree), tree, self)

    def reach(self, tree: Tree) -> np.ndarray:
        """float64 [n]: expected visits of each node per step."""
        (vector,) = self._everywhere
        return _reach(tree.parents, self._columns(tree, len(vector)), vector)

    def acceptance_inside(self, tree: Tree) -> np.ndarray:
        """float64 [k]: the mean over all positions."""
        return self._of_all(self._everywhere[0])

    def samples(self, tree: Tree) -> np.ndarray:
        """float64 [2000]: products of each bootstrap sample's mean acceptance, as in `Traces`."""
        columns = self._columns(tree, len(self._resampled))
        return np.asarray(_reach(tree.parents, columns, self._resampled).sum(axis=0))

    def law_inside(self, tree: Tree) -> AcceptanceLaw:
        """The law everywhere: nothing is known but the mean over all positions."""
        return self.law

    @cached_property
    def _everywhere(self) -> np.ndarray:
        """float64 [1, columns]: the mean over all positions."""
        return self._mean(self.num_positions[None, :])

    @cached_property
    def _resampled(self) -> np.ndarray:
        """float64 [columns, 2000]: the same by bootstrap sample of the prompts."""
        means = self._mean(resamples(self.num_prompts) * self.num_positions)
        return np.ascontiguousarray(means.T)

    def _mean(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(weights @ self.means / weights.sum(axis=1, keepdims=True))


Evidence = Traces | PromptMeans | ChainCounts
"""All that was recorded of one verifier."""


def recorded(profile: Profile, entry: Acceptance) -> Evidence:
    """The best evidence the profile holds for one of its acceptance entries."""
    if entry.counted:
        return ChainCounts.of(entry)
    traces = profile.traces(entry)
    if traces is not None:
        return Traces.of(entry, traces, profile.entering(entry))
    means = np.array([prompt.acceptance for prompt in entry.prompts], np.float64)
    return PromptMeans(
        _substochastic(means, entry),
        np.array([prompt.num_positions for prompt in entry.prompts], np.float64),
        entered=np.array(entry.entered),
        by_rank_alone=entry.by_rank_alone,
        non_increasing=_falls(entry),
    )


def _falls(entry: Acceptance) -> bool:
    """Does the method guarantee that acceptance never rises with the rank?  At temperature 0 it is
    another, which guarantees nothing."""
    verifier = VERIFIERS.get(entry.verifier)
    return not entry.sampling.is_greedy and verifier is not None and verifier.non_increasing


def _substochastic(rows: np.ndarray, entry: Acceptance) -> np.ndarray:
    """`rows` (in place) where the children of a node exceed 1 by rounding, brought back to 1."""
    for family in entry.traced_families[: rows.shape[1] // entry.num_columns * len(entry.families)]:
        rows[:, family] /= np.maximum(rows[:, family].sum(axis=1, keepdims=True), 1.0)
    return rows


def _check_ranks(tree: Tree, num_ranks: int, holder_has: str) -> None:
    most = int(tree.num_children.max())
    if most > num_ranks:
        raise PlannerError(
            f"tree: has a node with {most} children, but {holder_has} {num_ranks} ranks; "
            "give at least as many ranks as children"
        )


def _reach(parents: np.ndarray, columns: np.ndarray, acceptance: np.ndarray) -> np.ndarray:
    """float64 [n, ...]: product of acceptance[column] along the path to each node.

    acceptance  float64 [columns, ...]
    """
    reach = np.ones((len(parents), *acceptance.shape[1:]))
    for node in range(1, len(parents)):
        reach[node] = reach[parents[node]] * acceptance[columns[node]]
    return reach
