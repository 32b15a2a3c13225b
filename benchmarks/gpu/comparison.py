"""How does the kernel compare with everything else that could be used?"""

from __future__ import annotations

import torch

from tree_kernels import tree_attention

from .baselines import BASELINES, OtherAttention, flex_mask, query_block
from .bench import Bench, Skipped
from .clock import timed
from .inputs import Inputs, inputs, relative_error
from .results import Row
from .shapes import LLAMA_2_7B, LLAMA_3_8B, LLAMA_70B, TINY, Case
from .speed import OURS, named, ours

SAME = {torch.float32: 1e-5, torch.bfloat16: 3e-2}
"""Largest difference from ours per largest entry, where it does the same job: both round."""


def run(bench: Bench) -> None:
    """Rows for each case: one of ours, taken again beside the others, and one of every baseline.

    What is not installed, or does not serve any case, is said once.  What has to be compiled for
    every shape comes last: it may take all the time that is left.
    """
    missing: set[str] = set()
    cases = _cases(bench.dry)
    for case in cases:
        _side_by_side(bench, case, [n for n, b in BASELINES.items() if b.every_case], missing)
    for case in cases[:_FULL]:
        _side_by_side(bench, case, [n for n, b in BASELINES.items() if not b.every_case], missing)


_FULL = 3
"""Cases at which every baseline is tried."""


def _side_by_side(bench: Bench, case: Case, names: list[str], missing: set[str]) -> None:
    """Rows of ours and of `names` but for `missing`, to which what is not installed is added."""
    bench.check_time(5)
    made = inputs(case, bench.dtype, bench.device)
    bench.attempt({"what": OURS, **named(case)}, lambda: ours(bench, made))
    expected = tree_attention(*made.tensors)
    for name in names:
        if name in missing:
            continue
        bench.check_time(20 if name == "flexattention" else 3)
        row = {"what": name, **named(case)}
        try:
            bench.attempt(row, lambda name=name: _measured(bench, made, BASELINES[name], expected))
        except Skipped as skipped:
            missing |= {name} if "not installed" in str(skipped) else set()
            bench.add({**row, "failed": str(skipped)})
        if name == "flexattention" and bench.device.type == "cuda":
            build = {"what": "flexattention's mask", **named(case)}
            bench.attempt(build, lambda: _build(bench, made))


def _cases(dry: bool) -> list[Case]:
    if dry:
        return [Case(TINY, 40, nodes) for nodes in (1, 13)]
    first = [Case(LLAMA_3_8B, 8192, 64), Case(LLAMA_2_7B, 8192, 64), Case(LLAMA_70B, 8192, 64)]
    more = [
        Case(shape, prefix, nodes)
        for prefix in (4096, 32768, 1024, 128)
        for nodes in (64, 256, 16)
        for shape in (LLAMA_3_8B, LLAMA_2_7B)
    ]
    return [*first, *more, Case(LLAMA_3_8B, 8192, 256), Case(LLAMA_2_7B, 8192, 1024)]


def _measured(bench: Bench, made: Inputs, baseline: OtherAttention, expected: torch.Tensor) -> Row:
    attend = baseline.prepare(made)
    row: Row = {}
    if baseline.same_job:
        error = relative_error(attend(*made.caches[0]), expected)
        if error > SAME[bench.dtype]:
            raise ValueError(f"differs from ours by {error:.1e} of the largest entry")
        row["error"] = error
    return {**row, **timed(made.calls(attend), bench.device).row}


def _build(bench: Bench, made: Inputs) -> Row:
    """Outside a graph: it is built anew at every step, by the host."""
    build = flex_mask(made, query_block(made))
    build()
    torch.cuda.synchronize()
    taken = []
    for _ in range(10):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        build()
        end.record()
        end.synchronize()
        taken.append(1e3 * start.elapsed_time(end))
    return {"median_us": round(sorted(taken)[5], 3)}
