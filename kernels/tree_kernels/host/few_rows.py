"""A Llama-shaped layer between its products, over few rows: compiled passes.

A call of torch takes microseconds, however little it computes, and between its four products a
layer makes some twenty.  Here they are four: two norms, and attention with all that belongs to it.
All floats are of 32 bits; sums are added up in any order.

Of attention there are n new rows with H query heads of size d, which share K heads of keys and
values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from .mixing import mix
from .products import multiply
from .quick_exp import quick_exp
from .scoring import score

IN_ANY_ORDER = {"reassoc", "contract"}
SIGN, REST = np.int32(31), np.int32(0x7FFFFFFF)
"""The place of the bit of a float of 32 bits that tells its sign, and all other bits."""


class NewRows(NamedTuple):
    """The new rows of a text.

    positions  int64 [n], less than P
    store      float [2 layers, 1, K, capacity, d]: keys of layer l at 2 l, its values at 2 l + 1
    start      rows in it, behind which the new ones go
    """

    positions: np.ndarray
    store: np.ndarray
    start: int


class LayerPart(NamedTuple):
    """A layer, and which of its heads of keys and values, with the queries that share them."""

    layer: int
    start: int
    end: int


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
    norms: tuple[np.ndarray, np.ndarray, float],
    turns: np.ndarray,
    new: NewRows,
    part: LayerPart,
    queries: np.ndarray,
) -> None:
    """Turn queries and keys by their positions; keys and values go into the store.

    qkv      float [n, H + 2 K, d]  queries, keys, values; changed
    norms    of every query and of every key: a weight float [d] each, or [0] where there are none,
             and their eps
    turns    float [2, P, d]: cosines and sines of the rotation at each position, the sines of the
             first half of the entries with a minus
    queries  float [K, H / K, n, d]: the outcome
    """
    kv_heads, group = queries.shape[:2]
    first_key, first_value = kv_heads * group, kv_heads * (group + 1)
    keys, values = new.store[2 * part.layer, 0], new.store[2 * part.layer + 1, 0]
    for row in range(len(qkv)):
        place, entries = new.start + row, qkv[row]
        cosines, sines = turns[0, new.positions[row]], turns[1, new.positions[row]]
        for head in range(part.start, part.end):
            for query in range(group):
                own = entries[head * group + query]
                if len(norms[0]) > 0:
                    _norm(own, norms[0], norms[2], own)
                _turn(own, cosines, sines, queries[head, query, row])
            own = entries[first_key + head]
            if len(norms[1]) > 0:
                _norm(own, norms[1], norms[2], own)
            _turn(own, cosines, sines, keys[head, place])
            for entry in range(len(own)):
                values[head, place, entry] = entries[first_value + head, entry]


@njit(cache=True)
def attend(
    queries: np.ndarray, new: NewRows, part: LayerPart, visible: np.ndarray, mixed: np.ndarray
) -> None:
    """The values that each query sees, weighed by its scores.

    queries  float [K, H / K, n, d], as `turn_and_store` leaves them
    visible  bool [n, w]: which of the last w rows, the new ones included, each new one sees, itself
             always; all see the rows before those
    mixed    float [n, H, d]: the outcome
    """
    _, group, num_rows, size = queries.shape
    keys, values = new.store[2 * part.layer, 0], new.store[2 * part.layer + 1, 0]
    num_seen = new.start + num_rows
    weights = np.empty((group * num_rows, num_seen), np.float32)
    sums = np.empty((group * num_rows, size), np.float32)
    for head in range(part.start, part.end):
        own, asked = keys[head, :num_seen], queries[head].reshape(-1, size)
        scored = score(asked, own, weights)
        multiply(own[scored:], asked, weights, scored)
        for row in range(len(weights)):
            _weigh(weights[row], visible[row % num_rows], np.float32(1 / math.sqrt(size)))
        mix(weights, values[head, :num_seen], sums)
        for row in range(len(weights)):
            for entry in range(size):
                mixed[row % num_rows, head * group + row // num_rows, entry] = sums[row, entry]


@njit(cache=True, fastmath=IN_ANY_ORDER)
def _norm(entries: np.ndarray, weight: np.ndarray, eps: float, normed: np.ndarray) -> None:
    squares = np.float32(0)
    for place in range(len(entries)):
        squares += entries[place] * entries[place]
    factor = np.float32(1 / math.sqrt(squares / len(entries) + eps))
    for place in range(len(entries)):
        normed[place] = weight[place] * entries[place] * factor


@njit(cache=True)
def _turn(entries: np.ndarray, cosines: np.ndarray, sines: np.ndarray, turned: np.ndarray) -> None:
    half = len(entries) // 2
    for place in range(half):
        first, second = entries[place], entries[place + half]
        turned[place] = first * cosines[place] + second * sines[place]
        turned[place + half] = second * cosines[place + half] + first * sines[place + half]


@njit(cache=True, fastmath=IN_ANY_ORDER)
def _weigh(scores: np.ndarray, visible: np.ndarray, scale: float) -> None:
    """Scores, float [t], become weights that sum to 1: by their exponentials, if visible."""
    shared = len(scores) - len(visible)
    for place in range(shared, len(scores)):
        if not visible[place - shared]:
            scores[place] = -np.inf
    highest = _highest(scores)
    total = np.float32(0)
    for place in range(len(scores)):
        scores[place] = quick_exp((scores[place] - highest) * scale)
        total += scores[place]
    share = np.float32(1) / total
    for place in range(len(scores)):
        scores[place] *= share


@njit(cache=True)
def _highest(scores: np.ndarray) -> np.float32:
    """The highest of floats [t]; no number if one is none.

    It is looked for among whole numbers of the same order, as compilers make vectors of these
    only: floats as their bits, where all but the sign's are turned if that says minus.
    """
    bits, highest = scores.view(np.int32), -REST
    for place in range(len(bits)):
        own = bits[place]
        highest = max(highest, own ^ ((own >> SIGN) & REST))
    return np.int32(highest ^ ((highest >> SIGN) & REST)).view(np.float32)
