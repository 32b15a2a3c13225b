"""The pass of a Llama-shaped model on a CPU, in a third of the calls and with packed weights.

transformers' modules make some fifty calls of torch in every layer, and products that are slow for
the few rows of a step.  Here weights are copied into an order that is fast for them; queries, keys
and values are one product, and so are the two of the MLP; heads that share keys are rows of one;
what all layers need is made once a pass: the mask, the rotations, the places of new rows in the
cache.  The sums are those of transformers in another order, so that logits agree up to rounding.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, rms_norm, scaled_dot_product_attention, silu
from transformers import PreTrainedModel

from .cache import RowCache, TreeCache
from .language_model import PassInput, PassOutput
from .models import HuggingFaceModel
from .packed import can_pack, product
from .probe import agree

_log = logging.getLogger(__name__)

Product = Callable[[Tensor], Tensor]

FUSED_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Model types whose layers are those of `FusedLayer`."""
STILL_ROTATIONS = ("default", "linear", "llama3", "yarn")
"""Rotary positions that depend on the position alone, not on the length of the text."""


@dataclass(frozen=True)
class FusedLayer:
    """One layer: h hidden features, H heads and K of keys, of size d, m units of the MLP.

    before     [h]                  norm in front of attention
    qkv        h -> (H + 2 K) d     queries, keys, values
    head_norm  [d] twice            norms of each query and key, where there are any
    out        H d -> h
    between    [h]                  norm in front of the MLP
    gate_up    h -> 2 m
    down       m -> h
    """

    before: Tensor
    qkv: Product
    head_norm: tuple[Tensor, Tensor] | None
    out: Product
    between: Tensor
    gate_up: Product
    down: Product

    @classmethod
    def of(cls, layer: Any) -> FusedLayer:
        """The layer, with its weights as they are now."""
        attention, mlp = layer.self_attn, layer.mlp
        norms = None
        if hasattr(attention, "q_norm"):
            norms = attention.q_norm.weight.data, attention.k_norm.weight.data
        projections = attention.q_proj, attention.k_proj, attention.v_proj
        biases = [each.bias for each in projections if each.bias is not None]
        return cls(
            before=layer.input_layernorm.weight.data,
            qkv=product(
                torch.cat([each.weight for each in projections]),
                torch.cat(biases) if biases else None,
            ),
            head_norm=norms,
            out=product(attention.o_proj.weight),
            between=layer.post_attention_layernorm.weight.data,
            gate_up=product(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])),
            down=product(mlp.down_proj.weight),
        )


class TextRows(NamedTuple):
    """The part that one text has in a pass: n new rows, which with those in its cache are t.

    rows    its new ones among all of the pass
    wanted  those of them whose logits are wanted
    new     [K, n, d] each, 2 layers   places in the cache, to be written: keys, values, by layer
    seen    [1, K, t, d] likewise      all of its keys and values, those in `new` included
    mask    [H / K n, t]               added to scores, or None; see `FusedModel._mask`
    """

    rows: slice
    wanted: slice
    new: tuple[Tensor, ...]
    seen: tuple[Tensor, ...]
    mask: Tensor | None


