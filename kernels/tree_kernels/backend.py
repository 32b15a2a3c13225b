"""Devices and types that the Triton kernels can run on, and whether Triton is there."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

import torch

MAX_HEAD_DIM = 256
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
OLDEST = (8, 0)
"""Compute capability from which keys are copied while others are worked on."""


def available(device: torch.device | str, dtype: torch.dtype, head_dim: int) -> str | None:
    """None when Triton serves attention of such tensors, otherwise one line that says why not."""
    if dtype not in DTYPES:
        return f"the Triton kernels serve float16, bfloat16 and float32, not {dtype}"
    if not 1 <= head_dim <= MAX_HEAD_DIM:
        return f"the Triton kernels serve head dimensions of 1 to {MAX_HEAD_DIM}, not {head_dim}"
    return unavailable(torch.device(device))


@lru_cache
def unavailable(device: torch.device) -> str | None:
    """None when kernels run on a device, otherwise one line that says why not."""
    if find_spec("triton") is None:
        return "Triton is not installed"
    if interpreted():
        return None
    if device.type != "cuda" or torch.version.cuda is None:
        return f"the Triton kernels need an NVIDIA GPU, not {device.type}"
    if not torch.cuda.is_available():
        return "there is no CUDA device"
    if torch.cuda.get_device_capability(device) < OLDEST:
        return f"{torch.cuda.get_device_name(device)} is older than compute capability 8.0"
    return None


def interpreted() -> bool:
    """Are kernels run by Triton's interpreter?  It looks once, when a kernel is defined."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@dataclass(frozen=True)
class Device:
    """The facts of a device by which tiles and splits are chosen."""

    num_multiprocessors: int
    shared: int
    """Bytes of shared memory that one program can have."""


@lru_cache
def device_of(device: torch.device) -> Device:
    """Facts of a CUDA device; of one of Hopper's elsewhere, where programs run one by one."""
    if device.type != "cuda":
        return Device(1, 232_448)
    properties = torch.cuda.get_device_properties(device)
    # The driver keeps 1 KiB of every program's share.
    shared = properties.shared_memory_per_multiprocessor - 1024
    return Device(properties.multi_processor_count, shared)


def on(device: torch.device) -> AbstractContextManager[object]:
    """Triton launches on the current device: make it this one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
