"""What a Llama-shaped layer computes between its products, over few rows: compiled passes.

A call of torch takes microseconds, however little it computes, and between its four products a
layer makes some twenty.  Here they are four: two norms, and attention with all that belongs to it.
All floats are of 32 bits; sums are added up in any order.

Of attention there are n new rows with H query heads of size d, which share K heads of keys and
values; of every layer these lie in a `store`, float [2 layers, 1, K, capacity, d], keys of layer l
at 2 l, values at 2 l + 1.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

IN_ANY_ORDER = {"reassoc", "contract"}


@njit(cache=True, fastmath=IN_ANY_ORDER)
def add_and_norm(
    x: np.ndarray, added: np.ndarray, weight: np.ndarray, eps: float, normed: np.ndarray
) -> None:
    """x += added, and normed = weight x / sqrt(mean of x^2 + eps) of every row.

    x, added, normed  float [n, h]
    weight            float [h]
    """
    for row in range(len(x)):
        for place in range(x.shape[1]):
            x[row, place] += added[row, place]
        _norm(x[row], weight, eps, normed[row])


@njit(cache=True)
def turn_and_store(
    qkv: np.ndarray,
    head_norms: tuple[np.ndarray, np.ndarray] | None,
    eps: float,
    turns: np.ndarray,
    positions: np.ndarray,
    store: np.ndarray,
    layer: int,
    start: int,
    queries: np.ndarray,
) -> None:
    """Turn queries and keys by their positions; keys and values go into the store.

    qkv         float [n, H + 2 K, d]  queries, keys, values; changed
    head_norms  float [d] twice: weights of a norm of every query and every key; or None
    turns       float [2, P, d]: cosines and sines of the rotation at each position, the sines of
                the first half of the entries with a minus
    positions   int64 [n], less than P
    start       rows that the store holds
    queries     float [K, H / K, n, d]: the outcome
    """
    kv_heads, group = queries.shape[:2]
    heads = kv_heads * group
    for row in range(len(qkv)):
        cosines, sines = turns[0, positions[row]], turns[1, positions[row]]
        for head in range(heads + kv_heads):
            entries = qkv[row, head]
            if head_norms is not None:
                _norm(entries, head_norms[0] if head < heads else head_norms[1], eps, entries)
            if head < heads:
                _turn(entries, cosines, sines, queries[head // group, head % group, row])
            else:
                _turn(entries, cosines, sines, store[2 * layer, 0, head - heads, start + row])
        for head in range(kv_heads):
            store[2 * layer + 1, 0, head, start + row] = qkv[row, heads + kv_heads + head]


@njit(cache=True)
def attend(
    queries: np.ndarray,
    store: np.ndarray,
    layer: int,
    start: int,
    visible: np.ndarray,
    mixed: np.ndarray,
) -> None:
    """What each query sees of the values, weighed by its scores.

    queries  float [K, H / K, n, d], as `turn_and_store` leaves them
    start    rows in front of the new ones
    visible  bool [n, w]: which of the last w rows, the new ones included, each new one sees, itself
             always; all see the rows before those
    mixed    float [n, H, d]: the outcome
    """
    kv_heads, group, num_rows, _ = queries.shape
    shared = start + num_rows - visible.shape[1]
    scores = np.empty(start + num_rows, np.float32)
    for head in range(kv_heads):
        keys, values = store[2 * layer, 0, head], store[2 * layer + 1, 0, head]
        for which in range(group):
            for row in range(num_rows):
                query, out = queries[head, which, row], mixed[row, head * group + which]
                _mix(query, keys, values, shared, visible[row], scores, out)


@njit(cache=True, fastmath=IN_ANY_ORDER)
def _norm(entries: np.ndarray, weight: np.ndarray, eps: float, normed: np.ndarray) -> None:
    squares = np.float32(0)
    for place in range(len(entries)):
        squares += entries[place] * entries[place]
    factor = np.float32(1 / math.sqrt(squares / len(entries) + eps))
    for place in range(len(entries)):
        normed[place] = weight[place] * entries[place] * factor


@njit(cache=True)
def _turn(
    entries: np.ndarray, cosines: np.ndarray, sines: np.ndarray, turned: np.ndarray
) -> None:
    half = len(entries) // 2
    for place in range(half):
        first, second = entries[place], entries[place + half]
        turned[place] = first * cosines[place] + second * sines[place]
        turned[place + half] = second * cosines[place + half] + first * sines[place + half]


@njit(cache=True, fastmath=IN_ANY_ORDER)
def _mix(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    shared: int,
    visible: np.ndarray,
    scores: np.ndarray,
    mixed: np.ndarray,
) -> None:
    """The mean of the values that one query sees, weighed by the exponentials of its scores."""
    size = len(query)
    scale = np.float32(1 / math.sqrt(size))
    highest = np.float32(-np.inf)
    for place in range(shared + len(visible)):
        if place < shared or visible[place - shared]:
            score = np.float32(0)
            for entry in range(size):
                score += query[entry] * keys[place, entry]
            scores[place] = score * scale
            highest = max(highest, scores[place])
    total = np.float32(0)
    mixed[:] = 0
    for place in range(shared + len(visible)):
        if place < shared or visible[place - shared]:
            weight = np.exp(scores[place] - highest)
            total += weight
            for entry in range(size):
                mixed[entry] += weight * values[place, entry]
    share = np.float32(1) / total
    for entry in range(size):
        mixed[entry] *= share
