"""Is the kernel right?  Against float64 and in captured graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from tree_kernels import (
    VerifiedTree,
    accept_walk,
    ancestor_bits,
    keep_rows_,
    reference,
    tree_attention,
    verified,
    verify_walk,
)
from tree_kernels.launches import inverted, race_speeds
from tree_kernels.layers import HeadTurns, add_and_norm, gated, softened, turn_and_store
from tree_kernels.reference import packed
from tree_kernels.successive import by_race

from .bench import Bench
from .inputs import ancestors, in_heavy_order, inputs, random_parents, relative_error
from .results import Row
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
    bench.attempt({"what": "three texts of any lengths"}, lambda: _three_texts(bench))
    for name, found in layer_kernels(bench).items():
        bench.attempt({"what": name}, lambda found=found: _judged(*found()))
    bench.attempt({"what": "bits, kept rows, walk"}, lambda: small_kernels(bench))
    bench.check_time()
    trees = 3 if bench.dry else 100
    for method in verified.METHODS:
        row = {"what": f"{trees} walks, children {method}"}
        bench.attempt(row, lambda method=method: walks(bench, method, trees))
    bench.attempt({"what": "race of four tokens"}, lambda: _race(bench))
    bench.attempt({"what": "draws with replacement"}, lambda: draws(bench))
    bench.check_time()
    replays = 5 if bench.dry else 1000
    bench.attempt({"what": f"{replays} graph replays"}, lambda: _replays(bench, replays))


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


def compared(bench: Bench, case: Case, dtype: torch.dtype) -> Row:
    """The cache's dead rows hold NaN, and so does the output before."""
    made = inputs(case, dtype, bench.device, seed=case.prefix + case.nodes, num_copies=1)
    query, key, value, *tree = made.tensors
    out = torch.full_like(query, float("nan"))
    tree_attention(query, key, value, *tree, out=out)
    exact = reference.tree_attention(query.double(), key.double(), value.double(), *tree)
    return _judged(out, exact)


def _judged(got: Tensor, exact: Tensor) -> Row:
    error, tolerance = relative_error(got, exact), TOLERANCE[got.dtype]
    return {"error": error, "tolerance": tolerance, "right": error <= tolerance}


def _draft_pass(bench: Bench) -> Row:
    """Five queries, the last of the 70 rows of a tree."""
    case = Case(TINY if bench.dry else LLAMA_3_8B, 500, 70)
    made = inputs(case, bench.dtype, bench.device, seed=1, num_copies=1)
    query, key, value, prefix, bits = made.tensors
    rows = torch.tensor([70], dtype=torch.int32, device=bench.device)
    some, tree = query[:, :, 65:], (prefix, bits[:, 65:].contiguous())
    got = tree_attention(some, key, value, *tree, tree_rows=rows)
    exact = reference.tree_attention(
        some.double(), key.double(), value.double(), *tree, tree_rows=rows
    )
    return _judged(got, exact)


def _three_texts(bench: Bench) -> Row:
    """Three trees behind prefixes of their own, in caches whose other rows hold NaN."""
    most, sizes, prefixes = (
        (9, (5, 9, 1), (0, 21, 40)) if bench.dry else (64, (7, 64, 33), (0, 333, 900))
    )
    shape = TINY if bench.dry else LLAMA_3_8B
    generator = torch.Generator(bench.device).manual_seed(3)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, device=bench.device, dtype=bench.dtype)

    query = normal(3, shape.heads, most, shape.head_dim)
    cache = normal(2, 3, shape.kv_heads, max(prefixes) + most, shape.head_dim)
    seen = torch.zeros((3, most, most), dtype=torch.bool, device=bench.device)
    for text, (prefix, size) in enumerate(zip(prefixes, sizes, strict=True)):
        cache[:, text, :, prefix + size :] = float("nan")
        tree = ancestors(random_parents(size, text))
        seen[text, :size, :size] = torch.from_numpy(tree).to(bench.device)
    numbers = [torch.tensor(n, dtype=torch.int32, device=bench.device) for n in (prefixes, sizes)]
    bits = torch.stack([packed(each) for each in seen])
    got = tree_attention(query, *cache, numbers[0], bits, tree_sizes=numbers[1])
    exact = reference.tree_attention(
        query.double(), *cache.double(), numbers[0], bits, tree_sizes=numbers[1]
    )
    parts = [torch.cat([each[text, :, :size] for text, size in enumerate(sizes)], dim=1)
             for each in (got, exact)]  # fmt: skip
    return _judged(*parts)


