"""The fastest tile, warps, stages and splits: a line for the table for every size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import product

import torch

from tree_kernels.backend import device_of
from tree_kernels.configs import Config, choose_config

from .bench import Bench, Skipped, reason
from .clock import timed
from .inputs import Inputs, inputs
from .shapes import LLAMA_2_7B, LLAMA_3_8B, Case
from .warm_up import Call, compile_all

SHARED_MEMORY = 220_000
"""Bytes a program may take."""


def run(bench: Bench) -> None:
    """A row per case: the table's configuration, the best one found, and their times."""
    if bench.device.type != "cuda":
        raise Skipped("there is nothing to tune without a GPU")
    shared = device_of(bench.device).shared
    plan = {case: candidates(case, bench.dtype.itemsize, shared) for case in _cases()}
    calls = [Call(case, bench.dtype, config) for case, tried in plan.items() for config in tried]
    compile_all(calls, bench.device, bench.left() / 2)
    for case, tried in plan.items():
        bench.check_time(5)
        made, listed = inputs(case, bench.dtype, bench.device), tried[0]
        found = {}
        for config in tried:
            if bench.left() < 3:
                break
            try:
                found[config] = _time(bench, made, config)
            except Exception as error:
                if "illegal memory access" in str(error):
                    raise
                bench.add({"what": _title(case), "config": asdict(config), "failed": reason(error)})
        if listed not in found:
            continue
        best = min(found, key=lambda config: found[config])
        best, best_us = _with_splits(bench, made, best, found[best])
        bench.add(
            {
                "what": _title(case), "tried": len(found),
                "listed": asdict(listed), "listed_us": round(found[listed], 3),
                "best": asdict(best), "best_us": round(best_us, 3),
            }
        )  # fmt: skip


def candidates(case: Case, element_size: int, shared: int) -> list[Config]:
    """The table's configuration, where a program has so much shared memory, then the others."""
    listed = choose_config(_num_rows(case), case.shape.head_dim, element_size, shared)
    return [listed, *(config for config in configs(case, element_size) if config != listed)]


def configs(case: Case, element_size: int) -> Iterator[Config]:
    """Tiles that are not mostly padding, with schedules that fit shared memory."""
    rows, width = _num_rows(case), case.shape.head_dim
    tiles = [tile for tile in (16, 32, 64, 128) if tile == 16 or tile < 2 * rows]
    for block_m, block_n, stages in product(tiles[-2:], (32, 64, 128), (2, 3, 4)):
        memory = (2 * stages * block_n + block_m) * width * element_size
        if memory > SHARED_MEMORY:
            continue
        for warps in (4, 8) if block_m >= 64 else (2, 4):
            yield Config(block_m, block_n, warps, stages, max(1, min(4, 227_000 // memory)))


def _cases() -> list[Case]:
    """Rows n G of 4, 64 and 256, 16, 1024, then a short prefix."""
    return [
        Case(LLAMA_2_7B, 8192, 64),
        Case(LLAMA_3_8B, 8192, 64),
        Case(LLAMA_3_8B, 8192, 1),
        Case(LLAMA_2_7B, 8192, 16),
        Case(LLAMA_3_8B, 8192, 256),
        Case(LLAMA_2_7B, 1024, 64),
    ]


def _num_rows(case: Case) -> int:
    return case.nodes * case.shape.group


def _title(case: Case) -> str:
    return f"{case.shape.name}, P = {case.prefix}, n = {case.nodes}"


def _time(bench: Bench, made: Inputs, config: Config) -> float:
    """Microseconds."""
    from tree_kernels.tree_attention import tree_attention

    out = torch.empty_like(made.query)
    attend = partial(tree_attention, out=out, config=config)
    calls = made.calls(
        lambda key, value: attend(made.query, key, value, made.prefix_lengths, made.bits)
    )
    return timed(calls, bench.device).median_us


def _with_splits(bench: Bench, made: Inputs, best: Config, best_us: float) -> tuple[Config, float]:
    """The best configuration with more or fewer programs to a multiprocessor, hence splits."""
    for programs in {1, 2, 3, 4, 6, 8} - {best.programs_per_sm}:
        if bench.left() < 2:
            break
        config = replace(best, programs_per_sm=programs)
        taken = _time(bench, made, config)
        if taken < best_us:
            best, best_us = config, taken
    return best, best_us
