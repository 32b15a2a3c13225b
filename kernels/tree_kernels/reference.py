"""Tree attention in plain torch: the definition that every faster form is compared with."""

from __future__ import annotations

import torch


def tree_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    ancestors: torch.Tensor,
    *,
    scaling: float | None = None,
) -> torch.Tensor:
    """Attention of n tree nodes over P cached tokens and over their own ancestors.

    query       float [B, Hq, n, D]
    key, value  float [B, Hkv, P + n, D]  the cached tokens, then the tree's own rows
    ancestors   bool [n, n]               entry (i, j): node i may see node j (itself included)
    scaling     factor on the scores; 1 / sqrt(D) by default

    Query head h reads key and value head h // (Hq / Hkv) (grouped queries).  Every node sees the
    whole prefix.  Returns float [B, Hq, n, D] in query's dtype, computed in float32 at least.

    Raises ValueError when the shapes do not fit.
    """
    batch, num_heads, num_nodes, head_dim = query.shape
    num_kv_heads, num_rows = key.shape[1], key.shape[2]
    if num_heads % num_kv_heads or num_rows < num_nodes or ancestors.shape != (num_nodes,) * 2:
        raise ValueError(
            f"got query {tuple(query.shape)}, key {tuple(key.shape)}, ancestors "
            f"{tuple(ancestors.shape)}; expected [B, Hq, n, D], [B, Hkv, P + n, D], [n, n]"
        )
    dtype = torch.promote_types(query.dtype, torch.float32)
    group = num_heads // num_kv_heads
    grouped = query.to(dtype).view(batch, num_kv_heads, group, num_nodes, head_dim)
    scores = torch.einsum("bhgnd,bhsd->bhgns", grouped, key.to(dtype))
    scores = scores * (head_dim**-0.5 if scaling is None else scaling)
    tree_scores = scores[..., num_rows - num_nodes :]
    tree_scores.masked_fill_(~ancestors, float("-inf"))
    mixed = torch.einsum("bhgns,bhsd->bhgnd", scores.softmax(-1), value.to(dtype))
    return mixed.reshape(batch, num_heads, num_nodes, head_dim).to(query.dtype)