def layer_kernels(bench: Bench) -> dict[str, Callable[[], tuple[Tensor, Tensor]]]:
    """The parts of layers between products, here and by torch on the CPU, there in float32."""
    generator = torch.Generator().manual_seed(5)
    rows, width, size = (3, 48, 16) if bench.dry else (64, 4096, 128)

    def both(compute: Callable[..., Tensor], *sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        given = [torch.randn(each, generator=generator).to(bench.dtype) for each in sizes]
        there = [each.to(bench.device, copy=True) for each in given]
        return compute(*there), compute(*(each.float() for each in given)).to(bench.device)

    def turned(qkv: Tensor, store: Tensor, norms: Tensor) -> Tensor:
        turns = torch.linspace(-1, 1, 2 * 99 * size, device=qkv.device).view(2, 99, size)
        heads = HeadTurns(8, 2, turns, (norms[0], norms[1]), 1e-5)
        places = torch.arange(rows, device=qkv.device)
        queries = turn_and_store(qkv, heads, places + 7, places, *store)
        return torch.cat((queries.flatten(), store.flatten()))

    return {
        "norm": partial(
            both, partial(add_and_norm, eps=1e-5), (rows, width), (rows, width), (width,)
        ),
        "turned heads": partial(both, turned, (rows, 12 * size), (2, 2, rows, size), (2, size)),
        "gate": partial(both, gated, (rows, 2 * width)),
        "softened logits": partial(
            both, lambda logits: softened(logits, 0.6).to(bench.dtype), (rows, 3 * width)
        ),
    }


def small_kernels(bench: Bench) -> Row:
    """Whole numbers and copies: equal, bit for bit."""
    parents = torch.from_numpy(random_parents(300, 2))[None].to(bench.device)
    bits = ancestor_bits(parents), reference.ancestor_bits(parents)
    tokens = torch.arange(300, device=bench.device)[None] % 2
    walks = accept_walk(parents, tokens, tokens), reference.accept_walk(parents, tokens, tokens)
    cache = torch.randn(8, 1, 4, 100, 32, device=bench.device, dtype=bench.dtype)
    caches = [cache, cache.clone()]
    numbers = [[60], [[0, 2, 3, 17, 30]], [5]]
    prefix, rows, counts = (
        torch.tensor(n, dtype=torch.int32, device=bench.device) for n in numbers
    )
    keep_rows_(caches[0], prefix, rows, counts)
    reference.keep_rows_(caches[1], prefix, rows, counts)
    same = [bits, caches, *zip(*walks, strict=True)]
    return {"right": all(torch.equal(*pair) for pair in same)}


def walks(bench: Bench, method: verified.Method, trees: int) -> Row:
    """Trees of 24 nodes over 3,000 tokens in float64: the plain loop's paths, which are long where
    the draft is close to the target."""
    generator, equal, accepted = torch.Generator().manual_seed(0), 0, 0
    for seed in range(trees):
        logits = torch.randn(24, 3000, generator=generator, dtype=torch.float64)
        other = logits + 0.3 * torch.randn(24, 3000, generator=generator, dtype=torch.float64)
        p, q = (4 * logits).softmax(-1), (4 * other).softmax(-1)
        number = np.arange(24)
        parents = torch.from_numpy(
            (number - 1) // 2 if method == "hub" else random_parents(24, seed)
        )
        families = [(parents == node).nonzero()[:, 0] for node in range(24)]
        tokens = torch.zeros(24, dtype=torch.int64)
        for node, family in enumerate(families):
            if len(family):
                tokens[family] = _drawn(q[node], len(family), method, generator)
        starts = torch.tensor([0, *map(len, families)]).cumsum(0)
        shape = (torch.arange(24).int(), starts.int(), torch.cat(families).int(), tokens)
        tree = VerifiedTree(*(each.to(bench.device) for each in shape))
        coins = torch.rand(24, generator=generator, dtype=torch.float64).to(bench.device)
        given = p.to(bench.device), q.to(bench.device), tree, coins, method
        got, expected = verify_walk(*given).tolist(), verified.verify_walk(*given).tolist()
        end = 1 + next(place for place, node in enumerate(expected[0]) if node < 0)
        equal += [each[:end] for each in got] == [each[:end] for each in expected]
        accepted += end - 1
    return {"equal": equal, "accepted": accepted, "right": equal == trees}


def _drawn(
    q: torch.Tensor, number: int, method: verified.Method, generator: torch.Generator
) -> torch.Tensor:
    """int64 [number]: the children of a node, as the method has them."""
    independent = method in ("independent", "sequential")
    drawn = q.multinomial(number, replacement=independent, generator=generator)
    if method == "hub" and number == 2 and drawn[0] != q.argmax():
        drawn[1] = q.argmax()
    return drawn


def _race(bench: Bench) -> Row:
    """Who comes first and second, beside the chances: no pair of tokens is five standard errors
    off.  On the CPU by torch's own numbers."""
    chances = torch.tensor([0.5, 0.3, 0.15, 0.05], device=bench.device)
    probs = chances.repeat(20_000, 1)
    generator = torch.Generator(bench.device).manual_seed(0)
    if bench.dry:
        kind = {"dtype": torch.float64, "generator": generator}
        drawn = by_race(probs, torch.rand(probs.shape, **kind), 2)
    else:
        seeds = torch.randint(2**62, (len(probs),), generator=generator, device=bench.device)
        drawn = race_speeds(probs, seeds).topk(2, dim=-1).indices
    counts = torch.bincount(4 * drawn[:, 0] + drawn[:, 1], minlength=16).view(4, 4).cpu()
    p = chances.cpu()
    law = p[:, None] * p / (1 - p)[:, None] * (1 - torch.eye(4))
    error = (counts - len(probs) * law).abs() / (len(probs) * law * (1 - law)).sqrt().clamp(1e-9)
    worst = float(error[law > 0].max())
    return {"standard_errors": worst, "right": worst < 5 and int(counts.diagonal().sum()) == 0}


def draws(bench: Bench) -> Row:
    """Tokens drawn with replacement: the plain form's, by the same random numbers, where tokens of
    no chance stand at both ends; and of four tokens none is five standard errors off.  On the CPU
    by the plain form itself."""
    draw = reference.inverted if bench.dry else inverted
    generator, right = torch.Generator(bench.device).manual_seed(0), []
    for dtype in (torch.float32, torch.float64):
        kind = {"generator": generator, "device": bench.device, "dtype": torch.float64}
        probs = torch.randn((12, 50_003), **kind).mul_(3).softmax(-1).to(dtype)
        probs[:, :7], probs[:, -7:], probs[-1, 40] = 0, 0, torch.nan
        coins = torch.rand((12, 50), **kind)
        coins[:, :2] = torch.tensor([0.0, 1 - 2**-53])
        plain = reference.inverted(probs.cpu(), coins.cpu())  # summed one after the other
        right.append(torch.equal(draw(probs, coins).cpu(), plain))
    chances = torch.tensor([0.5, 0.3, 0.15, 0.05], device=bench.device)
    coins = torch.rand((100, 200), **kind)
    counts = torch.bincount(draw(chances.repeat(100, 1), coins).flatten(), minlength=4)
    error = (counts / coins.numel() - chances).abs()
    error /= (chances * (1 - chances) / coins.numel()).sqrt()
    worst = float(error.max())
    return {"equal": sum(right), "standard_errors": worst, "right": all(right) and worst < 5}


def _replays(bench: Bench, replays: int) -> Row:
    """One graph for 64 nodes and 4,000 rows serves every prefix and tree: the same bits as an
    eager call.  On the CPU, where there are no graphs, the call itself is repeated."""
    most, rows = (8, 64) if bench.dry else (64, 4096)
    made = inputs(Case(TINY if bench.dry else LLAMA_3_8B, rows - most, most), bench.dtype,
                  bench.device, num_copies=1)  # fmt: skip
    query, _, _, prefix, bits = made.tensors
    size = prefix.new_tensor([most])
    out, eager = torch.empty_like(query), torch.empty_like(query)
    attend = partial(tree_attention, *made.tensors, tree_sizes=size)
    attend(out=eager)
    graph = None
    if bench.device.type == "cuda":
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            attend(out=out)
    equal = 0
    for replay in range(replays):
        bench.check_time()
        # Another prefix and another tree, in the tensors that the graph reads.
        rng = np.random.default_rng(replay)
        nodes = int(rng.integers(1, most + 1))
        seen = torch.eye(most, dtype=torch.bool)
        tree = in_heavy_order(random_parents(nodes, replay))
        seen[:nodes, :nodes] = torch.from_numpy(ancestors(tree))
        prefix.fill_(int(rng.integers(rows - most + 1)))
        size.fill_(nodes)
        bits.copy_(packed(seen)[None])
        out.fill_(float("nan"))
        if graph is None:
            attend(out=out)
        else:
            graph.replay()
        attend(out=eager)
        equal += torch.equal(out, eager)
    return {"equal": equal, "right": equal == replays}
