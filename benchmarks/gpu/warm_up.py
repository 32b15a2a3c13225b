"""Compile what a part will need beforehand, in many processes at once: into Triton's cache on disk.

One kernel after the other, as its first call comes, compiling would take longer than measuring.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context

import torch

from tree_kernels.configs import Config

from .inputs import inputs
from .shapes import Case

WORKERS = 12


@dataclass(frozen=True)
class Call:
    """One call whose kernels shall be there."""

    case: Case
    dtype: torch.dtype
    config: Config | None = None
    """None: the table's."""


def compile_all(
    calls: Sequence[Call], device: torch.device, seconds: float, *, workers: int = WORKERS
) -> int:
    """Make every call once, somewhere, for at most so many seconds; how many went well.

    What fails here fails again where it is measured, and is said there.
    """
    workers = min(workers, os.cpu_count() or 1, len(calls))
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    jobs: list[Future[None]] = [pool.submit(_call, call, device.type) for call in calls]
    done, _ = wait(jobs, timeout=seconds)
    for process in list((pool._processes or {}).values()) if len(done) < len(jobs) else []:
        process.terminate()  # it may be in the middle of a long compilation
    pool.shutdown(wait=len(done) == len(jobs), cancel_futures=True)
    return sum(job.exception() is None for job in done)


def _call(call: Call, device: str) -> None:
    from tree_kernels import tree_attention
    from tree_kernels.tree_attention import tree_attention as by_triton

    tensors = inputs(call.case, call.dtype, torch.device(device), num_copies=1).tensors
    if call.config is None:
        tree_attention(*tensors)
    else:
        by_triton(*tensors, config=call.config)
