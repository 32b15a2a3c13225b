"""Requests that decode together, whose steps are timed as one: real passes over all their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling
from planner.policies import Policy
from planner.verifiers import Verifier
from runtime.language_model import LanguageModel, PassInput, PassOutput, answers
from runtime.passes import together
from runtime.randomness import Source
from runtime.session import Score, Session, StepRecord

from .cost_grid import CostGrid

WANDER = 16
"""Tokens by which a text that is timed may be shorter or longer than the context that its times are
of; a quarter of that, at most."""
LEAST_NODES = 2
"""The largest tree of each request, where most of them decode together: with less nothing is
drafted."""


class Rows:
    """Texts alike, one for each request, that take their steps together.

    models  target and draft; without a draft the first decodes alone
    text    token ids: as many as stand in every cache, on average
    grid    its batch size is the number of texts: with one its steps are an ordinary session's

    The texts go on, from somewhat less than `text` to somewhat more, and then start again.  A step
    that always came to the same end would always keep the same rows of its caches, and its draft
    would always have one token to read that it had not drafted.
    """

    def __init__(
        self,
        models: tuple[LanguageModel, LanguageModel | None],
        text: Sequence[int],
        grid: CostGrid,
        *,
        verifier: Verifier,
        sampling: Sampling,
        rng: Source,
    ) -> None:
        self._sessions = [
            Session(*models, verifier=verifier, sampling=sampling, rng=rng)
            for _ in range(grid.batch_size)
        ]
        room = self._sessions[0].max_positions - len(text) - grid.depth
        wander = max(0, min(WANDER, len(text) // 4, room))
        self._start, self._end = len(text) - wander, len(text) + wander
        for session in self._sessions:
            session.prefill(list(text[: self._start]))

    def use(self, verifier: Verifier, score: Score | None = None) -> None:
        """Sample and verify with `verifier`, by a head's word where there is one."""
        for session in self._sessions:
            session.score = score
            session.use(verifier)

    def step(self, policy: Callable[[], Policy]) -> StepRecord:
        """One round of all texts.

        policy  makes the policy of one text

        Of several texts the record is the first's, but for the times, which are those of all: a
        draft pass goes up to the start of the next one, the target's up to its distributions.
        """
        first, *others = self._sessions
        record = self._shared(policy) if others else first.step(policy())
        for session in self._sessions:
            if len(session.tokens) > self._end:
                session.rewind(self._start)
        return record

    def _shared(self, policy: Callable[[], Policy]) -> StepRecord:
        first, starts = self._sessions[0], list[float]()

        def answer(inputs: Sequence[PassInput]) -> list[PassOutput]:
            starts.append(first.now())
            return answers(inputs)

        start = first.now()
        steps = [session.stepping(policy()) for session in self._sessions]
        records = []
        for record in together(steps, last=first.target, answer=answer):
            if isinstance(record, PlannerError):
                raise record
            records.append(record)
        end = first.now()
        accept_ms = sum(record.accept_ms for record in records)
        return replace(
            records[0],
            draft_ms=tuple(1e3 * (after - before) for before, after in pairwise(starts)),
            grow_ms=1e3 * (starts[0] - start),
            verify_ms=1e3 * (end - starts[-1]) - accept_ms,
            accept_ms=accept_ms,
            total_ms=1e3 * (end - start),
        )


def grid_at(batch_size: int, max_nodes: int, vocab_size: int, *, slow: bool = False) -> CostGrid:
    """The sizes that are timed where so many requests decode together: passes have no more rows
    than `max_nodes`, the largest tree of one request.

    Raises PlannerError where nothing but the roots would be left.
    """
    share = max_nodes // batch_size
    if share < LEAST_NODES:
        raise PlannerError(
            f"batch_size: got {batch_size}, expected at most {max_nodes // LEAST_NODES}: with "
            f"max_nodes = {max_nodes}, passes over so many rows in all are timed, and a tree of "
            f"{LEAST_NODES} nodes is each request's least; name a larger max_nodes"
        )
    return replace(CostGrid.up_to(share, vocab_size, slow=slow), batch_size=batch_size)
