"""Profiles made up for tests: costs and acceptance given as plain functions and arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from planner.documents.origin import Execution, Machine, ModelInfo
from planner.documents.profile import Acceptance, Profile, PromptAcceptance
from planner.documents.sampling import Sampling
from planner.documents.times import Costs, Curve, GrowingTimes
from planner.verifiers import VERIFIERS

MACHINE = Machine(
    platform="test",
    cpu="test",
    num_threads=1,
    device="cpu",
    python="3",
    torch="2",
    transformers="5",
)
MODEL = ModelInfo(
    name="test", fingerprint="0", num_parameters=1, vocab_size=100, max_positions=1000
)


def curve(
    counts: Sequence[int], ms: Callable[[int], float], *, spread: float = 0.0, repeats: int = 100
) -> Curve:
    """Medians by a function of the count; quartiles a fraction `spread` below and above them."""
    values = [float(ms(count)) for count in counts]
    return Curve(
        counts=list(counts),
        median_ms=values,
        low_ms=[value * (1 - spread) for value in values],
        high_ms=[value * (1 + spread) for value in values],
        repeats=repeats,
    )


def exact(counts: Iterable[int], times: Sequence[float]) -> Curve:
    """These times, without an error."""
    known = dict(zip(counts, times, strict=True))
    return curve(list(known), known.__getitem__)


def costs(
    *,
    verify: Callable[[int], float] = lambda n: 10.0,
    draft: Callable[[int], float] = lambda width: 1.0,
    root: float | None = None,
    overhead: Callable[[int], float] = lambda n: 0.1,
    step: float = 10.0,
    counts: Sequence[int] = (1, 2, 4, 8, 16, 32),
    batch_size: int = 1,
    context: int = 128,
    spread: float = 0.0,
) -> Costs:
    return Costs(
        batch_size=batch_size,
        context=context,
        verify=curve(counts, verify, spread=spread),
        draft_root=curve([1], lambda n: draft(1) if root is None else root, spread=spread),
        draft=curve(counts, draft, spread=spread),
        overhead={name: curve(counts, overhead, spread=spread) for name in VERIFIERS},
        target_step=curve([1], lambda n: step, spread=spread),
        draft_step=curve([1], lambda n: draft(1), spread=spread),
    )


def growing_times(
    root: float,
    draft: Callable[[int], float],
    overhead: Callable[[int], float],
    widths: Sequence[int] = (1,),
    sizes: Sequence[int] = (2, 4, 8),
) -> GrowingTimes:
    """Times as where a rule decides on the tree."""
    return GrowingTimes(
        draft_root=curve([1], lambda n: root),
        draft=curve(widths, draft),
        overhead=curve(sizes, overhead),
    )


def positional(
    vectors: Sequence[Sequence[float]],
    *,
    verifier: str = "rrsw",
    temperature: float = 0.6,
    siblings: bool = False,
) -> Acceptance:
    """An entry without traces: one prompt of 100 positions per vector.

    siblings  are the entries columns by number of siblings and rank?
    """
    num_columns = len(vectors[0])
    return Acceptance(
        sampling=Sampling(temperature=temperature),
        verifier=verifier,
        num_ranks=Acceptance.ranks_in(num_columns) if siblings else num_columns,
        by_rank_alone=not siblings,
        prompts=[PromptAcceptance(num_positions=100, acceptance=list(v)) for v in vectors],
    )


def traced(
    emitted: Sequence[np.ndarray], *, verifier: str = "rrsw", temperature: float = 0.6
) -> tuple[Acceptance, dict[str, np.ndarray]]:
    """An entry with traces, one array [positions, k] per prompt, and the arrays it names."""
    rows = [np.asarray(array, np.float32) for array in emitted]
    name = f"{verifier}_{temperature:g}"
    entry = Acceptance(
        sampling=Sampling(temperature=temperature),
        verifier=verifier,
        num_ranks=rows[0].shape[1],
        prompts=[
            PromptAcceptance(num_positions=len(r), acceptance=r.mean(axis=0).tolist()) for r in rows
        ],
        expected=f"{name}_expected",
        emitted=f"{name}_emitted",
    )
    every = np.concatenate(rows)
    return entry, {f"{name}_expected": every, f"{name}_emitted": every}


def profile(
    entries: Sequence[Acceptance | tuple[Acceptance, dict[str, np.ndarray]]],
    all_costs: Sequence[Costs] | None = None,
) -> Profile:
    acceptance = [entry if isinstance(entry, Acceptance) else entry[0] for entry in entries]
    arrays: dict[str, np.ndarray] = {}
    for entry in entries:
        if not isinstance(entry, Acceptance):
            arrays |= entry[1]
    made = Profile(
        created="2025-01-01T00:00:00+00:00",
        machine=MACHINE,
        execution=Execution(dtype="float32", attention="eager"),
        target=MODEL,
        draft=MODEL,
        costs=list(all_costs or [costs()]),
        acceptance=acceptance,
    )
    return made.with_arrays(arrays, "test.safetensors") if arrays else made
