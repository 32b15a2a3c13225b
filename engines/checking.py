"""A plan carried out by the engine itself, beside its neighbours and no speculation at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime

import numpy as np
import torch

from planner.documents.document import PlannerError
from planner.documents.estimate import Estimate
from planner.documents.sampling import Sampling
from planner.documents.version import WRITTEN_BY
from planner.estimates.bootstrap import interval, resamples
from planner.plans.check import Check, EngineRun, Role
from planner.plans.plan import Plan
from planner.policies import ConfidentDrafting, Drafting
from runtime.machine import describe_machine

from .engine_costs import Turns
from .program import Answer, Program

NUM_GREEDY = 8
"""Texts that are compared with those of plain decoding, where the plan itself is not greedy."""
MARGINS = (0.1, 0.1)


def check(
    engine: Program,
    plan: Plan,
    turns: Turns,
    *,
    neighbours: bool = True,
    doing: Callable[[str], object] = lambda what: None,
) -> Check:
    """Decode every prompt in turns: plainly, with the plan's setting, and with its neighbours'.

    turns  the prompts should be others than those profiled

    Raises PlannerError for a plan that the engine cannot carry out, and where the engine fails.
    """
    if not plan.speculates:
        raise PlannerError(
            "plan: got one not to speculate, expected one that drafts; there is nothing to check"
        )
    tried: dict[str, tuple[Role, Drafting | None]] = {engine.words(None): ("plain", None)}
    tried[engine.words(plan.drafting)] = ("plan", plan.drafting)
    if neighbours:
        tried.setdefault(engine.words(engine.default), ("default", engine.default))
        for each in neighbouring(plan.drafting, engine.facts.most_tokens):
            tried.setdefault(engine.words(each), ("neighbour", each))
    with ExitStack() as stack:
        running = {}
        for setting, (_, drafting) in tried.items():
            doing(f"starting {setting}")
            running[setting] = stack.enter_context(engine.running(drafting))
        doing("decoding in turns")
        found = turns.decoded(running)
        greedy = Turns(
            turns.prompts[:NUM_GREEDY], Sampling(temperature=0.0), turns.num_tokens, turns.seed
        )
        two = list(tried)[:2]
        compared = (
            found
            if turns.sampling.is_greedy
            else greedy.decoded({name: running[name] for name in two})
        )
    texts = {name: [each.tokens for each in compared[name]] for name in compared}
    plain = next(iter(found.values()))
    runs = [
        _run(role, setting, drafting, found[setting], plain).model_copy(
            update={"num_same": _same(texts[setting], texts[two[0]]) if setting in texts else None}
        )
        for setting, (role, drafting) in tried.items()
    ]
    return Check(
        written_by=WRITTEN_BY,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        plan=plan,
        plan_sha256=plan.fingerprint(),
        engine=engine.facts,
        machine=describe_machine(torch.device("cpu")),
        seed=turns.seed,
        num_prompts=len(turns.prompts),
        num_tokens=turns.num_tokens,
        num_greedy=len(texts[two[0]]),
        runs=runs,
    )


def neighbouring(drafting: Drafting, most_tokens: int) -> list[Drafting]:
    """Settings around it: shorter and longer, more and less easily ended."""
    length = drafting.most_nodes - 1
    sure = drafting.confidence if isinstance(drafting, ConfidentDrafting) else 0.0
    around = [
        (max(1, length - max(1, length // 3)), sure),
        (min(most_tokens, length + max(1, length // 3)), sure),
        (length, max(0.0, round(sure - MARGINS[0], 3))),
        (length, min(0.95, round(sure + MARGINS[1], 3))),
    ]
    return [ConfidentDrafting(max_depth=n, confidence=c) for n, c in dict.fromkeys(around)]


def _run(
    role: Role,
    setting: str,
    drafting: Drafting | None,
    decoded: Sequence[Answer],
    plain: Sequence[Answer],
) -> EngineRun:
    ms, tokens, steps = (
        np.array([getattr(each, name) for each in decoded], np.float64)
        for name in ("ms", "num_timed", "num_steps")
    )
    alone_ms, alone_tokens = (
        np.array([getattr(each, name) for each in plain], np.float64)
        for name in ("ms", "num_timed")
    )
    cpu = [each.cpu_ms for each in decoded]
    known = [each for each in cpu if each is not None]
    return EngineRun(
        role=role,
        setting=setting,
        drafting=drafting,
        tokens_per_step=_ratio(tokens, steps),
        step_ms=ms.sum() / steps.sum(),
        ms_per_token=ms.sum() / tokens.sum(),
        cpu_ms_per_token=sum(known) / tokens.sum() if len(known) == len(cpu) else None,
        speedup=_ratio(alone_ms, alone_tokens, tokens, ms),
    )


def _ratio(above: np.ndarray, below: np.ndarray, *rest: np.ndarray) -> Estimate:
    """sum(above) / sum(below), times the same of `rest`; 95 % interval over prompts."""
    drawn = resamples(len(above))

    def of(weights: np.ndarray) -> np.ndarray:
        value = (weights @ above) / (weights @ below)
        return value * ((weights @ rest[0]) / (weights @ rest[1])) if rest else value

    value = float(of(np.ones((1, len(above))))[0])
    low, high = interval(of(drawn), len(above), least=value / 2, most=value * 2)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def _same(texts: Sequence[list[int]], others: Sequence[list[int]]) -> int:
    return sum(one == other for one, other in zip(texts, others, strict=True))
