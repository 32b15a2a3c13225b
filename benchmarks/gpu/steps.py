"""The parts of a decode step's time: passes and steps of a large shape, timed, counted and
profiled."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from .bench import Bench, Skipped
from .pipeline import DRAFT, TARGET
from .results import Row

if TYPE_CHECKING:
    from planner.policies import Policy
    from runtime import LanguageModel
    from runtime.session import Session

NUM_WARM, NUM_STEPS, NUM_PROFILED = 12, 24, 6
NODES = 64
MOST_NAMED = 12
"""Kernels and places of waits that are named, those with the most first."""
PASSES = (1, 2, 8, 64)
"""New rows of passes that are timed."""
CONTEXT, NUM_TIMED = 448, 15


def run(bench: Bench) -> None:
    """A row per size of a pass; then for every way of decoding one of a step: its time, kernels,
    waits and compilations."""
    if bench.device.type != "cuda":
        raise Skipped("a step's kernels are those of a GPU")
    from planner.cli.models import load_named
    from planner.policies import GreedyDrafting
    from planner.policies.fixed import FixedTree
    from profiler.times.cost_grid import typical_tree

    models = [
        load_named(name, device="cuda", dtype="bfloat16", attention="tree")
        for name in (TARGET, DRAFT)
    ]
    bench.attempt({"what": "passes"}, lambda: _passes(bench, models[0]))
    grown = GreedyDrafting(num_nodes=NODES, max_depth=6, max_children=8)
    ways: dict[str, tuple[Policy, str, float]] = {
        "no draft, T=0": (FixedTree(typical_tree(1)), "topk", 0),
        "tree of 64, rrsw, T=.6": (FixedTree(typical_tree(NODES)), "rrsw", 0.6),
        "growing to 64, rrsw, T=.6": (grown.policy(deterministic=False), "rrsw", 0.6),
        "tree of 64, T=0": (FixedTree(typical_tree(NODES)), "topk", 0),
        "tree of 64, traversal, T=.6": (FixedTree(typical_tree(NODES)), "traversal", 0.6),
    }
    for name, (policy, verifier, temperature) in ways.items():
        bench.check_time(8)
        begun = partial(_session, models, verifier, temperature)
        bench.attempt({"what": name}, partial(taken_apart, begun, policy))


def _passes(bench: Bench, model: LanguageModel) -> Row:
    """Passes of the target as they are, as transformers' are when they are recorded, and as those
    are without a record."""
    from runtime import HuggingFaceModel
    from runtime.graphed import GraphedModel
    from runtime.graphs import ModulePass

    assert isinstance(model, HuggingFaceModel)
    recorded = GraphedModel(model.module, partial(ModulePass, model.module))
    ways = {"ours": model, "recorded": recorded, "plain": HuggingFaceModel(model.module)}
    for num_rows in PASSES:
        bench.check_time(8)
        times = pass_times(list(ways.values()), num_rows)
        bench.add({"what": f"pass over {num_rows}, ms", **dict(zip(ways, times, strict=True))})
    return {"attention": model.attention}


def pass_times(models: Sequence[LanguageModel], num_rows: int) -> list[float]:
    """Milliseconds of a pass over `num_rows` behind `CONTEXT` others by each model, the host's part
    included: the median of several, in turns."""
    times: list[list[float]] = [[] for _ in models]
    caches = [model.new_cache(CONTEXT + num_rows) for model in models]
    device = models[0].device
    text, places = torch.zeros(CONTEXT, dtype=torch.int64, device=device), torch.arange(CONTEXT)
    for model, cache in zip(models, caches, strict=True):
        model.forward(text, places.to(device), cache, num_logits=0)
    new = text[:num_rows], torch.arange(CONTEXT, CONTEXT + num_rows, device=device)
    for _ in range(NUM_TIMED + 1):
        for model, cache, taken in zip(models, caches, times, strict=True):
            start = time.perf_counter()
            model.forward(*new, cache)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            taken.append(1e3 * (time.perf_counter() - start))
            cache.rewind(CONTEXT)
    return [round(median(taken[1:]), 3) for taken in times]


def _session(
    models: list[LanguageModel], verifier: str, temperature: float, *, timed: bool
) -> Session:
    from planner.documents.sampling import Sampling
    from planner.verifiers import VERIFIERS
    from runtime.embedded import load_prompts
    from runtime.randomness import seeded_source
    from runtime.session import Session

    target, draft = models
    session = Session(
        target, draft, verifier=VERIFIERS[verifier], sampling=Sampling(temperature=temperature),
        rng=seeded_source(0, target.device), timed=timed, capacity=1024,
    )  # fmt: skip
    text = [token for prompt in load_prompts("evaluation") for token in prompt][:CONTEXT]
    session.prefill(text)
    session.prepare(NODES)
    return session


def taken_apart(begun: Callable[..., Session], policy: Policy) -> Row:
    """The parts of a step: milliseconds by the clock, and of each phase when it is waited for; time
    in which the device computes; kernels, waits for the device with their places, compilations.

    begun  makes a session that has read its text, `timed` or not
    """
    session = begun(timed=False)
    for _ in range(NUM_WARM):
        session.step(policy)
    with _compilations() as compiled:
        untimed = _clocked(session, policy)
    waits = _waits(session, policy)
    kernels = _kernels(session, policy)
    del session  # its store, and what was recorded, go to the next one
    session = begun(timed=True)
    records = [session.step(policy) for _ in range(NUM_WARM + NUM_STEPS)][NUM_WARM:]
    phases = ("grow_ms", "verify_ms", "accept_ms", "total_ms")
    busy = sum(ms for _, ms in kernels.values())
    return {
        "step_ms": round(untimed, 3),
        **{f"waited_{name}": _median(getattr(each, name) for each in records) for name in phases},
        "waited_draft_ms": _median(sum(each.draft_ms) for each in records),
        "draft_passes": _median(len(each.draft_ms) for each in records),
        "tokens": round(sum(len(each.tokens) for each in records) / len(records), 3),
        "busy_ms": round(busy / NUM_PROFILED, 3),
        "kernels": round(sum(count for count, _ in kernels.values()) / NUM_PROFILED, 1),
        "waits": round(sum(waits.values()) / NUM_STEPS, 1),
        "compilations": len(compiled),
        "by_kernel": {
            name[:60]: {"calls": round(count / NUM_PROFILED, 1), "ms": round(ms / NUM_PROFILED, 4)}
            for name, (count, ms) in sorted(kernels.items(), key=lambda each: -each[1][1])[
                :MOST_NAMED
            ]
        },
        "by_wait": {
            place: round(count / NUM_STEPS, 1) for place, count in waits.most_common(MOST_NAMED)
        },
    }


def _median(values: Iterable[float]) -> float:
    return round(float(median(values)), 3)


def _clocked(session: Session, policy: Policy) -> float:
    """Milliseconds of a step where nobody waits for the device but who has to."""
    times = []
    for _ in range(NUM_STEPS):
        start = time.perf_counter()
        session.step(policy)
        times.append(1e3 * (time.perf_counter() - start))
    return median(times)


def _waits(session: Session, policy: Policy) -> Counter[str]:
    """The places at which the host waited for the device, and how often."""
    found: Counter[str] = Counter()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(NUM_STEPS):
                session.step(policy)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for each in caught:
        found[f"{'/'.join(each.filename.split('/')[-2:])}:{each.lineno}"] += 1
    return found


def _kernels(session: Session, policy: Policy) -> dict[str, tuple[int, float]]:
    """How often each kernel ran, and for how many milliseconds, in all steps profiled."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(NUM_PROFILED):
            session.step(policy)
        torch.cuda.synchronize()
    found: dict[str, tuple[int, float]] = {}
    for each in profiled.events():
        if each.device_type == torch.autograd.DeviceType.CUDA:
            count, ms = found.get(each.name, (0, 0.0))
            found[each.name] = count + 1, ms + 1e-3 * each.device_time_total
    return found


@contextmanager
def _compilations() -> Iterator[list[str]]:
    """Names of kernels that Triton compiles meanwhile."""
    from triton import knobs

    found: list[str] = []

    def note(*arguments: Any, **named: Any) -> None:
        found.append(str(named.get("repr", "?"))[:80])

    before, knobs.runtime.jit_post_compile_hook = knobs.runtime.jit_post_compile_hook, note
    try:
        yield found
    finally:
        knobs.runtime.jit_post_compile_hook = before
