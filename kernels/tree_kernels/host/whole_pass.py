"""A whole pass of a Llama-shaped model over few rows, products included, in one compiled call.

A library's calls, some six in each layer, take microseconds each, and after a product that read
megabytes nothing of the interpreter is left in the caches.  All floats are of 32 bits; sums are
added up in any order.

There are n new rows, L layers, h hidden features, H query heads of size d, which share K heads of
keys and values, m units of the MLP and V tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from .few_rows import NewRows, add_and_norm, attend, turn_and_store
from .products import multiply

PRODUCTS = 7
"""A layer's: queries [H d, h], keys and values [K d, h], out [h, H d], gate and up [m, h], down
[h, m]."""


class ModelWeights(NamedTuple):
    """All weights of a model but its embeddings.

    products    int64 [7 L + 1, 3]: the address, rows and columns of each layer's `PRODUCTS`, and of
                the head [V, h]; who calls keeps them, floats in C order
    norms       float [2 L + 1, h]: before attention and before the MLP of each layer; the last one
    biases      float [L, (H + 2 K) d] of queries, keys and values, or None
    head_norms  float [L, 2, d] of every query and every key, or None
    eps         added under a norm's root
    """

    products: np.ndarray
    norms: np.ndarray
    biases: np.ndarray | None
    head_norms: np.ndarray | None
    eps: float


@njit(cache=True)
def read_rows(
    x: np.ndarray, weights: ModelWeights, turns: np.ndarray, new: NewRows, visible: np.ndarray
) -> np.ndarray:
    """The last hidden states, [n, h]; keys and values of the rows are stored.

    x        float [n, h]: their embeddings
    turns    float [2, P, d], as for `turn_and_store`
    new      their places
    visible  bool [n, w], as for `attend`
    """
    products, num_rows = weights.products, len(x)
    size, kv_heads = turns.shape[2], new.store.shape[2]
    width, kv_width, units = products[0, 1], products[1, 1], products[4, 1]
    added, x, read = x.copy(), np.zeros_like(x), np.empty_like(x)
    qkv = np.empty((num_rows, width + 2 * kv_width), np.float32)
    entries = qkv.reshape(num_rows, -1, size)
    queries = np.empty((kv_heads, width // size // kv_heads, num_rows, size), np.float32)
    mixed = np.empty((num_rows, width // size, size), np.float32)
    gate = np.empty((num_rows, units), np.float32)
    up = np.empty_like(gate)
    for layer in range(len(weights.norms) // 2):
        own = products[PRODUCTS * layer : PRODUCTS * (layer + 1)]
        add_and_norm(x, added, weights.norms[2 * layer], weights.eps, read)
        multiply_by(own[0], read, qkv[:, :width])
        multiply_by(own[1], read, qkv[:, width : width + kv_width])
        multiply_by(own[2], read, qkv[:, width + kv_width :])
        _add_bias(qkv, weights.biases, layer)
        _turn_and_store(weights.head_norms, (layer, weights.eps), entries, turns, new, queries)
        attend(queries, new, layer, visible, mixed)
        multiply_by(own[3], mixed.reshape(num_rows, -1), added)
        add_and_norm(x, added, weights.norms[2 * layer + 1], weights.eps, read)
        multiply_by(own[4], read, gate)
        multiply_by(own[5], read, up)
        for row in range(num_rows):
            for unit in range(units):
                up[row, unit] *= gate[row, unit] / (np.float32(1) + np.exp(-gate[row, unit]))
        multiply_by(own[6], up, added)
    add_and_norm(x, added, weights.norms[-1], weights.eps, read)
    return read


@njit(cache=True)
def multiply_by(product: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """`multiply` with the weight that a row of `ModelWeights.products` names."""
    multiply(carray(_floats_at(product[0]), (product[1], product[2])), x, out)


@njit(cache=True)
def _add_bias(qkv: np.ndarray, biases: np.ndarray | None, layer: int) -> None:
    if biases is not None:
        qkv += biases[layer]


@njit(cache=True)
def _turn_and_store(
    head_norms: np.ndarray | None,
    place: tuple[int, float],
    entries: np.ndarray,
    turns: np.ndarray,
    new: NewRows,
    queries: np.ndarray,
) -> None:
    """`turn_and_store` with the norms of one layer.

    place  the layer, and what is added under a norm's root
    """
    layer, eps = place
    if head_norms is None:
        turn_and_store(entries, None, turns, new, layer, queries)
    else:
        norms = head_norms[layer, 0], head_norms[layer, 1], eps
        turn_and_store(entries, norms, turns, new, layer, queries)


@intrinsic
def _floats_at(typing_context: Any, address: Any) -> Any:
    """The pointer to floats of 32 bits that an address is."""

    def made(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.int64), made
