"""Cases to be computed, and the least time in which a device can: bytes, flops, floor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HeadCounts:
    """The attention of one layer."""

    name: str
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def group(self) -> int:
        """Query heads that read one key-value head."""
        return self.heads // self.kv_heads


@dataclass(frozen=True)
class DeviceLimits:
    """The best that a device does."""

    bytes_per_s: float
    flops_per_s: float


@dataclass(frozen=True)
class Case:
    """One layer's attention of a tree of n nodes over a prefix of P tokens, batch 1."""

    shape: HeadCounts
    prefix: int
    nodes: int

    def num_bytes(self, element_size: int) -> int:
        """Keys and values read once, queries read and the result written:
        2 Hkv D (P + n) b + 2 n Hq D b."""
        shape = self.shape
        cache = 2 * shape.kv_heads * shape.head_dim * (self.prefix + self.nodes)
        return (cache + 2 * self.nodes * shape.heads * shape.head_dim) * element_size

    def num_flops(self, tree_pairs: int) -> int:
        """4 Hq D (n P + pairs), pairs of a node and one that it sees, itself included."""
        pairs = self.nodes * self.prefix + tree_pairs
        return 4 * self.shape.heads * self.shape.head_dim * pairs

    def floor_us(self, tree_pairs: int, element_size: int, limits: DeviceLimits) -> float:
        """Microseconds: the longer of moving the bytes and doing the arithmetic."""
        return 1e6 * max(
            self.num_bytes(element_size) / limits.bytes_per_s,
            self.num_flops(tree_pairs) / limits.flops_per_s,
        )

    def memory_bound(self, tree_pairs: int, element_size: int, limits: DeviceLimits) -> bool:
        """Does moving the bytes take longer than the arithmetic?"""
        moving = self.num_bytes(element_size) / limits.bytes_per_s
        return moving >= self.num_flops(tree_pairs) / limits.flops_per_s


LLAMA_2_7B = HeadCounts("llama-2-7b", 32, 32, 128)
LLAMA_3_8B = HeadCounts("llama-3-8b", 32, 8, 128)
LLAMA_70B = HeadCounts("llama-70b", 64, 8, 128)
TINY = HeadCounts("tiny", 4, 2, 16)

PREFIXES = (128, 1024, 4096, 8192, 32768)
NODES = (1, 16, 64, 256, 1024)


def cases(dry: bool) -> list[Case]:
    """The grid; what most goals ask for comes first, middle sizes before the extremes."""
    if dry:
        return [Case(TINY, prefix, nodes) for prefix in (8, 40) for nodes in (1, 5, 33)]
    shapes = (LLAMA_3_8B, LLAMA_2_7B, LLAMA_70B)
    prefixes = sorted(PREFIXES, key=lambda prefix: abs(PREFIXES.index(prefix) - 3))
    return [
        Case(shape, prefix, nodes)
        for prefix in prefixes
        for nodes in (64, 1, 16, 256, 1024)
        for shape in shapes
    ]
