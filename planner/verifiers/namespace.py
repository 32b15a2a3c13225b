"""One text for numpy and torch: the module that an array belongs to, and where the two differ.

Planning works on numpy arrays, decoding and profiling on torch tensors.  What is written with the
names that both modules share (`minimum`, `where`, `sum(-1, keepdims=True)`, `out=`) serves both;
the few steps whose names differ are functions here.  Torch is never imported: whoever hands in a
tensor has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = Any
"""A numpy array or a torch tensor; indices come back as the same kind."""

TINY = sys.float_info.min
"""The smallest normal float64."""

MAX_ELEMENTS = {"numpy": 1 << 15, "cpu": 1 << 16, "cuda": 1 << 22}
"""Rows are worked on in chunks of so many numbers: what a CPU's cache holds, or fills a GPU."""


def namespace(array: Array) -> Any:
    """The module, numpy or torch, whose functions take `array`."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def on_host(array: Array) -> bool:
    """Can compiled code read it?"""
    return isinstance(array, np.ndarray) or array.device.type == "cpu"


def at(array: Array, index: Array) -> Array:
    """[N, m]: the elements of each row of `array` [N, V] at the places in `index`, int64 [N, m]."""
    if isinstance(array, np.ndarray):
        return np.take_along_axis(array, index, -1)
    return array.gather(-1, index)


def fill_at(array: Array, index: Array, value: Any) -> Array:
    """`array` [N, V] with `value`, a number or [N, m], written in place at `index` [N, m]."""
    if isinstance(array, np.ndarray):
        np.put_along_axis(array, index, value, -1)
        return array
    return array.scatter_(-1, index, value)


def replaced_at(array: Array, index: Array, value: Any) -> Array:
    """A copy of `array` [N, V] with `value`, a number or [N, m], at `index` [N, m]."""
    return fill_at(array.copy() if isinstance(array, np.ndarray) else array.clone(), index, value)


def converted(array: Array, dtype: str) -> Array:
    """`array` as "float32", "float64" or another type that both modules know by this name."""
    kind = getattr(namespace(array), dtype)
    return array.astype(kind, copy=False) if isinstance(array, np.ndarray) else array.to(kind)


def most_probable(q: Array, k: int) -> Array:
    """int64 [..., k]: the places of the k largest of each row, largest first."""
    if isinstance(q, np.ndarray):
        return np.argsort(-q, axis=-1, kind="stable")[..., :k]
    return q.topk(k, dim=-1).indices


def places(ascending: Array, values: Array) -> Array:
    """int64 [N, m]: how many of each row of `ascending` [N, V] are at most each of `values`
    [N, m]."""
    if isinstance(ascending, np.ndarray):
        found = [np.searchsorted(*row, side="right") for row in zip(ascending, values, strict=True)]
        return np.array(found, np.int64).reshape(values.shape)
    return namespace(ascending).searchsorted(ascending, values, right=True)


def sums_before(rows: Array) -> Array:
    """[..., V + 1]: the sum before each place of each row."""
    xp = namespace(rows)
    return xp.concatenate((xp.zeros_like(rows[..., :1]), rows.cumsum(-1)), -1)


def sums_from(rows: Array) -> Array:
    """[..., V + 1]: the sum from each place of each row on, added up from the end."""
    xp = namespace(rows)
    behind = xp.flip(xp.flip(rows, (-1,)).cumsum(-1), (-1,))
    return xp.concatenate((behind, xp.zeros_like(rows[..., :1])), -1)


def uniforms(like: Array, rng: Any) -> Array:
    """float64 [N, 1] in [0, 1), a number for each row of `like`, from a generator of its kind
    (`numpy.random.Generator` or `torch.Generator`)."""
    if isinstance(like, np.ndarray):
        return rng.random((len(like), 1))
    torch = namespace(like)
    return torch.rand((len(like), 1), dtype=torch.float64, device=like.device, generator=rng)


def in_chunks(arrays: tuple[Array, ...], *, least: int = 1) -> Iterator[tuple[Array, ...]]:
    """The rows of `arrays`, all of as many rows as the first [N, V], some at a time, but no fewer
    than `least`."""
    first = arrays[0]
    device = "numpy" if isinstance(first, np.ndarray) else first.device.type
    elements = MAX_ELEMENTS.get(device, MAX_ELEMENTS["cuda"])
    rows = max(least, elements // first.shape[-1])
    for start in range(0, len(first), rows):
        yield tuple(array[start : start + rows] for array in arrays)
