"""What does an engine that can do only so much make of a plan?  The best that it can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..drafting import Drafting, TreeDrafting
from ..optimizer import rank_candidates, replays_of, sampling_at
from ..plan import GREEDY_RULE, Plan, Predicted
from ..profile import Profile
from ..schema import PlannerError


@dataclass(frozen=True)
class Export:
    """A plan in an engine's terms."""

    content: str
    """The file, as the engine reads it, or flags for its command line."""
    plan: Plan | None
    """What the engine will do, as a plan of ours; with a prediction where one can be made.  None
    where nothing was planned."""
    notes: tuple[str, ...] = ()
    """What the file cannot say, and what one has to know to use it."""


@dataclass(frozen=True)
class Way:
    """One way in which an engine drafts and verifies, in our terms."""

    verifier: str
    solver: str
    takes: Callable[[Drafting], bool]
    """Can it draft like this?"""
    grows: bool = False
    """Are its trees decided on while they are drafted, so that recorded trees are needed?"""


def is_chain(drafting: Drafting) -> bool:
    """One token after the other, the same number in every step?"""
    return isinstance(drafting, TreeDrafting) and drafting.most_children == 1


def is_tree(drafting: Drafting) -> bool:
    """The same tree in every step?"""
    return isinstance(drafting, TreeDrafting)


DRAWN_CHAIN = Way("chain", "chain", is_chain)
"""Drafted tokens are drawn from the draft's distribution, accepted with chance min(1, p / q)."""
MATCHED_CHAIN = Way("topk", "chain", is_chain)
"""Drafted tokens are the draft's likeliest, accepted where the target's own draw is the same."""
MATCHED_TREE = Way("topk", "fixed", is_tree)
"""The same, for a tree of the draft's likeliest tokens below each node."""


@dataclass(frozen=True)
class Choice:
    """What the engine will do."""

    way: Way
    plan: Plan

    @property
    def num_tokens(self) -> int:
        """Drafted in a step, at most."""
        return self.plan.drafting.most_nodes - 1

    @property
    def tokens_per_ms(self) -> float:
        """As predicted."""
        predicted = self.plan.predicted
        return predicted.tokens_per_step.value / predicted.step_ms.value if predicted else 0.0


@dataclass(frozen=True)
class Task:
    """A plan to be exported."""

    engine: str
    plan: Plan
    profile: Profile | None = None
    """What the plan was made from, if it is at hand: what the engine cannot do is planned anew."""
    draft: str | None = None
    """What the engine is to call the draft model; None: as the plan does."""

    @property
    def draft_model(self) -> str | None:
        """Its name or place, where one is known that others can load too."""
        made_from = self.plan.made_from
        if self.draft is None and made_from and not made_from.draft.name.startswith("embedded/"):
            return made_from.draft.name
        return self.draft

    def lacking_draft(self, key: str) -> tuple[str, ...]:
        """A note where there is no such name; `key` is what it would have stood under."""
        if self.draft_model is not None:
            return ()
        return (
            f"{key} is missing: the plan names no draft model that {self.engine} can load; "
            "name one with --draft",
        )

    @property
    def batch_size(self) -> int:
        """That the plan was made for."""
        return self.plan.made_from.batch_size if self.plan.made_from else 1

    @property
    def batch_sizes(self) -> list[int]:
        """From the plan's own up, as far as they were measured."""
        costs = self.profile.costs if self.profile else []
        larger = {each.batch_size for each in costs if each.batch_size > self.batch_size}
        return sorted({self.batch_size, *larger})

    def choose(self, ways: Sequence[Way]) -> Choice:
        """The fastest plan that can be carried out in one of these ways; without a profile, the
        plan as it is.

        Raises PlannerError where it cannot be carried out, and where not speculating is faster.
        """
        choice = self._as_it_is(ways) if self.profile is None else self.best(ways, self.batch_size)
        if not choice.plan.speculates:
            raise PlannerError(
                f"plan: nothing that {self.engine} can do is faster here than not to speculate; "
                "leave its speculative decoding off"
            )
        return choice

    def schedule(self, way: Way) -> list[tuple[int, int]]:
        """(batch size, tokens to draft) for each of `batch_sizes`; 0: none."""
        return [(size, self.best([way], size).num_tokens) for size in self.batch_sizes]

    def best(self, ways: Sequence[Way], batch_size: int) -> Choice:
        """The fastest plan of these ways under the profile's times and acceptance, which may be not
        to speculate.  Raises PlannerError for what the profile did not measure."""
        assert self.profile is not None
        sampling = self.plan.sampling
        if sampling_at(self.profile, sampling.temperature) != sampling:
            raise PlannerError(f"plan: sampling: got {sampling}, which the profile did not measure")
        known = [way for way in ways if self._is_known(way)]
        if not known:
            there = {each.verifier for each in self.profile.acceptance if each.sampling == sampling}
            raise PlannerError(
                f"profile: holds the acceptance of {', '.join(sorted(there))} at {sampling}, "
                f"expected {' or '.join(dict.fromkeys(map(self._rule, ways)))}, by which "
                f"{self.engine} verifies; profile again"
            )
        choices = [self._best(way, batch_size) for way in known]
        return max(choices, key=lambda choice: choice.tokens_per_ms)

    def _best(self, way: Way, batch_size: int) -> Choice:
        assert self.profile is not None
        candidates = rank_candidates(
            self.profile,
            solver=way.solver,
            verifier=self._rule(way),
            temperature=self.plan.sampling.temperature,
            batch_size=batch_size,
            context=self.plan.made_from.context if self.plan.made_from else None,
        )
        best = next(each for each in candidates if not each.speculates or way.takes(each.drafting))
        return Choice(way, self._plan(way, best.drafting, best.predicted))

    def _rule(self, way: Way) -> str:
        return GREEDY_RULE if self.plan.sampling.temperature == 0 else way.verifier

    def _is_known(self, way: Way) -> bool:
        """Did the profile measure what this way is graded by?"""
        assert self.profile is not None
        sampling, rule = self.plan.sampling, self._rule(way)
        if way.grows and replays_of(self.profile, sampling, rule) is None:
            return False
        return any((e.sampling, e.verifier) == (sampling, rule) for e in self.profile.acceptance)

    def _as_it_is(self, ways: Sequence[Way]) -> Choice:
        drafting = self.plan.drafting
        if not self.plan.speculates:
            return Choice(ways[0], self.plan)
        for way in sorted(ways, key=lambda way: way.verifier != self.plan.verifier):
            if way.takes(drafting):
                same = way.verifier == self.plan.verifier or self.plan.sampling.temperature == 0
                return Choice(way, self._plan(way, drafting, self.plan.predicted if same else None))
        raise PlannerError(
            f"plan: got drafting of kind {drafting.kind!r} with up to "
            f"{drafting.most_children} children a node, which {self.engine} cannot carry out; give "
            "the profile that the plan was made from, so that one that it can is planned"
        )

    def _plan(self, way: Way, drafting: Drafting, predicted: Predicted | None) -> Plan:
        return Plan(
            drafting=drafting,
            verifier=way.verifier,
            sampling=self.plan.sampling,
            predicted=predicted,
        )
