"""The constants of machines, as their makers print them: the one place where such numbers stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..documents.document import PlannerError

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""A number's, by dtype."""

LAUNCHED = 0.02
"""Milliseconds a layer of a model takes on a GPU however little it computes.  No maker prints it:
ten kernels a layer, 2 microseconds each, out of a CUDA graph, are assumed."""


@dataclass(frozen=True)
class DataSheet:
    """The most that a machine does per second."""

    name: str
    tflops: dict[str, float]
    """10^12 operations a second by dtype, dense; a multiplication and an addition are two."""
    gb_per_s: float
    """10^9 bytes from memory a second."""
    layer_ms: float
    source: str
    """The sheet's name."""
    is_core: bool = False
    """Is it one of several that share the work?"""

    @property
    def dtype(self) -> str:
        """The dtype that models are run in, unless one says."""
        return next(iter(self.tflops))

    def peak(self, dtype: str) -> float:
        """TFLOP/s of a dtype.  Raises PlannerError where none is known."""
        if dtype not in self.tflops:
            raise PlannerError(
                f"dtype: got {dtype!r}, but of {self.name} only {', '.join(self.tflops)} are "
                "known; choose one of these, or say how much it computes (--tflops)"
            )
        return self.tflops[dtype]

    def told(self, dtype: str, numbers: Mapping[str, float | None]) -> DataSheet:
        """The same but for the numbers, by field, that somebody says instead.

        dtype  that `tflops` is said of
        """
        said = {field: number for field, number in numbers.items() if number is not None}
        if not said:
            return self
        sheet = replace(self, source=f"{self.source}; as told: {', '.join(said)}")
        if "tflops" in said:
            sheet = replace(sheet, tflops={dtype: said["tflops"]})
        return replace(
            sheet,
            gb_per_s=said.get("gb_per_s", self.gb_per_s),
            layer_ms=said.get("layer_ms", self.layer_ms),
        )

    def times(self, count: int) -> DataSheet:
        """So many of them, which share all work evenly and wait for nobody."""
        tflops = {dtype: count * peak for dtype, peak in self.tflops.items()}
        name = self.name if count == 1 else f"{count} times a {self.name}"
        return replace(self, name=name, tflops=tflops, gb_per_s=count * self.gb_per_s)


def _gpu(
    name: str, half: float, single: float, gb_per_s: float, source: str
) -> tuple[str, DataSheet]:
    tflops = {"bfloat16": half, "float16": half, "float32": single}
    return name, DataSheet(name, tflops, gb_per_s, LAUNCHED, source)


DATA_SHEETS: dict[str, DataSheet] = dict([
    _gpu("H100", 989.5, 67.0, 3350.0, "NVIDIA H100 Tensor Core GPU Datasheet, SXM"),
    _gpu("H200", 989.5, 67.0, 4800.0, "NVIDIA H200 Tensor Core GPU Datasheet, SXM"),
    _gpu("A100", 312.0, 19.5, 2039.0, "NVIDIA A100 Tensor Core GPU Datasheet, 80 GB SXM"),
    _gpu("L40S", 362.05, 91.6, 864.0, "NVIDIA L40S GPU Datasheet"),
    _gpu("RTX 4090", 165.2, 82.6, 1008.0, "NVIDIA Ada GPU Architecture whitepaper, appendix A"),
    _gpu("MI300X", 1307.4, 163.4, 5300.0, "AMD Instinct MI300X Accelerator Data Sheet"),
    (
        "CPU",
        DataSheet(
            "core of an AMD EPYC 9654",
            {"float32": 32 * 3.7e-3},
            460.8 / 96,
            layer_ms=0.0,
            source="AMD EPYC 9654 product page: 96 cores, 3.7 GHz, 460.8 GB/s; AMD Zen 4 Software "
            "Optimization Guide: 32 float32 operations a cycle",
            is_core=True,
        ),
    ),
])  # fmt: skip
"""Data sheets by the names that `planner predict --gpu` takes.  Where one gives a number with
sparsity, it is halved.  CPU is one core and its share of the socket's memory."""


NAMELESS = DataSheet("a machine", {"bfloat16": 0.0}, 0.0, 0.0, "no sheet")
"""A machine of which all that it does is told."""


def data_sheet(name: str) -> DataSheet:
    """The machine of this name, however it is spelt, the maker's or a driver's words around it.

    Raises PlannerError where there is none.
    """
    for known, sheet in DATA_SHEETS.items():
        if _plain(known) == _plain(name) or re.search(rf"\b{known}\b", name, re.IGNORECASE):
            return sheet
    raise PlannerError(
        f"gpu: got {name!r}, expected one of {', '.join(DATA_SHEETS)}; describe another one with "
        "--tflops and --gb-per-s"
    )


def _plain(name: str) -> str:
    return name.lower().replace(" ", "").replace("-", "").replace("_", "")
