"""The best that this device can do: a large copy and a large matrix product."""

from __future__ import annotations

import platform

import torch

from .bench import Bench
from .clock import timed

SIDE = 8192
COPIED_BYTES = 4 << 30


def run(bench: Bench) -> None:
    """Rows "copy" (bytes read and written per second) and "matmul" (flops per second)."""
    bench.results.content["facts"] = facts(bench.device)
    side, size = (128, 1 << 20) if bench.dry else (SIDE, COPIED_BYTES)
    source = torch.empty(size // 2, dtype=torch.uint8, device=bench.device).random_()
    target = torch.empty_like(source)
    copy = timed([lambda: target.copy_(source)], bench.device)
    bench.add({"what": "copy", "per_s": size / (1e-6 * copy.median_us)})
    left, right = (torch.randn(side, side, device=bench.device, dtype=bench.dtype) for _ in "ab")
    product = timed([lambda: left @ right], bench.device)
    bench.add({"what": "matmul", "per_s": 2 * side**3 / (1e-6 * product.median_us)})


def facts(device: torch.device) -> dict[str, str | int | None]:
    """The device, and the versions of what computes there."""
    found: dict[str, str | int | None] = {
        "device": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": None,
    }
    try:
        import triton

        found["triton"] = triton.__version__
    except ImportError:
        pass
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "device": properties.name,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            "cuda": torch.version.cuda,
        }
    return found
