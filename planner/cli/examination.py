"""An examination of this machine: what it can do, and what to do where something is missing."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import NamedTuple

from ..documents.surroundings import DISTURBED
from ..documents.version import VERSION
from .extras import DISTRIBUTION, EXTRAS, missing_package

LIBRARIES = ("numpy", "scipy", "numba", "pydantic", "click", "rich", "safetensors")
INSTRUCTIONS = (
    "avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile",
    "amx_bf16", "asimd", "asimddp", "bf16", "sve",
)  # fmt: skip
"""Instructions that matrix kernels make use of, as the system calls them."""
ENGINES = {
    "llama-server": "llamacpp",
    "llama-bench": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
}
"""Programs that serve -> what `planner profile --engine` calls them."""
WATCHED_S = 0.5
"""How long the cores are watched."""


class Finding(NamedTuple):
    """A thing that was looked at: what there is, and what to do where something is missing."""

    name: str
    words: str
    remedy: str = ""

    @property
    def line(self) -> str:
        return f"{self.words}; {self.remedy}" if self.remedy else self.words


def examine() -> Iterator[Finding]:
    """Everything in order; nothing is changed, and half a second is spent watching the cores."""
    for look in LOOKS:
        yield from look()


def _python() -> Iterator[Finding]:
    yield Finding("planner", f"{VERSION}, Python {platform.python_version()}, {sys.executable}")
    there = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    yield Finding("libraries", there)


def _extras() -> Iterator[Finding]:
    """Optional packages by the extra that brings them."""
    for extra, packages in EXTRAS.items():
        found = {name: _version(name) for name in packages}
        there = [f"{name} {number}" for name, number in found.items() if number]
        absent = [name for name, number in found.items() if not number]
        words = ", ".join([*there, *(f"no {name}" for name in absent)])
        yield Finding(
            f"[{extra}]", words, f"pip install '{DISTRIBUTION}[{extra}]'" if absent else ""
        )


def _cores() -> Iterator[Finding]:
    every = os.cpu_count() or 1
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every
    words = f"{able} of {every} may be used" if able < every else f"{every}"
    yield Finding("cores", f"{words}, {platform.machine()}{_named_cpu()}")
    flags = _instructions()
    if flags is not None:
        known = [name for name in INSTRUCTIONS if name in flags]
        slow = platform.machine() in ("x86_64", "AMD64") and "avx2" not in flags
        yield Finding(
            "instructions", ", ".join(known) or "none that matrix kernels make use of",
            "without avx2 passes on this CPU are slow" if slow else "",
        )  # fmt: skip


def _memory() -> Iterator[Finding]:
    sizes = dict(re.findall(r"^(\w+): +(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE))
    if "MemTotal" in sizes:
        total, free = (int(sizes.get(key, 0)) / 2**20 for key in ("MemTotal", "MemAvailable"))
        yield Finding("memory", f"{total:.1f} GiB, {free:.1f} GiB of it free")


def _accelerators() -> Iterator[Finding]:
    """GPUs, threads and kernels, as far as torch tells."""
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a library that does not load
        yield Finding("torch", missing_package(error) or f"cannot be imported: {error}")
        return
    threads = torch.get_num_threads()
    yield Finding("threads", f"{threads}, which torch takes unless --threads says otherwise")
    if not torch.cuda.is_available():
        hint = " (this torch is built without CUDA)" if torch.version.cuda is None else ""
        yield Finding("GPU", f"none{hint}: models run on the CPU")
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        size = facts.total_memory / 2**30
        words = f"{facts.name}, {size:.0f} GiB, compute capability {facts.major}.{facts.minor}"
        yield Finding(f"cuda:{number}", words)
    from tree_kernels.backend import unavailable

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    reason = unavailable(device)
    yield Finding("kernels", "run" if reason is None else f"not used here: {reason}")


def _others() -> Iterator[Finding]:
    """Other programs on the cores at this moment."""
    try:
        from profiler.disturbance import others_held
    except (ImportError, OSError) as error:
        yield Finding("beside", missing_package(error) or f"cannot be watched: {error}")
        return
    taken = others_held(WATCHED_S)
    loud = taken > DISTURBED
    yield Finding(
        "beside", f"other programs take {taken:.2f} cores now" + ("" if loud else ": quiet"),
        "measure while nothing else runs" if loud else "",
    )  # fmt: skip


def _engines() -> Iterator[Finding]:
    """Programs and packages that serve, by what they can be timed as."""
    for program, engine in ENGINES.items():
        place = which(program)
        todo = f"install it, or name its folder: --engine {engine} --engine-path DIR"
        yield Finding(program, place or "not on PATH", "" if place else todo)
    number = _version("openvino-genai") if find_spec("openvino_genai") else None
    yield Finding(
        "openvino_genai", number or "not installed", "" if number else "pip install openvino-genai"
    )


def _next() -> Iterator[Finding]:
    """The first command to type."""
    ready = all(_version(name) for name in EXTRAS["run"])
    install = f"pip install '{DISTRIBUTION}[run]'"
    yield Finding("next", "planner profile --temperature 0.6 -o profile.json" if ready else install)


LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python, _extras, _cores, _memory, _accelerators, _others, _engines, _next,
)  # fmt: skip


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _instructions() -> set[str] | None:
    """The first core's, where the system lists them."""
    found = re.search(r"^(?:flags|Features)\s*: (.*)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return set(found[1].split()) if found else None


def _named_cpu() -> str:
    found = re.search(r"^model name\s*: (.*)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return f", {found[1]}" if found else ""


def _text(path: str) -> str:
    """A file of the system; empty where there is none."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""
