"""A plan for an engine that can do only so much: the best that it can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..documents.document import PlannerError
from ..documents.engine import EngineFacts
from ..documents.profile import Profile
from ..documents.times import Costs
from ..estimates.step_costs import StepCosts, step_costs
from ..optimizer.choice import Question, rank_candidates
from ..optimizer.grading import Candidate
from ..optimizer.ranking import settled
from ..plans.plan import Plan, Predicted
from ..policies import Drafting
from ..replay.replays import replays_of
from ..verifiers import verifier_at
from .notations import Schedule, by_position
from .ways import Way


@dataclass(frozen=True)
class Export:
    """A plan in an engine's terms."""

    content: str
    """The file, as the engine reads it, or flags for its command line."""
    plan: Plan | None
    """The engine's own doing, as a plan of ours; with a prediction where one can be made.  None
    where nothing was planned."""
    notes: Sequence[str] = ()
    """Facts that the file cannot say, and that one has to know to use it."""


@dataclass(frozen=True)
class Choice:
    """The plan that an engine will carry out, and how."""

    way: Way
    plan: Plan

    @property
    def num_tokens(self) -> int:
        """Drafted in a step, at most."""
        return self.plan.drafting.most_nodes - 1

    @property
    def chances(self) -> list[float]:
        """P(at least so many drafted tokens of a step are accepted), from one on.

        Raises PlannerError where nothing was predicted.
        """
        predicted = self.plan.predicted
        if predicted is None or predicted.reach is None:
            raise PlannerError(
                "plan: got one that predicts no acceptance of chains as they are verified there; "
                "give the profile that it was made from"
            )
        return by_position(predicted.reach, self.plan.tree.depths)

    @property
    def unpredicted(self) -> Choice:
        """The same, where what is known of our own runtime says nothing about the engine."""
        return replace(self, plan=self.plan.model_copy(update={"predicted": None}))


