"""Is the kernel right?  Against float64 and in captured graphs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tree_kernels import accept_walk, ancestor_bits, keep_rows_, reference, tree_attention
from tree_kernels.reference import packed

from .bench import Bench
from .inputs import ancestors, in_heavy_order, inputs, random_parents, relative_error
from .shapes import LLAMA_2_7B, LLAMA_3_8B, LLAMA_70B, TINY, Case, HeadCounts
from .warm_up import Call, compile_all

TOLERANCE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}
"""Largest difference per largest entry."""


def run(bench: Bench) -> None:
    """A row per case and dtype, then one of the captured graph: "right" or not."""
    dtypes = (torch.float32,) if bench.dry else tuple(TOLERANCE)
    if bench.device.type == "cuda":
        calls = [Call(case, dtype) for case in _cases(bench.dry) for dtype in dtypes]
        compile_all(calls, bench.device, 0.4 * bench.left())
    for case in _cases(bench.dry):
        for dtype in dtypes:
            bench.check_time()
            row = {"what": title(case), "dtype": str(dtype).removeprefix("torch.")}
            bench.attempt(row, lambda case=case, dtype=dtype: compared(bench, case, dtype))
    bench.check_time()
    bench.attempt({"what": "draft pass, 5 of 70 rows"}, lambda: _draft_pass(bench))
    bench.attempt({"what": "bits, kept rows, walk"}, lambda: _small_kernels(bench))
    bench.check_time()
    replays = 5 if bench.dry else 1000
    bench.attempt({"what": f"{replays} graph replays"}, lambda: _replays(bench, replays))


@dataclass(frozen=True)
class _Buffers:
    """What one captured graph reads and writes."""

    query: Tensor
    key: Tensor
    value: Tensor
    prefix_lengths: Tensor
    bits: Tensor
    tree_sizes: Tensor

    def attend(self, out: Tensor) -> Tensor:
        return tree_attention(
            self.query, self.key, self.value, self.prefix_lengths, self.bits,
            tree_sizes=self.tree_sizes, out=out,
        )  # fmt: skip


def _cases(dry: bool) -> list[Case]:
    if dry:
        return [Case(TINY, prefix, nodes) for prefix, nodes in ((0, 1), (7, 1), (63, 13), (5, 40))]
    return [
        Case(LLAMA_3_8B, 1000, 64),
        Case(LLAMA_2_7B, 4097, 1),
        Case(LLAMA_70B, 3000, 100),
        Case(LLAMA_3_8B, 0, 7),
        Case(LLAMA_2_7B, 129, 1024),
        Case(HeadCounts("gqa-5", 10, 2, 64), 777, 63),
        Case(HeadCounts("mqa-80", 7, 1, 80), 100, 33),
        Case(HeadCounts("mha-256", 4, 4, 256), 500, 31),
        Case(HeadCounts("mha-96", 4, 4, 96), 31, 2),
        Case(HeadCounts("mha-32", 4, 4, 32), 65, 257),
    ]


def title(case: Case) -> str:
    shape = case.shape
    heads = f"{shape.heads}/{shape.kv_heads} heads of {shape.head_dim}"
    return f"{heads}, P = {case.prefix}, n = {case.nodes}"


def compared(bench: Bench, case: Case, dtype: torch.dtype) -> dict[str, object]:
    """The cache's dead rows hold NaN, and so does the output before."""
    made = inputs(case, dtype, bench.device, seed=case.prefix + case.nodes, num_copies=1)
    key, value = made.caches[0]
    out = torch.full_like(made.query, float("nan"))
    tree_attention(made.query, key, value, made.prefix_lengths, made.bits, out=out)
    exact = reference.tree_attention(
        made.query.double(), key.double(), value.double(), made.prefix_lengths, made.bits
    )
    error, tolerance = relative_error(out, exact), TOLERANCE[dtype]
    return {"error": error, "tolerance": tolerance, "right": error <= tolerance}


