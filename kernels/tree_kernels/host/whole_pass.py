"""A whole pass of a Llama-shaped model over few rows, products included, in one compiled call.

A library's calls, some six in each layer, take microseconds each, and after a product that read
megabytes nothing of the interpreter is left in the caches.  All floats are of 32 bits, but for
weights that 16 or 8 bits hold; sums are added up in any order.

There are n new rows, L layers, h hidden features, H query heads of size d, which share K heads of
keys and values, m units of the MLP and V tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray, njit

from .by_name import floats_at, rows_at
from .few_rows import IN_ANY_ORDER, LayerPart, NewRows, add_and_norm, attend, turn_and_store
from .products import BYTES, FLOAT32, LINE, multiply, multiply_fours
from .quick_exp import quick_exp
from .team import Team, borrowed, own_part, run_in_team, wait_for_all
from .tiles import BLOCK, TILED_BFLOAT16, multiply_tiles

PRODUCTS = 7
"""A layer's: queries [H d, h], keys and values [K d, h], out [h, H d], gate and up [m, h], down
[h, m]."""


TEXT = np.dtype([(name, np.int64) for name in ("num_rows", "start", "seen", "room", "store")])
"""A text in a pass: its new rows, n_b of them; the rows in its store before them; w_b, as for
`attend`; the rows that the store has room for, and its address: floats as for `NewRows`, in C
order, which who calls keeps."""


class ModelWeights(NamedTuple):
    """All weights of a model but its embeddings.

    products    int64 [7 L + 1, 5]: the address, rows, columns and way of writing (`FLOAT32` …) of
                each layer's `PRODUCTS`, and of the head [V, h], and where there are any the address
                of a scale, float32, for each row; who calls keeps them, in C order
    norms       float [2 L + 1, h]: before attention and before the MLP of each layer; the last one
    biases      float [L, (H + 2 K) d] of queries, keys and values, or [L, 0]
    head_norms  float [L, 2, d] of every query and every key, or [L, 2, 0]
    eps         added under a norm's root
    """

    products: np.ndarray
    norms: np.ndarray
    biases: np.ndarray
    head_norms: np.ndarray
    eps: float


class RowsToRead(NamedTuple):
    """The n new rows of a pass, of B texts, one text's behind the other's.

    x          float [n, h]: their embeddings
    positions  int64 [n], less than P
    texts      TEXT [B]
    visible    bool: of every text [n_b, w_b], as for `attend`, one behind the other
    wanted     int64 [k]: the rows that logits are wanted of
    hidden     float [k, h]: for their last hidden states
    logits     float [k, V]: for these
    """

    x: np.ndarray
    positions: np.ndarray
    texts: np.ndarray
    visible: np.ndarray
    wanted: np.ndarray
    hidden: np.ndarray
    logits: np.ndarray


class Shared(NamedTuple):
    """Arrays that the threads of a team write for each other.

    qkv      float [n, (H + 2 K) d]
    queries  float [n H d]: of every text [K, H / K, n_b, d], one behind the other
    mixed    float [n, H d]
    added    float [n, h]
    gate_up  float [2, n, m]
    """

    qkv: np.ndarray
    queries: np.ndarray
    mixed: np.ndarray
    added: np.ndarray
    gate_up: np.ndarray


class PassHeads(NamedTuple):
    """H, K and d."""

    heads: int
    kv_heads: int
    size: int


Work = tuple[RowsToRead, ModelWeights, np.ndarray, PassHeads, Shared]
"""A pass: the array holds the `turns` of `fill_logits`."""


@njit(cache=True)
def fill_logits(
    rows: RowsToRead, weights: ModelWeights, turns: np.ndarray, shape: PassHeads, team: Team
) -> None:
    """Write logits and last hidden states of the rows that are wanted; keys and values of all are
    stored.

    turns  float [2, P, d], as for `turn_and_store`
    team   the threads that read

    Nothing comes back: while numba makes arrays of what does, an interruption that came meanwhile
    would end in a SystemError.
    """
    num_rows, products = len(rows.x), weights.products
    width = shape.heads * shape.size
    shared = Shared(
        np.empty((num_rows, width + 2 * shape.kv_heads * shape.size), np.float32),
        np.empty(num_rows * width, np.float32),
        np.empty((num_rows, width), np.float32),
        np.empty_like(rows.x),
        np.empty((2, num_rows, products[4, 1]), np.float32),
    )
    work = rows, weights, turns, shape, shared
    if team.size == 1:
        _read_share(work, team, np.int64(0))
    else:
        run_in_team(_read_share, work, team)


@njit(cache=True)
def _read_share(work: Work, team: Team, rank: int) -> None:
    """The part of one thread of a team: of every product some rows of the weight, of attention some
    heads of some texts; norms are every thread's own.

    It waits for the others wherever it goes on with what they have a part in.
    """
    work = borrowed(work)
    rows, weights, _, shape, shared = work
    products, added, mixed = weights.products, shared.added, shared.mixed
    width, kv_width = shape.heads * shape.size, shape.kv_heads * shape.size
    qkv, gate, up = shared.qkv, shared.gate_up[0], shared.gate_up[1]
    first = np.int64(0)  # of a literal numba would compile functions again
    unit = np.int64(LINE)
    for number in range(len(products)):
        if products[number, 3] >= TILED_BFLOAT16:
            unit = np.int64(BLOCK)
    features = own_part(added.shape[1], unit, rank, team)
    units = own_part(gate.shape[1], unit, rank, team)
    x, before, read = np.zeros_like(rows.x), rows.x, np.empty_like(rows.x)
    for layer in range(len(weights.norms) // 2):
        own = products[PRODUCTS * layer : PRODUCTS * (layer + 1)]
        add_and_norm(x, before, weights.norms[2 * layer], weights.eps, read)
        before = added
        multiply_by(own[0], read, (qkv, first), own_part(width, unit, rank, team))
        places = own_part(kv_width, unit, rank, team)
        multiply_by(own[1], read, (qkv, width), places)
        multiply_by(own[2], read, (qkv, width + kv_width), places)
        wait_for_all(team)
        own_heads = own_part(len(rows.texts) * shape.kv_heads, np.int64(1), rank, team)
        _attend_in_part(work, layer, own_heads)
        wait_for_all(team)
        multiply_by(own[3], mixed, (added, first), features)
        wait_for_all(team)
        add_and_norm(x, added, weights.norms[2 * layer + 1], weights.eps, read)
        multiply_by(own[4], read, (gate, first), units)
        multiply_by(own[5], read, (up, first), units)
        for row in range(len(up)):
            _gate(gate[row, units[0] : units[1]], up[row, units[0] : units[1]])
        wait_for_all(team)
        multiply_by(own[6], up, (added, first), features)
        wait_for_all(team)
    add_and_norm(x, added, weights.norms[-1], weights.eps, read)
    wanted = read[rows.wanted]
    for row in range(len(wanted) if rank == 0 else 0):
        for feature in range(wanted.shape[1]):
            rows.hidden[row, feature] = wanted[row, feature]
    logits = rows.logits
    multiply_by(products[-1], wanted, (logits, first), own_part(logits.shape[1], unit, rank, team))


@njit(cache=True, fastmath=IN_ANY_ORDER, error_model="numpy")  # a division that may raise is slow
def _gate(gate: np.ndarray, up: np.ndarray) -> None:
    """up *= gate / (1 + exp(-gate)), of float [units] both."""
    for unit in range(len(up)):
        small = quick_exp(-abs(gate[unit]))
        share = np.float32(1) if gate[unit] >= 0 else small
        up[unit] *= gate[unit] * share / (np.float32(1) + small)


@njit(cache=True)
def _attend_in_part(work: Work, layer: int, places: tuple[int, int]) -> None:
    """Attention of one layer of some of the B K heads of keys that all texts have, from the first
    of `places` up to the second."""
    rows, weights, turns, (heads, kv_heads, size), shared = work
    entries, mixed = shared.qkv.reshape(-1, heads + 2 * kv_heads, size), shared.mixed
    first = first_seen = 0
    for text in range(len(rows.texts)):
        own, before = rows.texts[text], text * kv_heads
        end, end_seen = first + own.num_rows, first_seen + own.num_rows * own.seen
        part = LayerPart(layer, max(0, places[0] - before), min(kv_heads, places[1] - before))
        if part.start < part.end:
            store_shape = len(weights.norms) - 1, 1, kv_heads, own.room, size
            store = carray(floats_at(own.store), store_shape)
            new = NewRows(rows.positions[first:end], store, own.start)
            queries = shared.queries[first * heads * size : end * heads * size]
            queries = queries.reshape(kv_heads, heads // kv_heads, own.num_rows, size)
            visible = rows.visible[first_seen:end_seen].reshape(own.num_rows, own.seen)
            if weights.biases.size > 0:
                _add_bias(entries[first:end], weights.biases[layer], part, queries.shape[1])
            norms = weights.head_norms[layer, 0], weights.head_norms[layer, 1], weights.eps
            turn_and_store(entries[first:end], norms, turns, new, part, queries)
            attend(queries, new, part, visible, mixed[first:end].reshape(own.num_rows, heads, size))
        first, first_seen = end, end_seen


@njit(cache=True)
def multiply_by(
    product: np.ndarray, x: np.ndarray, outcome: tuple[np.ndarray, int], places: tuple[int, int]
) -> None:
    """`multiply` with some rows of the weight that a row of `ModelWeights.products` names, from the
    first of `places` up to the second.

    outcome  float [n, columns], and the column of the weight's first row
    """
    (out, before), (start, end) = outcome, places
    address, width, written_as = product[0], product[2], product[3]
    if written_as == FLOAT32:
        own = rows_at(address + 4 * start * width, end - start, width)
        multiply(own, x, out, before + start)
    elif written_as < TILED_BFLOAT16:
        entries = address + BYTES[written_as] * start * width
        multiply_fours(entries, written_as, x, out[:, before + start : before + end])
    else:
        multiply_tiles(product, x, out[:, before + start : before + end], start)
    if product[4] != 0:
        scales = carray(floats_at(product[4]), product[1])
        for row in range(len(out)):
            for place in range(start, end):
                out[row, before + place] *= scales[place]


@njit(cache=True)
def _add_bias(entries: np.ndarray, bias: np.ndarray, part: LayerPart, group: int) -> None:
    """Add to queries, keys and values of the heads of a part what a layer has for all of them."""
    kv_heads, size = entries.shape[1] // (group + 2), entries.shape[2]
    own, start, end = bias.reshape(-1, size), part.start, part.end
    first_key, first_value = kv_heads * group, kv_heads * (group + 1)
    for first, last in (
        (start * group, end * group),
        (first_key + start, first_key + end),
        (first_value + start, first_value + end),
    ):
        for row in range(len(entries)):
            for head in range(first, last):
                for entry in range(size):
                    entries[row, head, entry] += own[head, entry]
