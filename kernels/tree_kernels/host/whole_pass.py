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

from .few_rows import LayerPart, NewRows, add_and_norm, attend, turn_and_store
from .products import LINE, multiply
from .team import Team, own_part, run_in_team, wait_for_all

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


class Pass(NamedTuple):
    """What the threads of a team share while they read rows.

    x        float [n, h]: embeddings
    turns    float [2, P, d], as for `turn_and_store`
    new      the rows' places
    visible  bool [n, w], as for `attend`
    qkv      float [n, (H + 2 K) d]
    queries  float [K, H / K, n, d]
    mixed    float [n, H d]
    added    float [n, h]
    gate_up  float [2, n, m]
    hidden   float [k, h]: the last hidden states of the last k rows
    logits   float [k, V]: of these
    """

    x: np.ndarray
    turns: np.ndarray
    new: NewRows
    visible: np.ndarray
    qkv: np.ndarray
    queries: np.ndarray
    mixed: np.ndarray
    added: np.ndarray
    gate_up: np.ndarray
    hidden: np.ndarray
    logits: np.ndarray


@njit(cache=True)
def read_rows(
    x: np.ndarray,
    weights: ModelWeights,
    turns: np.ndarray,
    new: NewRows,
    visible: np.ndarray,
    asked: tuple[int, Team],
) -> tuple[np.ndarray, np.ndarray]:
    """Logits [k, V] and last hidden states [k, h] of the last k rows; keys and values of all rows
    are stored.

    x        float [n, h]: their embeddings
    turns    float [2, P, d], as for `turn_and_store`
    new      their places
    visible  bool [n, w], as for `attend`
    asked    k, and the threads that read
    """
    products, num_rows = weights.products, len(x)
    size, kv_heads = turns.shape[2], new.store.shape[2]
    width, units = products[0, 1], products[4, 1]
    num_wanted, team = asked
    heads = width // size
    read = Pass(
        x,
        turns,
        new,
        visible,
        np.empty((num_rows, (heads + 2 * kv_heads) * size), np.float32),
        np.empty((kv_heads, heads // kv_heads, num_rows, size), np.float32),
        np.empty((num_rows, width), np.float32),
        np.empty_like(x),
        np.empty((2, num_rows, units), np.float32),
        np.empty((num_wanted, x.shape[1]), np.float32),
        np.empty((num_wanted, products[-1, 1]), np.float32),
    )
    if team.size == 1:
        _read_share((read, weights), team, 0)
    else:
        run_in_team(_read_share, (read, weights), team)
    return read.logits, read.hidden


@njit(cache=True)
def _read_share(work: tuple[Pass, ModelWeights], team: Team, rank: int) -> None:
    """The part of one thread of a team: of every product some rows of the weight, of attention some
    heads; norms are every thread's own.

    It waits for the others wherever it goes on with what they have a part in.
    """
    (x, turns, new, visible, qkv, queries, mixed, added, gate_up, hidden, logits), weights = work
    num_rows, kv_heads = len(x), len(queries)
    products, heads = weights.products, own_part(kv_heads, 1, rank, team)
    entries = qkv.reshape(num_rows, -1, turns.shape[2])
    width, kv_width = products[0, 1], products[1, 1]
    units = own_part(gate_up.shape[2], LINE, rank, team)
    gate, up = gate_up[0], gate_up[1]
    x, added_before, read = np.zeros_like(x), x, np.empty_like(x)
    for layer in range(len(weights.norms) // 2):
        own, part = products[PRODUCTS * layer :], LayerPart(layer, heads[0], heads[1])
        add_and_norm(x, added_before, weights.norms[2 * layer], weights.eps, read)
        added_before = added
        multiply_by(own[0], read, qkv[:, :width], own_part(width, LINE, rank, team))
        places = own_part(kv_width, LINE, rank, team)
        multiply_by(own[1], read, qkv[:, width : width + kv_width], places)
        multiply_by(own[2], read, qkv[:, width + kv_width :], places)
        wait_for_all(team)
        _add_bias(entries, weights.biases, part, queries.shape[1])
        _turn_and_store(weights.head_norms, (part, weights.eps), entries, turns, new, queries)
        attend(queries, new, part, visible, mixed.reshape(num_rows, -1, turns.shape[2]))
        wait_for_all(team)
        places = own_part(added.shape[1], LINE, rank, team)
        multiply_by(own[3], mixed, added, places)
        wait_for_all(team)
        add_and_norm(x, added, weights.norms[2 * layer + 1], weights.eps, read)
        multiply_by(own[4], read, gate, units)
        multiply_by(own[5], read, up, units)
        for row in range(num_rows):
            for unit in range(units[0], units[1]):
                up[row, unit] *= gate[row, unit] / (np.float32(1) + np.exp(-gate[row, unit]))
        wait_for_all(team)
        multiply_by(own[6], up, added, places)
        wait_for_all(team)
    add_and_norm(x, added, weights.norms[-1], weights.eps, read)
    wanted = read[num_rows - len(hidden) :]
    if rank == 0:
        hidden[:] = wanted
    multiply_by(products[-1], wanted, logits, own_part(logits.shape[1], LINE, rank, team))


@njit(cache=True)
def multiply_by(
    product: np.ndarray, x: np.ndarray, out: np.ndarray, places: tuple[int, int]
) -> None:
    """`multiply` with some rows of the weight that a row of `ModelWeights.products` names, from the
    first of `places` up to the second: so many columns of `out`."""
    start, end = places
    floats = _floats_at(product[0] + 4 * start * product[2])
    multiply(carray(floats, (end - start, product[2])), x, out[:, start:end])


@njit(cache=True)
def _add_bias(entries: np.ndarray, biases: np.ndarray | None, part: LayerPart, group: int) -> None:
    """To queries, keys and values of the heads of a part."""
    if biases is not None:
        kv_heads, size = entries.shape[1] // (group + 2), entries.shape[2]
        own, start, end = biases[part.layer].reshape(-1, size), part.start, part.end
        first_key, first_value = kv_heads * group, kv_heads * (group + 1)
        for first, last in (
            (start * group, end * group),
            (first_key + start, first_key + end),
            (first_value + start, first_value + end),
        ):
            entries[:, first:last] += own[first:last]


@njit(cache=True)
def _turn_and_store(
    head_norms: np.ndarray | None,
    place: tuple[LayerPart, float],
    entries: np.ndarray,
    turns: np.ndarray,
    new: NewRows,
    queries: np.ndarray,
) -> None:
    """`turn_and_store` with the norms of one layer.

    place  the part, and what is added under a norm's root
    """
    part, eps = place
    if head_norms is None:
        turn_and_store(entries, None, turns, new, part, queries)
    else:
        norms = head_norms[part.layer, 0], head_norms[part.layer, 1], eps
        turn_and_store(entries, norms, turns, new, part, queries)


@intrinsic
def _floats_at(typing_context: Any, address: Any) -> Any:
    """The pointer to floats of 32 bits that an address is."""

    def made(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.int64), made
