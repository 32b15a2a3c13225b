"""Trees of tokens in plain torch: the definitions that every faster form is compared with."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from .attention_call import BITS, AttentionCall, check_integers, score_factor
from .judges import BELOW_ONE


def tree_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    prefix_lengths: Tensor,
    ancestor_bits: Tensor,
    *,
    tree_sizes: Tensor | None = None,
    tree_rows: Tensor | None = None,
    scaling: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Attention of n tree nodes over a cached prefix and over what they see of their tree.

    query           float [B, Hq, n, D]
    key, value      float [B, Hkv, S, D]   the cache: P rows of prefix, then t rows of tree; the
                                           rows behind them are never looked at
    prefix_lengths  int32 [B]              P of each text
    ancestor_bits   int32 [B or 1, n, W]   bit j % 32 of word j // 32: query i sees tree row j
    tree_sizes      int32 [B]              queries that are nodes, <= n; the others are padding.
                                           n by default
    tree_rows       int32 [B]              t of each text, <= 32 W; tree_sizes by default
    scaling         factor on the scores, positive; 1 / sqrt(D) by default
    out             float [B, Hq, n, D]    where to write the result

    With the rows s that query i sees, all of the prefix and those of the tree whose bit is set,

        out[i] = sum_s softmax_s(scaling * <query[i], key[s]>) value[s],

    where query head h reads key-value head h // (Hq / Hkv).  A query that is padding, or that sees
    no row at all, gives 0.  Computed in float32 at least.

    Returns float [B, Hq, n, D] in query's dtype.  Raises ValueError when arguments do not fit.
    """
    shape = AttentionCall(
        query, key, value, prefix_lengths, ancestor_bits, tree_sizes, tree_rows, out
    ).checked()
    factor = score_factor(scaling, shape.head_dim)
    sizes = [shape.num_nodes] * shape.batch if tree_sizes is None else tree_sizes.tolist()
    rows = sizes if tree_rows is None else tree_rows.tolist()
    out = torch.empty_like(query) if out is None else out
    seen = visible(ancestor_bits)
    for text, prefix in enumerate(prefix_lengths.tolist()):
        size, end = sizes[text], prefix + rows[text]
        if end > shape.num_rows:
            raise ValueError(
                f"key: got {shape.num_rows} rows, expected room for a prefix of {prefix} and a "
                f"tree of {rows[text]}; make the cache larger"
            )
        nodes_see = seen[text % len(seen), :size, : rows[text]]
        out[text, :, :size] = _one_text(
            query[text, :, :size], key[text, :, :end], value[text, :, :end], nodes_see, factor
        )
        out[text, :, size:] = 0
    return out


def _one_text(query: Tensor, key: Tensor, value: Tensor, seen: Tensor, factor: float) -> Tensor:
    """Attention of one text: query [Hq, n, D], key and value [Hkv, P + t, D], seen bool [n, t]."""
    dtype = torch.promote_types(query.dtype, torch.float32)
    num_heads, num_nodes, head_dim = query.shape
    num_kv_heads, num_rows = key.shape[:2]
    together = query.to(dtype).reshape(num_kv_heads, -1, head_dim)  # a group's heads side by side
    scores = (together @ key.to(dtype).mT).mul_(factor)
    of_tree = scores.view(num_kv_heads, -1, num_nodes, num_rows)[..., num_rows - seen.shape[1] :]
    of_tree.masked_fill_(~seen, float("-inf"))
    mixed = scores.softmax(-1) @ value.to(dtype)
    if num_rows == seen.shape[1]:  # no prefix: a query may see nothing, and 0 / 0 is no answer
        mixed.view(num_kv_heads, -1, num_nodes, head_dim).masked_fill_(~seen.any(1)[:, None], 0)
    return mixed.view(num_heads, num_nodes, head_dim).to(query.dtype)


