"""How near to the floor is the kernel, over the whole grid of shapes?"""

from __future__ import annotations

import torch

from tree_kernels import ancestor_bits, keep_rows_, tree_attention

from .bench import Bench
from .clock import timed
from .inputs import Inputs, in_heavy_order, inputs, random_parents
from .results import Row
from .shapes import LLAMA_2_7B, LLAMA_3_8B, TINY, Case, cases
from .warm_up import Call, compile_all

OURS = "tree kernel"


def run(bench: Bench) -> None:
    """K11 (the same tree in two orders), the small kernels, then a row per case."""
    if bench.device.type == "cuda":
        calls = [Call(case, bench.dtype) for case in cases(bench.dry)]
        compile_all(calls, bench.device, 0.5 * bench.left())
    shapes = (LLAMA_2_7B, LLAMA_3_8B)
    for case in [Case(TINY, 8, 70)] if bench.dry else [Case(shape, 128, 1024) for shape in shapes]:
        bench.check_time()
        created = random_parents(case.nodes, 0)
        for order, parents in (("creation", created), ("heavy-path", in_heavy_order(created))):
            made = inputs(case, bench.dtype, bench.device, parents=parents)
            row = {"what": f"order {order}", **named(case)}
            bench.attempt(row, lambda made=made: ours(bench, made))
    bench.attempt({"what": "ancestor bits, 64 nodes"}, lambda: _bits(bench))
    bench.attempt({"what": "keep 5 rows in 32 layers"}, lambda: _kept(bench))
    for case in cases(bench.dry):
        bench.check_time(1)
        row = {"what": OURS, **named(case)}
        bench.attempt(row, lambda case=case: ours(bench, inputs(case, bench.dtype, bench.device)))


def ours(bench: Bench, made: Inputs) -> Row:
    """Time, floor, and what bounds it."""
    out = torch.empty_like(made.query)
    found = timed(
        made.calls(
            lambda key, value: tree_attention(
                made.query, key, value, made.prefix_lengths, made.bits, out=out
            )
        ),
        bench.device,
    )
    pairs, size, limits = made.tree_pairs, bench.dtype.itemsize, bench.limits
    return {
        **found.row,
        "floor_us": round(made.case.floor_us(pairs, size, limits), 3),
        "bound": "memory" if made.case.memory_bound(pairs, size, limits) else "compute",
        "tflop_per_s": round(made.case.num_flops(pairs) / found.median_us / 1e6, 2),
    }


def named(case: Case) -> Row:
    """The entries of a row that say which case it is."""
    return {"shape": case.shape.name, "group": case.shape.group, "prefix": case.prefix,
            "nodes": case.nodes}  # fmt: skip


def _bits(bench: Bench) -> Row:
    parents = torch.from_numpy(random_parents(64, 0))[None].to(bench.device)
    return timed([lambda: ancestor_bits(parents)], bench.device).row


def _kept(bench: Bench) -> Row:
    rows = 64 if bench.dry else 4096
    cache = torch.randn(64, 1, 8, rows, 128, device=bench.device, dtype=bench.dtype)
    prefix, counts = (torch.tensor([n], dtype=torch.int32, device=bench.device) for n in (30, 5))
    kept = torch.tensor([[0, 2, 3, 17, 30]], dtype=torch.int32, device=bench.device)
    return timed([lambda: keep_rows_(cache, prefix, kept, counts)], bench.device).row