class FusedModel(HuggingFaceModel):
    """A `HuggingFaceModel` on a CPU that computes its passes itself; made by `fused`.

    It holds the module, and a packed copy of its weights as they were when it was made.
    """

    def __init__(self, model: PreTrainedModel, *, name: str | None = None) -> None:
        super().__init__(model, name=name)
        config = self._config
        self.attention = f"{self.attention}, fused"
        with torch.no_grad():
            self._layers = [FusedLayer.of(layer) for layer in model.model.layers]
            head: Any = model.get_output_embeddings()
            self._head = product(head.weight, head.bias)
        self._eps: float = config.rms_norm_eps
        self._heads: int = config.num_attention_heads
        self._kv_heads: int = config.num_key_value_heads
        self._head_size: int = model.model.layers[0].self_attn.head_dim
        self._rotations = self._rotations_of(64)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> Tensor:
        return self.forward_with_hidden(tokens, positions, cache, visible, num_logits=num_logits)[0]

    def forward_with_hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        return self._read([PassInput(self, tokens, positions, cache, visible, num_logits)])

    def forward_batch(self, inputs: Sequence[PassInput]) -> list[PassOutput]:
        """All products are of all texts' rows at once; attention is each text's own."""
        read = self._read(inputs)
        counts = [asked.num_wanted for asked in inputs]
        return [
            PassOutput(*each) for each in zip(*(each.split(counts) for each in read), strict=True)
        ]

    @torch.inference_mode()
    def _read(self, inputs: Sequence[PassInput]) -> tuple[Tensor, Tensor]:
        """Logits and hidden states of all wanted rows, one text's behind the other's."""
        model = self.module.model
        x = embedding(_joined([each.tokens for each in inputs]), model.embed_tokens.weight)
        texts = self._texts(inputs, x)
        positions = _joined([each.positions for each in inputs])
        turns = self._turns(positions, max([each.cache.length for each in inputs]))
        for number, layer in enumerate(self._layers):
            x = self._layer(x, layer, number, turns, texts)
        wanted = _joined([x[text.wanted] for text in texts])
        hidden = rms_norm(wanted, x.shape[1:], model.norm.weight, self._eps)
        return self._head(hidden), hidden

    def _texts(self, inputs: Sequence[PassInput], x: Tensor) -> list[TextRows]:
        """Each text's part in the pass over x [all rows, h]; its cache then counts its new rows."""
        texts, first = [], 0
        for asked in inputs:
            cache, num_rows = asked.cache, len(asked.tokens)
            assert isinstance(cache, TreeCache)
            start, end, last = cache.length, cache.length + num_rows, first + num_rows
            store = cache.with_room(num_rows, x, (self._kv_heads, self._head_size))
            new, seen = store[:, 0, :, start:end].unbind(), store[:, :, :, :end].unbind()
            mask = self._mask(num_rows, start, asked.visible, x.dtype)
            wanted = slice(last - asked.num_wanted, last)
            texts.append(TextRows(slice(first, last), wanted, new, seen, mask))
            cache.append(num_rows)
            first = last
        return texts

    def _layer(
        self,
        x: Tensor,
        layer: FusedLayer,
        number: int,
        turns: tuple[Tensor, Tensor],
        texts: Sequence[TextRows],
    ) -> Tensor:
        """float [all rows, h] -> [all rows, h].

        turns  cosines and sines of all rows
        texts  whose rows these are, in their order; the layer's are written into their caches
        """
        heads, alone = self._heads, len(texts) == 1
        read = rms_norm(x, x.shape[1:], layer.before, self._eps)
        qkv = layer.qkv(read).view(len(x), -1, self._head_size)
        if layer.head_norm is not None:
            self._norm_heads_(qkv, layer.head_norm)
        values = qkv[:, heads + self._kv_heads :]
        turned = _turned(qkv[:, : heads + self._kv_heads], turns)
        mixed = []
        for rows, _, new, seen, mask in texts:
            own, own_values = (turned, values) if alone else (turned[rows], values[rows])
            new[2 * number].copy_(own[:, heads:].transpose(0, 1))
            new[2 * number + 1].copy_(own_values.transpose(0, 1))
            keys_values = seen[2 * number : 2 * number + 2]
            mixed.append(self._attended(own[:, :heads], keys_values, mask))
        x = x + layer.out(_joined(mixed))
        gate, up = layer.gate_up(rms_norm(x, x.shape[1:], layer.between, self._eps)).chunk(2, -1)
        return x + layer.down(silu(gate).mul_(up))

    def _attended(self, queries: Tensor, seen: tuple[Tensor, ...], mask: Tensor | None) -> Tensor:
        """float [n, H, d] -> [n, H d]: heads that share keys are rows of one, so that none of the
        cache is copied; but for a text from its start, whose mask would be the larger."""
        num_rows, heads, size = queries.shape
        keys, values = seen
        if mask is None and num_rows > 1:
            mixed = scaled_dot_product_attention(
                queries.transpose(0, 1)[None], keys, values, is_causal=True,
                enable_gqa=heads != self._kv_heads,
            )  # fmt: skip
            return mixed[0].transpose(0, 1).reshape(num_rows, heads * size)
        shape = self._kv_heads, heads // self._kv_heads, num_rows, size
        grouped = queries.view(num_rows, shape[0], shape[1], size).permute(1, 2, 0, 3)
        mixed = scaled_dot_product_attention(
            grouped.reshape(1, shape[0], -1, size), keys, values, attn_mask=mask
        )
        return mixed.view(shape).permute(2, 0, 1, 3).reshape(num_rows, heads * size)

    def _norm_heads_(self, qkv: Tensor, norms: tuple[Tensor, Tensor]) -> None:
        """Norm each query and each key of [n, H + 2 K, d]."""
        parts = qkv.split([self._heads, self._kv_heads, self._kv_heads], dim=1)
        for part, weight in zip(parts[:2], norms, strict=True):
            part.copy_(rms_norm(part, (self._head_size,), weight, self._eps))

    def _mask(
        self, num_rows: int, start: int, visible: Tensor | None, dtype: torch.dtype
    ) -> Tensor | None:
        """[H / K n, start + n], added to scores; None for a single row that sees all, and for a
        text from its start."""
        if visible is None and (num_rows == 1 or start == 0):
            return None
        if visible is None:
            visible = torch.ones((num_rows, num_rows), dtype=torch.bool).tril_()
        mask = torch.zeros((num_rows, start + num_rows), dtype=dtype)
        mask[:, -visible.shape[1] :].masked_fill_(~visible, -torch.inf)
        return mask.repeat(self._heads // self._kv_heads, 1)

    def _turns(self, positions: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines [n, 1, d] at positions int64 [n] < end, as `_turned` wants them."""
        if end > self._rotations.shape[1]:
            self._rotations = self._rotations_of(2 * end)
        cosines, sines = self._rotations[:, positions, None].unbind()
        return cosines, sines

    def _rotations_of(self, num_positions: int) -> Tensor:
        """[2, num_positions, d]: cosines, and sines, those of the first half with their sign."""
        model: Any = self.module.model
        places = torch.arange(num_positions)[None]
        cosines, sines = model.rotary_emb(model.norm.weight, places)
        sines = sines.clone()
        sines[..., : self._head_size // 2].neg_()
        return torch.cat((cosines, sines))


def fused(model: PreTrainedModel, *, name: str | None = None) -> HuggingFaceModel:
    """The adapter around `model` that is the faster one: `FusedModel` where that serves it.

    The logits of both are compared once, over four tokens.
    """
    plain = HuggingFaceModel(model, name=name)
    if not is_fusable(model):
        return plain
    quick = FusedModel(model, name=name)
    if agree(quick, plain):
        return quick
    _log.warning("%s: passes of transformers, as the fused ones gave other logits", plain.name)
    return plain


def is_fusable(model: PreTrainedModel) -> bool:
    """Does `FusedModel` compute what this model computes?"""
    config = model.config
    if config.model_type not in FUSED_FAMILIES or config._attn_implementation != "sdpa":
        return False
    rotations = getattr(config, "rope_parameters", None) or {}
    if config.hidden_act != "silu" or rotations.get("rope_type") not in STILL_ROTATIONS:
        return False
    weights = list(model.parameters())
    kinds = {(weight.device.type, weight.dtype) for weight in weights}
    if len(kinds) > 1 or weights[0].device.type != "cpu" or not _has_plain_layers(model):
        return False
    return can_pack(weights[0].dtype, sum(weight.nbytes for weight in weights))


def _has_plain_layers(model: PreTrainedModel) -> bool:
    """Are all projections products, with a bias for all of queries, keys and values or for none?"""
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        queries = attention.q_proj, attention.k_proj, attention.v_proj
        others = attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj
        if any(type(each) is not nn.Linear for each in (*queries, *others)):
            return False
        if any(each.bias is not None for each in others):
            return False
        if len({each.bias is None for each in queries}) > 1:
            return False
    return True


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """All parts, one behind the other; a lone one as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _turned(heads: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions of [n, any, d]: x cos + (x with its halves exchanged) sin."""
    cosines, sines = turns
    return torch.addcmul(heads * cosines, heads.roll(heads.shape[-1] // 2, -1), sines)