@dataclass(frozen=True)
class Task:
    """A plan to be exported."""

    engine: str
    plan: Plan
    profile: Profile | None = None
    """The source of the plan, if it is at hand: what the engine cannot do is planned anew."""
    draft: str | None = None
    """The name that the engine is to have for the draft model; None: as the plan does."""

    @property
    def is_measured(self) -> bool:
        """Are the times, and what the engine ends chains by, its own, measured in itself?"""
        return self.timed_program == self.engine

    @property
    def timed_program(self) -> str:
        """The engine whose times these are, the source of given ones, or "this runtime"."""
        source = self.profile or self.plan.made_from
        if source and source.engine:
            return source.engine.name
        return source.costs_from.source if source and source.costs_from else "this runtime"

    @property
    def _facts(self) -> EngineFacts | None:
        source = self.profile or self.plan.made_from
        return source.engine if source else None

    @property
    def method(self) -> str | None:
        """The engine's own word for how it drafts, where it counted the acceptance itself."""
        return self._facts.method if self._facts else None

    @property
    def options(self) -> Sequence[str]:
        """Words of the engine's command line that it was measured with besides."""
        return self._facts.options if self._facts and self.is_measured else ()

    @property
    def served_heads(self) -> str | None:
        """The file that its own method drafts with, as it was started with it."""
        return (self._facts.draft or None) if self._facts and self.method else None

    @property
    def is_drafted_alone(self) -> bool:
        """Does it draft by a method that needs no model?"""
        return self._facts is not None and not self._facts.draft

    @property
    def draft_model(self) -> str | None:
        """Its name or place, where one is known that others can load too."""
        made_from = self.plan.made_from
        if self.is_drafted_alone:
            return self.draft
        if self.draft is None and made_from and not made_from.draft.name.startswith("embedded/"):
            return made_from.draft.name
        return self.draft

    def lacking_draft(self, key: str) -> list[str]:
        """A note where there is no such name; `key` is what it would have stood under."""
        if self.draft_model is not None or self.is_drafted_alone:
            return []
        return [
            f"{key} is missing: the plan names no draft model that {self.engine} can load; "
            "name one with --draft"
        ]

    @property
    def batch_size(self) -> int:
        """The size that the plan was made for; where it does not say, the smallest measured."""
        if self.plan.made_from:
            return self.plan.made_from.batch_size
        return min((each.batch_size for each in self._costs), default=1)

    @property
    def context(self) -> int | None:
        """The context that the plan was made for; where it does not say, the first measured."""
        if self.plan.made_from:
            return self.plan.made_from.context
        return next((each.context for each in self.costs_at(self.batch_size)), None)

    def costs_at(self, batch_size: int) -> list[Costs]:
        """The profile's entries of one batch size."""
        return [each for each in self._costs if each.batch_size == batch_size]

    @property
    def _costs(self) -> Sequence[Costs]:
        return self.profile.costs if self.profile else []

    @property
    def batch_sizes(self) -> list[int]:
        """The plan's own, and all others that were measured around its context."""
        context, sizes = self.context or 0, {self.batch_size}
        for size in {each.batch_size for each in self._costs}:
            contexts = [each.context for each in self.costs_at(size)]
            if min(contexts) <= context <= max(contexts):
                sizes.add(size)
        return sorted(sizes)

    def times(self, batch_size: int) -> StepCosts:
        """The measured times at a batch size and the plan's context.

        Raises PlannerError where there is no profile, or it did not measure them.
        """
        if self.profile is None:
            raise PlannerError("profile: got none, expected the one that holds the measured times")
        return step_costs(
            self.profile, batch_size=batch_size, context=self.context, sampling=self.plan.sampling
        )

    def choose(self, ways: Sequence[Way], *, even_slower: bool = False) -> Choice:
        """The fastest plan that can be carried out in one of these ways; without a profile, the
        plan as it is.

        even_slower  than not to speculate: times are no matter to who reads it

        Raises PlannerError where it cannot be carried out, and where not speculating is faster.
        """
        if self.profile is None:
            return self._as_it_is(ways)
        choice = self.best(ways, self.batch_size, even_slower=even_slower)
        if not choice.plan.speculates:
            raise PlannerError(
                f"plan: nothing that {self.engine} can do is predicted to be faster than not to "
                "speculate, or surely enough; leave its speculative decoding off"
            )
        return choice

    def schedule(self, choice: Choice) -> Schedule:
        """(batch size, tokens to draft) for the plan's own, by `choice`, and the other
        `batch_sizes`, in the same way; 0: none."""
        others = set(self.batch_sizes) - {self.batch_size}
        choices = {self.batch_size: choice}
        choices |= {size: self.best([choice.way], size) for size in others}
        return [(size, choices[size].num_tokens) for size in sorted(choices)]

    def best(self, ways: Sequence[Way], batch_size: int, *, even_slower: bool = False) -> Choice:
        """The fastest plan of these ways under the profile's times and acceptance, which may be not
        to speculate, unless it may be slower than that.

        Raises PlannerError for what the profile did not measure.
        """
        assert self.profile is not None
        sampling = self.plan.sampling
        if self.profile.sampling_at(sampling.temperature) != sampling:
            raise PlannerError(f"plan: sampling: got {sampling}, which the profile did not measure")
        known = [way for way in ways if self._is_known(way)]
        if not known:
            there = {each.verifier for each in self.profile.acceptance if each.sampling == sampling}
            raise PlannerError(
                f"profile: holds the acceptance of {', '.join(sorted(there))} at {sampling}, "
                f"expected {' or '.join(dict.fromkeys(map(self._verifier, ways)))}, by which "
                f"{self.engine} verifies; profile again"
            )
        timed = [(way, each) for way in known for each in self._timed(way, batch_size)]
        if even_slower:
            timed = [pair for pair in timed if pair[1].speculates] or timed
        timed.sort(key=lambda pair: -pair[1].tokens_per_ms)  # of equals the first
        fastest = [each for _, each in timed]
        best = fastest[0] if even_slower else settled(fastest)[0]
        way = next(way for way, each in timed if each is best)
        return Choice(way, self._plan(way, best.drafting, best.predicted))

    def _timed(self, way: Way, batch_size: int) -> Iterator[Candidate]:
        """Not to speculate, and all of this way that could be timed."""
        assert self.profile is not None
        verifier = self._verifier(way)
        question = Question(
            solver=way.solver,
            verifier=verifier,
            sampling=self.plan.sampling,
            batch_size=batch_size,
            context=self.context,
        )
        candidates = rank_candidates(self.profile, question)
        costs = step_costs(
            self.profile,
            verifier=verifier,
            batch_size=batch_size,
            context=self.context,
            sampling=self.plan.sampling,
        )
        for candidate in candidates:
            if not candidate.speculates or way.takes(candidate.drafting):
                timed = way.timed(candidate, costs)
                if timed is not None:
                    yield timed

    def _verifier(self, way: Way) -> str:
        return verifier_at(way.verifier, self.plan.sampling).name

    def _is_known(self, way: Way) -> bool:
        """Did the profile measure what this way is graded by?"""
        assert self.profile is not None
        sampling, verifier = self.plan.sampling, self._verifier(way)
        if way.grows:
            replays = replays_of(self.profile, sampling, verifier)
            if replays is None or replays.num_texts < 2:
                return False
        known = [(each.sampling, each.verifier) for each in self.profile.acceptance]
        return (sampling, verifier) in known

    def _as_it_is(self, ways: Sequence[Way]) -> Choice:
        drafting, verifier = self.plan.drafting, self.plan.verifier
        if not self.plan.speculates:
            raise PlannerError(
                f"plan: got one not to speculate; leave the speculative decoding of {self.engine} "
                "off, or give the profile that it was made from, to see what that engine could do"
            )
        able = [way for way in ways if way.takes(drafting)]
        for way in able:
            same = way.carries_out(drafting, verifier, self.plan.sampling.temperature)
            if same and way.width is None:
                return Choice(way, self._plan(way, drafting, self.plan.predicted))
        if able:
            return Choice(able[0], self._plan(able[0], drafting, None))
        uniform = all(way.is_uniform for way in ways)
        reason = ", where all nodes of a level have as many," if uniform else ""
        raise PlannerError(
            f"plan: got drafting of kind {drafting.kind!r} with up to "
            f"{drafting.most_children} children a node, which {self.engine}{reason} cannot carry "
            "out; give the profile that the plan was made from, so that one that it can is planned"
        )

    def _plan(self, way: Way, drafting: Drafting, predicted: Predicted | None) -> Plan:
        return Plan(
            drafting=drafting,
            verifier=way.verifier,
            sampling=self.plan.sampling,
            predicted=predicted,
        )