def visible(ancestor_bits: Tensor) -> Tensor:
    """Unpack int32 [..., W] into bool [..., 32 W]."""
    places = torch.arange(BITS, dtype=torch.int32, device=ancestor_bits.device)
    return ((ancestor_bits[..., None] >> places) & 1).bool().flatten(-2)


def packed(seen: Tensor) -> Tensor:
    """Pack bool [..., t] into int32 [..., ceil(t / 32)]."""
    missing = -seen.shape[-1] % BITS
    words = torch.nn.functional.pad(seen, (0, missing)).unflatten(-1, (-1, BITS))
    return (words * bit_values(seen.device)).sum(-1, dtype=torch.int32)


@lru_cache
def bit_values(device: torch.device) -> Tensor:
    """Numbers of one bit each, int32 [32]; the last one is negative, bit 31 being the sign."""
    values = [1 << bit for bit in range(BITS - 1)] + [-(1 << (BITS - 1))]
    return torch.tensor(values, dtype=torch.int32, device=device)


def ancestor_bits(parents: Tensor, num_words: int | None = None) -> Tensor:
    """Who sees whom in trees: every node its ancestors and itself.

    parents    int32 [B, n]  parent of each node, before its children; -1 for a root or padding
    num_words  words a node; ceil(n / 32) by default, which is also the least

    Returns int32 [B, n, num_words]: bit j % 32 of word j // 32 of row i is set when node i sees
    node j.  Raises ValueError when the arguments do not fit.
    """
    num_words = check_parents(parents, num_words)
    batch, num_nodes = parents.shape
    nodes = torch.arange(num_nodes, device=parents.device)
    seen = torch.zeros((batch, num_nodes, BITS * num_words), dtype=torch.bool, device=nodes.device)
    texts, above = torch.arange(batch, device=nodes.device)[:, None], nodes.expand(batch, -1)
    reached = torch.ones_like(above, dtype=torch.bool)
    while bool(reached.any()):
        seen[texts, nodes, above] |= reached
        following = parents[texts, above].long()
        # A parent that does not come before its child would lead round in a circle.
        reached = reached & (following >= 0) & (following < above)
        above = torch.where(reached, following, above)
    return packed(seen)