def _draft_pass(bench: Bench) -> dict[str, object]:
    """Five queries, the last of the 70 rows of a tree."""
    case = Case(TINY if bench.dry else LLAMA_3_8B, 500, 70)
    made = inputs(case, bench.dtype, bench.device, seed=1, num_copies=1)
    key, value = made.caches[0]
    rows = torch.tensor([70], dtype=torch.int32, device=bench.device)
    some = made.query[:, :, 65:]
    bits = made.bits[:, 65:].contiguous()
    got = tree_attention(some, key, value, made.prefix_lengths, bits, tree_rows=rows)
    exact = reference.tree_attention(
        some.double(), key.double(), value.double(), made.prefix_lengths, bits, tree_rows=rows
    )
    error, tolerance = relative_error(got, exact), TOLERANCE[bench.dtype]
    return {"error": error, "tolerance": tolerance, "right": error <= tolerance}


def _small_kernels(bench: Bench) -> dict[str, object]:
    """Whole numbers and copies: equal, bit for bit."""
    parents = torch.from_numpy(random_parents(300, 2))[None].to(bench.device)
    bits = ancestor_bits(parents), reference.ancestor_bits(parents)
    tokens = torch.arange(300, device=bench.device)[None] % 2
    walks = accept_walk(parents, tokens, tokens), reference.accept_walk(parents, tokens, tokens)
    caches = [torch.randn(8, 1, 4, 100, 32, device=bench.device, dtype=bench.dtype)] * 2
    caches = [cache.clone() for cache in caches]
    numbers = [[60], [[0, 2, 3, 17, 30]], [5]]
    prefix, rows, counts = (
        torch.tensor(n, dtype=torch.int32, device=bench.device) for n in numbers
    )
    keep_rows_(caches[0], prefix, rows, counts)
    reference.keep_rows_(caches[1], prefix, rows, counts)
    same = [bits, caches, *zip(*walks, strict=True)]
    return {"right": all(torch.equal(*pair) for pair in same)}


def _replays(bench: Bench, replays: int) -> dict[str, object]:
    """One graph for 64 nodes and 4,000 rows serves every prefix and tree: the same bits as an
    eager call.  On the CPU, where there are no graphs, the call itself is repeated."""
    most, rows = (8, 64) if bench.dry else (64, 4096)
    made = inputs(Case(TINY if bench.dry else LLAMA_3_8B, rows - most, most), bench.dtype,
                  bench.device, num_copies=1)  # fmt: skip
    key, value = made.caches[0]
    size = torch.tensor([most], dtype=torch.int32, device=bench.device)
    buffers = _Buffers(made.query, key, value, made.prefix_lengths, made.bits.clone(), size)
    out, eager = torch.empty_like(made.query), torch.empty_like(made.query)
    buffers.attend(eager)
    graph = None
    if bench.device.type == "cuda":
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            buffers.attend(out)
    equal = 0
    for replay in range(replays):
        bench.check_time()
        _change(buffers, most, rows, replay)
        out.fill_(float("nan"))
        if graph is None:
            buffers.attend(out)
        else:
            graph.replay()
        buffers.attend(eager)
        equal += torch.equal(out, eager)
    return {"equal": equal, "right": equal == replays}


def _change(buffers: _Buffers, most: int, rows: int, seed: int) -> None:
    """Another prefix and another tree, in the tensors that the graph reads."""
    rng = torch.Generator().manual_seed(seed)
    nodes = int(torch.randint(1, most + 1, (), generator=rng))
    prefix = int(torch.randint(0, rows - most + 1, (), generator=rng))
    seen = torch.eye(most, dtype=torch.bool)
    seen[:nodes, :nodes] = torch.from_numpy(ancestors(in_heavy_order(random_parents(nodes, seed))))
    buffers.prefix_lengths.fill_(prefix)
    buffers.tree_sizes.fill_(nodes)
    buffers.bits.copy_(packed(seen)[None])
