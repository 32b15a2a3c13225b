"""A plan carried out by the engine itself, beside its neighbours and no speculation at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import torch

from planner.documents.estimate import Estimate
from planner.documents.sampling import Sampling
from planner.documents.version import WRITTEN_BY
from planner.estimates.bootstrap import interval, resamples
from planner.plans.check import Check, EngineRun, Role
from planner.plans.plan import Plan
from planner.policies import ConfidentDrafting, Drafting
from runtime.machine import describe_machine

from .program import Answer, Program, check_batches
from .timing import Turns

NUM_GREEDY = 8
"""Texts that are compared with those of plain decoding, where the plan itself is not greedy."""
STARTS = 4
"""Times that all are started, the prompts being shared out: as long as it runs, one is some percent
faster or slower than another, by where its memory came to lie."""
CLOSE = 0.1
"""The distance between a confidence and those tried beside it."""


def check(
    engine: Program,
    plan: Plan,
    turns: Turns,
    *,
    others: Sequence[Drafting] | None = None,
    doing: Callable[[str], object] = lambda what: None,
) -> Check:
    """Decode every prompt in turns: plainly, with the plan's setting, and with others.

    turns   the prompts should be others than those profiled
    others  settings beside the plan's; None: its neighbours, and the engine's default, or those of
            all servers that run already

    Raises PlannerError where the engine fails.
    """
    check_batches(engine, [turns.requests])
    tried = _tried(engine, plan, others)
    found: dict[str, list[Answer]] = {setting: [] for setting in tried}
    compared = found
    for numbers in np.array_split(range(len(turns.prompts)), min(STARTS, len(turns.prompts))):
        with ExitStack() as stack:
            running = {}
            for setting, (_, drafting) in tried.items():
                doing(f"starting with {setting}")
                running[setting] = stack.enter_context(engine.running(drafting, turns.requests))
            turns.warm(running)
            doing("decoding in turns")
            for setting, answers in turns.decoded(running, numbers.tolist()).items():
                found[setting] += answers
            if not turns.sampling.is_greedy and compared is found:
                some = turns.prompts[:NUM_GREEDY]
                greedy = replace(turns, prompts=some, sampling=Sampling(temperature=0.0))
                compared = greedy.decoded({name: running[name] for name in list(tried)[:2]})
    texts = {name: [answer.tokens for answer in answers] for name, answers in compared.items()}
    plain, alone = next(iter(found.values())), next(iter(texts.values()))
    runs = [
        _run(role, setting, drafting, found[setting], plain).model_copy(
            update={"num_same": _same(texts[setting], alone) if setting in texts else None}
        )
        for setting, (role, drafting) in tried.items()
    ]
    if not plan.speculates:
        runs.insert(1, runs[0].model_copy(update={"role": "plan"}))
    return Check(
        written_by=WRITTEN_BY,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        plan=plan,
        plan_sha256=plan.fingerprint(),
        engine=engine.facts,
        machine=describe_machine(torch.device("cuda" if torch.cuda.is_available() else "cpu")),
        seed=turns.seed,
        num_prompts=len(turns.prompts),
        num_tokens=turns.num_tokens,
        num_greedy=len(alone),
        runs=runs,
    )


def _tried(
    engine: Program, plan: Plan, others: Sequence[Drafting] | None
) -> dict[str, tuple[Role, Drafting | None]]:
    """Roles and settings by what the engine is told, plain decoding first, then the plan."""
    tried: dict[str, tuple[Role, Drafting | None]] = {engine.words(None): ("plain", None)}
    if plan.speculates:
        tried[engine.words(plan.drafting)] = ("plan", plan.drafting)
    if others is None and engine.own_lengths:
        others = [ConfidentDrafting(max_depth=n, confidence=0.0) for n in engine.own_lengths]
    elif others is None:
        tried.setdefault(engine.words(engine.default), ("default", engine.default))
        others = neighbouring(plan.drafting, engine.facts.most_tokens)
    for each in others:
        tried.setdefault(engine.words(each), ("neighbour", each))
    return tried


def neighbouring(drafting: Drafting, most_tokens: int) -> list[Drafting]:
    """Settings around it: shorter and longer, more and less easily ended."""
    length = max(1, drafting.most_nodes - 1)
    sure = drafting.confidence if isinstance(drafting, ConfidentDrafting) else 0.0
    around = [
        (max(1, length - max(1, length // 3)), sure),
        (min(most_tokens, length + max(1, length // 3)), sure),
        (length, max(0.0, round(sure - CLOSE, 3))),
        (length, min(0.95, round(sure + CLOSE, 3))),
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