def check_parents(parents: Tensor, num_words: int | None) -> int:
    """`num_words`, or the least that hold the trees of `parents`, once both are checked."""
    if parents.dim() != 2 or parents.dtype != torch.int32 or parents.shape[1] < 1:
        raise ValueError(
            f"parents: got {parents.dtype} {list(parents.shape)}, expected torch.int32 [B, n]"
        )
    least = -(-parents.shape[1] // BITS)
    if num_words is not None and num_words < least:
        raise ValueError(
            f"num_words: got {num_words}, expected at least {least} for {parents.shape[1]} nodes"
        )
    return least if num_words is None else num_words


def keep_rows_(cache: Tensor, prefix_lengths: Tensor, rows: Tensor, counts: Tensor) -> None:
    """Move the accepted path of every text behind its prefix, in place.

    cache           [L, B, Hkv, S, D]  keys and values of all layers
    prefix_lengths  int32 [B]          P of each text
    rows            int32 [B, d]       tree rows to keep, strictly increasing
    counts          int32 [B]          how many of them, 0 <= count <= d

    Row P + rows[i] moves to row P + i for every i < count; all rows are read before any is
    written.  Raises ValueError when the arguments do not fit.
    """
    check_keep(cache, prefix_lengths, rows, counts)
    lengths = zip(prefix_lengths.tolist(), counts.tolist(), strict=True)
    for text, (prefix, count) in enumerate(lengths):
        kept = cache[:, text, :, prefix + rows[text, :count].long()]  # a copy
        cache[:, text, :, prefix : prefix + count] = kept


def check_keep(cache: Tensor, prefix_lengths: Tensor, rows: Tensor, counts: Tensor) -> None:
    """ValueError unless the arguments of `keep_rows_` fit together."""
    if cache.dim() != 5:
        raise ValueError(f"cache: got {list(cache.shape)}, expected [L, B, Hkv, S, D]")
    batch = cache.shape[1]
    if rows.dim() != 2 or rows.shape[0] != batch:
        raise ValueError(f"rows: got {list(rows.shape)}, expected [{batch}, d]")
    if rows.shape[1] > cache.shape[3]:
        raise ValueError(
            f"rows: got {rows.shape[1]} rows to keep, expected at most the cache's {cache.shape[3]}"
        )
    for name, tensor in (("prefix_lengths", prefix_lengths), ("rows", rows), ("counts", counts)):
        check_integers(name, tensor, cache)
        if name != "rows" and tensor.shape != (batch,):
            raise ValueError(f"{name}: got {list(tensor.shape)}, expected [{batch}]")


def accept_walk(
    parents: Tensor, tokens: Tensor, sampled: Tensor, *, tree_sizes: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Go from the root to the child that holds the target's token, while there is one.

    parents     int32 [B, n]  parent of each node, before its children; -1 for the root, node 0
    tokens      int64 [B, n]  the token that each node holds
    sampled     int64 [B, n]  a token drawn from the target's distribution at each node
    tree_sizes  int32 [B]     nodes of each tree; those behind are padding.  n by default

    This is what verifiers do that draw the target's token first (`naive`, `topk`, and every
    verifier at temperature 0); a token held by several siblings leads to the first of them.

    Returns (rows int32 [B, n], counts int32 [B], next_tokens int64 [B]): the accepted path is
    rows[:count], root included, ready for `keep_rows_` (0 behind it), and the token sampled at its
    last node is the root of the next tree.  Raises ValueError when the arguments do not fit.
    """
    check_walk(parents, tokens, sampled, tree_sizes)
    batch, num_nodes = parents.shape
    sizes = [num_nodes] * batch if tree_sizes is None else tree_sizes.tolist()
    rows = torch.zeros_like(parents)
    counts = torch.empty((batch,), dtype=torch.int32, device=parents.device)
    following = torch.empty((batch,), dtype=sampled.dtype, device=parents.device)
    for text, size in enumerate(sizes):
        above, held = parents[text, :size].tolist(), tokens[text, :size].tolist()
        drawn = sampled[text, :size].tolist()
        path = [0]
        for node in range(1, size):  # siblings and children come behind
            if above[node] == path[-1] and held[node] == drawn[path[-1]]:
                path.append(node)
        rows[text, : len(path)] = torch.tensor(path, dtype=torch.int32)
        counts[text], following[text] = len(path), drawn[path[-1]]
    return rows, counts, following


def check_walk(parents: Tensor, tokens: Tensor, sampled: Tensor, tree_sizes: Tensor | None) -> None:
    """ValueError unless the arguments of `accept_walk` fit together."""
    check_parents(parents, None)
    for name, tensor in (("tokens", tokens), ("sampled", sampled)):
        if tensor.shape != parents.shape or tensor.dtype != torch.int64:
            raise ValueError(
                f"{name}: got {tensor.dtype} {list(tensor.shape)}, expected torch.int64 "
                f"{list(parents.shape)}"
            )
    if tree_sizes is None:
        return
    if tree_sizes.shape != parents.shape[:1] or tree_sizes.dtype != torch.int32:
        raise ValueError(
            f"tree_sizes: got {tree_sizes.dtype} {list(tree_sizes.shape)}, expected torch.int32 "
            f"[{parents.shape[0]}]"
        )


def inverted(probs: Tensor, uniforms: Tensor) -> Tensor:
    """Tokens drawn with replacement, by inversion of the cumulative sum in float64.

    probs     float32 or float64 [..., V]  >= 0, of any sum
    uniforms  float64 [..., k]             in [0, 1), one a draw

    Returns int64 [..., k]: the first token up to which its row sums to more than u times the whole
    sum, which is one of some chance; V where that sum is not a number above 0.
    """
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    height = uniforms * BELOW_ONE * cumulative[..., -1:]
    return torch.searchsorted(cumulative, height, right=True)
