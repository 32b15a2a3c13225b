"""Options that say what a machine does at best, by its name or in numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .options import Number, setting

if TYPE_CHECKING:
    from ..estimates.roofline import Roofline

POSITIVE = Number(0, min_open=True)
MACHINE_OPTIONS = (
    setting("--gpu", metavar="NAME", help="H100, H200, A100, L40S, RTX 4090, MI300X, or CPU."),
    setting("--tflops", type=POSITIVE, help="10^12 operations a second, in --dtype."),
    setting("--gb-per-s", type=POSITIVE, help="10^9 bytes from memory a second."),
    setting(
        "--layer-ms", type=Number(0),
        help="What a layer takes, however little it computes (default: 0.02 on named GPUs).",
    ),
    setting(
        "--dtype", type=click.Choice(["float32", "bfloat16", "float16"]),
        help="Of both models (default: bfloat16; on CPU float32).",
    ),
    setting("--threads", type=click.IntRange(1, 1024), help="Cores of --gpu CPU (default: 1)."),
)  # fmt: skip


def machine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for `MachineWishes`."""
    for option in reversed(MACHINE_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class MachineWishes:
    """A machine as the options of a command describe it."""

    gpu: str | None
    tflops: float | None
    gb_per_s: float | None
    layer_ms: float | None
    dtype: str | None
    threads: int | None

    @property
    def is_told(self) -> bool:
        """Do the options say all that a roofline needs?"""
        return self.gpu is not None or None not in (self.tflops, self.gb_per_s)

    def roofline(self) -> Roofline:
        """The machine, and the dtype that it computes in.

        Raises PlannerError for a machine that is not known, click.UsageError for one that is
        described by half.
        """
        from ..estimates.data_sheets import NAMELESS, data_sheet
        from ..estimates.roofline import Roofline

        if not self.is_told:
            raise click.UsageError("name a --gpu, or describe one with --tflops and --gb-per-s")
        sheet = data_sheet(self.gpu) if self.gpu is not None else NAMELESS
        if sheet.is_core:
            sheet = sheet.times(self.threads or 1)
        elif self.threads is not None:
            raise click.UsageError("--threads are cores of --gpu CPU")
        dtype = self.dtype or sheet.dtype
        numbers = {"tflops": self.tflops, "gb_per_s": self.gb_per_s, "layer_ms": self.layer_ms}
        return Roofline(sheet.told(dtype, numbers), dtype)
