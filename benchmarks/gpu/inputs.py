"""Random inputs of one case: caches full of NaN where nothing is to be read, and a tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tree_kernels.host.ordering import reorder
from tree_kernels.reference import packed

from .shapes import Case

FEWEST, MOST = 4, 64
"""Copies of a cache that calls go through in turn."""
ROUND = 64
"""Capacities are multiples of it."""


@dataclass(frozen=True)
class Inputs:
    """Tensors of one case, as the kernel takes them and as dense attention does.

    caches  [2, 1, Hkv, S, D] each, keys and values; rows P + n and on are NaN
    mask    bool [1, 1, n, P + n], its memory laid out in rows of S
    """

    case: Case
    query: Tensor
    caches: list[Tensor]
    prefix_lengths: Tensor
    bits: Tensor
    seen: Tensor
    """bool [n, n]."""
    mask: Tensor

    @property
    def tree_pairs(self) -> int:
        return int(self.seen.sum())

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The kernel's arguments, of the first copy."""
        key, value = self.caches[0]
        return self.query, key, value, self.prefix_lengths, self.bits

    def calls(self, compute: Callable[[Tensor, Tensor], Tensor]) -> list[Callable[[], Tensor]]:
        """`compute(key, value)` over the whole capacity of each copy."""
        return [lambda cache=cache: compute(cache[0], cache[1]) for cache in self.caches]


def inputs(
    case: Case,
    dtype: torch.dtype,
    device: torch.device,
    *,
    seed: int = 0,
    parents: np.ndarray | None = None,
    num_copies: int | None = None,
) -> Inputs:
    """Random inputs; by default a random recursive tree in heavy-path order, and as many copies as
    it takes to fill three times the device's second-level cache."""
    shape = case.shape
    generator = torch.Generator(device).manual_seed(seed)
    if parents is None:
        parents = in_heavy_order(random_parents(case.nodes, seed))
    seen = torch.from_numpy(ancestors(parents)).to(device)
    end = case.prefix + case.nodes
    capacity = -(-end // ROUND) * ROUND
    copies = num_copies or _num_copies(case, dtype, device)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, device=device, dtype=dtype)

    caches = []
    for _ in range(copies):
        cache = normal(2, 1, shape.kv_heads, capacity, shape.head_dim)
        cache[..., end:, :] = float("nan")
        caches.append(cache)
    mask = torch.ones((1, 1, case.nodes, capacity), dtype=torch.bool, device=device)
    mask[..., case.prefix : end] = seen
    return Inputs(
        case=case,
        query=normal(1, case.nodes, shape.heads, shape.head_dim).transpose(1, 2),
        caches=caches,
        prefix_lengths=torch.tensor([case.prefix], dtype=torch.int32, device=device),
        bits=packed(seen)[None],
        seen=seen,
        mask=mask[..., :end],
    )


def random_parents(num_nodes: int, seed: int) -> np.ndarray:
    """int32 [n]: a random recursive tree, every earlier node as probable a parent."""
    rng = np.random.default_rng(seed)
    return np.array([-1, *(rng.integers(node) for node in range(1, num_nodes))], np.int32)


def in_heavy_order(parents: np.ndarray) -> np.ndarray:
    """The tree renumbered along its heavy paths."""
    return reorder(parents).parents


def ancestors(parents: np.ndarray) -> np.ndarray:
    """bool [n, n]: entry (i, j) says that j is i or an ancestor of i."""
    seen = np.eye(len(parents), dtype=bool)
    for node in range(1, len(parents)):
        seen[node] |= seen[parents[node]]
    return seen


def relative_error(got: Tensor, exact: Tensor) -> float:
    """Largest difference per largest entry; NaN and what is missing count as 1e9."""
    difference = (got.double() - exact.double()).abs().max() / exact.double().abs().max()
    return float(torch.nan_to_num(difference, nan=1e9))


def _num_copies(case: Case, dtype: torch.dtype, device: torch.device) -> int:
    if device.type != "cuda":
        return FEWEST
    cache = torch.cuda.get_device_properties(device).L2_cache_size
    return int(np.clip(np.ceil(3 * cache / case.num_bytes(dtype.itemsize)), FEWEST, MOST))
