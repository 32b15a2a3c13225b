"""The pass of a Llama-shaped model on a GPU, in a dozen kernels a layer.

transformers' modules make some forty launches in every layer, most of which take longer to begin
than to compute a step's few rows, recorded or not.  Here queries, keys and values are one product,
and so are the two of the MLP; what stands between products is one kernel each
(`tree_kernels.layers`).  A module's own weights become parts of the joined ones: nothing is kept
twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from tree_kernels.layers import HeadTurns, add_and_norm, gated, turn_and_store

from .attention import TokenTree, attended
from .graphs import Outputs, PassInputs

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class JoinedLayer:
    """A layer with its weights as `LlamaPass` reads them."""

    module: Any
    qkv: Tensor
    qkv_bias: Tensor | None
    gate_up: Tensor

    @classmethod
    def of(cls, layer: Any) -> JoinedLayer:
        """The layer, whose weights are moved together."""
        attention, mlp = layer.self_attn, layer.mlp
        read = [attention.q_proj, attention.k_proj, attention.v_proj]
        biases = [each.bias for each in read if each.bias is not None]
        return cls(
            module=layer,
            qkv=together(read),
            qkv_bias=torch.cat(biases) if biases else None,
            gate_up=together([mlp.gate_proj, mlp.up_proj]),
        )


class LlamaLayers:
    """The layers of a Llama-shaped `model`, whose weights must stay as they are."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model: Any = model
        with torch.no_grad():
            self.layers = [JoinedLayer.of(layer) for layer in model.model.layers]

    def over(self, store: Tensor) -> LlamaPass:
        """The pass over rows of a text in `store`, as `RecordedPass` has it."""
        return LlamaPass(self, store, self._heads(store.shape[3]))

    def _heads(self, num_positions: int) -> list[HeadTurns]:
        """How each layer turns its heads, at so many positions."""
        model, config = self.model.model, self.model.config
        like = torch.zeros(1, device=model.norm.weight.device)  # float32
        places = torch.arange(num_positions, device=like.device)[None]
        turns = torch.cat(model.rotary_emb(like, places))
        found = []
        for layer in model.layers:
            attention, norms = layer.self_attn, None
            if hasattr(attention, "q_norm"):
                norms = attention.q_norm.weight.data, attention.k_norm.weight.data
            kv_heads = config.num_key_value_heads
            heads = config.num_attention_heads
            found.append(HeadTurns(heads, kv_heads, turns, norms, config.rms_norm_eps))
        return found


@dataclass(frozen=True)
class LlamaPass:
    """A pass over rows of the text in one store."""

    of: LlamaLayers
    store: Tensor
    heads: list[HeadTurns]

    def __call__(self, rows: PassInputs, tree: TokenTree) -> Outputs:
        model, eps = self.of.model, self.of.model.config.rms_norm_eps
        x = embedding(rows.tokens, model.model.embed_tokens.weight)
        added = None
        for number, layer in enumerate(self.of.layers):
            module = layer.module
            read = add_and_norm(x, added, module.input_layernorm.weight, eps)
            mixed = self._attended(number, linear(read, layer.qkv, layer.qkv_bias), rows, tree)
            added = linear(mixed, module.self_attn.o_proj.weight)
            read = add_and_norm(x, added, module.post_attention_layernorm.weight, eps)
            added = linear(gated(linear(read, layer.gate_up)), module.mlp.down_proj.weight)
        hidden = add_and_norm(x, added, model.model.norm.weight, eps)
        head = model.get_output_embeddings()
        return linear(hidden, head.weight, head.bias), hidden

    def _attended(self, number: int, qkv: Tensor, rows: PassInputs, tree: TokenTree) -> Tensor:
        """[n, H d] from queries, keys and values [n, (H + 2 K) d]."""
        keys, values = self.store[2 * number : 2 * number + 2]
        queries = turn_and_store(
            qkv, self.heads[number], rows.positions, rows.places, keys[0], values[0]
        )
        scaling = self.of.layers[number].module.self_attn.scaling
        mixed = attended(queries.transpose(0, 1)[None], keys, values, scaling, tree)
        return mixed.transpose(1, 2).reshape(len(qkv), -1)


def together(modules: Sequence[nn.Linear]) -> Tensor:
    """The weights of all modules, one behind the other; each module's own is then part of it."""
    joined = torch.cat([module.weight for module in modules])
    parts = joined.split([module.out_features for module in modules])
    for module, part in zip(modules, parts, strict=True):
        module.weight.data = part
    return joined
