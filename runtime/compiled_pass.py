"""Passes over few rows of one text in one compiled call: the products of `fused`, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tree_kernels.host.few_rows import NewRows
from tree_kernels.host.team import ALONE
from tree_kernels.host.whole_pass import ModelWeights, read_rows

from .fused_rows import LayerHeads, texts_of
from .language_model import PassInput

ITSELF = np.ones((1, 1), bool)
"""What a lone row sees beside all those before it."""


class WholePass:
    """The compiled passes of a model with weights of 32 bits, which it reads where they lie.

    most_rows  of a pass that is made this way
    """

    most_rows = 0
    team = ALONE

    def __init__(self, model: Any, eps: float) -> None:
        self._kept: list[np.ndarray] = []  # the addresses stay theirs
        self._embeddings = model.model.embed_tokens.weight.detach()
        layers = model.model.layers
        biases, head_norms, norms = [], [], []
        for layer in layers:
            attention, mlp = layer.self_attn, layer.mlp
            projections = attention.q_proj, attention.k_proj, attention.v_proj
            for each in (*projections, attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj):
                self._keep(each.weight)
            norms += [layer.input_layernorm.weight, layer.post_attention_layernorm.weight]
            if attention.q_proj.bias is not None:
                biases.append(torch.cat([each.bias for each in projections]))
            if hasattr(attention, "q_norm"):
                head_norms.append(torch.stack([attention.q_norm.weight, attention.k_norm.weight]))
        self._keep(model.get_output_embeddings().weight)
        self._weights = ModelWeights(
            products=np.array([(each.ctypes.data, *each.shape) for each in self._kept]),
            norms=_stacked([*norms, model.model.norm.weight]),
            biases=_stacked(biases) if biases else None,
            head_norms=_stacked(head_norms) if head_norms else None,
            eps=eps,
        )

    def serves(self, inputs: Sequence[PassInput]) -> bool:
        """Is a pass over these made this way?"""
        return len(inputs) == 1 and len(inputs[0].tokens) <= self.most_rows

    def read(self, asked: PassInput, heads: LayerHeads) -> tuple[Tensor, Tensor]:
        """Logits [k, V] and last hidden states [k, h] of the last k rows, those that are wanted."""
        (text,) = texts_of(heads, [asked], self._embeddings)
        new = NewRows(np.ascontiguousarray(text.positions.numpy()), text.store.numpy(), text.start)
        visible = ITSELF
        if len(new.positions) > 1 or asked.visible is not None:
            visible = np.ascontiguousarray(text.visible_rows().numpy())
        x = self._embeddings.numpy()[asked.tokens.numpy()]
        asked_of = asked.num_wanted, self.team
        logits, hidden = read_rows(x, self._weights, heads.turns.numpy(), new, visible, asked_of)
        return torch.from_numpy(logits), torch.from_numpy(hidden)

    def _keep(self, weight: Tensor) -> None:
        self._kept.append(np.ascontiguousarray(weight.detach().numpy()))


def _stacked(weights: Sequence[Tensor]) -> np.ndarray:
    return torch.stack([each.detach() for each in weights]).numpy()
