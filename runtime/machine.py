"""This machine, described in the words of a profile or report."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import torch
import transformers

from planner.documents.origin import Execution, Machine

from .language_model import LanguageModel


@cache
def describe_machine(device: torch.device) -> Machine:
    """The machine as seen from `device`, with the versions of what computes there."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return Machine(
        platform=platform.platform(),
        cpu=_cpu_name(),
        num_threads=torch.get_num_threads(),
        device=device.type,
        gpu=gpu,
        driver=_text("/sys/module/nvidia/version").strip() or None if gpu else None,
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=transformers.__version__,
    )


def describe_execution(target: LanguageModel) -> Execution:
    """How `target` is run."""
    recorded = "graphs" in target.attention.split(", ")
    return Execution(
        dtype=target.dtype,
        attention=target.attention,
        cuda_graphs=recorded,
        target_memory=getattr(target, "memory", None),
        tensor_parallel=getattr(target, "num_processes", None),
    )


def _cpu_name() -> str:
    for line in _text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "unknown"


def _text(path: str) -> str:
    """The content of a file of the kernel's, if it is there."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
