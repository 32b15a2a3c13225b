"""The parts of a transformer layer between its products, each in one launch, or by torch.

Rows are [n, any], contiguous, of one device and one dtype.  Sums are taken in float32.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import silu

from .backend import DTYPES, on, unavailable
from .launches import power_of_two

GATED = 1024
"""Units that one program of `gate` serves."""
SOFTENED = 8192
"""Tokens that a program of `soften` looks at at once."""


class HeadTurns(NamedTuple):
    """How queries and keys of a row become those of its place in the text.

    heads, kv_heads  H queries, K keys and values, of size d
    turns            float32 [2, P, d]: cosines and sines for each position
    norms            [d] twice: weights of a norm of each query and key before; None: there is none
    eps              the number added under a norm's root
    """

    heads: int
    kv_heads: int
    turns: Tensor
    norms: tuple[Tensor, Tensor] | None
    eps: float

    @property
    def head_dim(self) -> int:
        return self.turns.shape[2]


def add_and_norm(x: Tensor, added: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """The root-mean-square norm of x + added, [n, h]; the sum is left in `x`.

    weight  [h]
    """
    if unavailable(x.device):
        if added is not None:
            x.add_(added)
        return _normed(x, weight, eps)
    from .layer_kernels import norm

    out = torch.empty_like(x)
    num_rows, num_features = x.shape
    block = power_of_two(num_features)
    with on(x.device):
        norm[(num_rows,)](
            x, added, weight, out, eps, NUM_FEATURES=num_features, BLOCK=block,
            num_warps=max(1, min(16, block // 512)),
        )  # fmt: skip
    return out


def turn_and_store(
    qkv: Tensor, heads: HeadTurns, positions: Tensor, places: Tensor, keys: Tensor, values: Tensor
) -> Tensor:
    """Turned queries [n, H, d] of a pass; its keys, turned too, and its values go to their places.

    qkv           [n, (H + 2 K) d], which is not used again: queries are turned in it
    positions     int32 or int64 [n], below P
    places        int64 [n]  rows of `keys` and `values`, which are [K, S, d]
    """
    parts = qkv.view(len(qkv), -1, heads.head_dim)
    if unavailable(qkv.device):
        return _turned(parts, heads, positions, places, keys, values)
    from .layer_kernels import turn

    query_norm, key_norm = heads.norms or (None, None)
    with on(qkv.device):
        turn[(len(qkv), parts.shape[1])](
            qkv, heads.turns, positions, places, keys, values, query_norm, key_norm, heads.eps,
            heads.turns.shape[1], keys.stride(0),
            HEADS=heads.heads, KV_HEADS=heads.kv_heads, HEAD_DIM=heads.head_dim,
            BLOCK=power_of_two(heads.head_dim // 2), num_warps=1,
        )  # fmt: skip
    return parts[:, : heads.heads]


def gated(gate_up: Tensor) -> Tensor:
    """[n, m]: silu(gate) up, of [n, 2 m]: gates, then what they are for."""
    num_rows, num_units = len(gate_up), gate_up.shape[1] // 2
    if unavailable(gate_up.device):
        opened, up = gate_up.float().chunk(2, -1)
        return (silu(opened) * up).to(gate_up.dtype)
    from .layer_kernels import gate

    out = torch.empty((num_rows, num_units), dtype=gate_up.dtype, device=gate_up.device)
    with on(gate_up.device):
        gate[(num_rows, -(-num_units // GATED))](
            gate_up, out, NUM_UNITS=num_units, BLOCK=GATED, num_warps=4
        )
    return out


def is_softened(logits: Tensor) -> bool:
    """Does `softened` take one launch for these?"""
    few = logits.dtype in DTYPES and logits.dim() == 2
    return few and unavailable(logits.device) is None and logits.stride(1) == 1


def softened(logits: Tensor, temperature: float) -> Tensor:
    """float32 [n, V]: softmax of logits / temperature, summed in float32.

    logits  [n, V], of one of `DTYPES`
    """
    if unavailable(logits.device):
        return (logits.float() / temperature).softmax(-1)
    from .layer_kernels import soften

    num_rows, num_tokens = logits.shape
    probs = torch.empty((num_rows, num_tokens), dtype=torch.float32, device=logits.device)
    with on(logits.device):
        soften[(num_rows,)](
            logits, probs, 1.0 / temperature, num_tokens, logits.stride(0),
            BLOCK=min(SOFTENED, power_of_two(num_tokens)), num_warps=16,
        )  # fmt: skip
    return probs


def _normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    rows = x.float()
    scale = (rows.square().mean(-1, keepdim=True) + eps).rsqrt()
    return (rows * scale * weight.float()).to(x.dtype)


def _turned(
    parts: Tensor, heads: HeadTurns, positions: Tensor, places: Tensor, keys: Tensor, values: Tensor
) -> Tensor:
    """`turn_and_store` by torch, of [n, H + 2 K, d]."""
    counts = [heads.heads, heads.kv_heads, heads.kv_heads]
    queries, new_keys, new_values = parts.split(counts, dim=1)
    cosines, sines = heads.turns[:, positions, None]
    turned = []
    for each, weight in zip((queries, new_keys), heads.norms or (None, None), strict=True):
        entries = each.float()
        if weight is not None:
            squares = entries.square().mean(-1, keepdim=True)
            entries = entries * (squares + heads.eps).rsqrt() * weight.float()
        low, high = entries.chunk(2, -1)
        exchanged = torch.cat((-high, low), -1)
        turned.append((entries * cosines + exchanged * sines).to(parts.dtype))
    keys.index_copy_(1, places, turned[1].transpose(0, 1))
    values.index_copy_(1, places, new_values.transpose(0, 1))
    return turned[0]
