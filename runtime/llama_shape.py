"""Is a model made of the layers that passes of our own compute?  Those of Llama, by any name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Model types whose layers are those of Llama."""
STILL_ROTATIONS = ("default", "linear", "llama3", "yarn")
"""Rotary positions that depend on the position alone, not on the length of the text."""


def is_llama_shaped(model: PreTrainedModel) -> bool:
    """Layers of one kind, of plain products, with weights of one dtype on one device?"""
    config = model.config
    if config.model_type not in FAMILIES or config.hidden_act != "silu":
        return False
    rotations = getattr(config, "rope_parameters", None) or {}
    if rotations.get("rope_type") not in STILL_ROTATIONS:
        return False
    kinds = {(weight.device.type, weight.dtype) for weight in model.parameters()}
    return len(kinds) == 1 and _has_plain_layers(model)


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
