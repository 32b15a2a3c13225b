"""Passes over few rows in one compiled call: the products of `fused`, too."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from tree_kernels.host.team import ALONE, Team
from tree_kernels.host.whole_pass import TEXT, ModelWeights, PassHeads, RowsToRead, fill_logits

from .fused_rows import LayerHeads, joined, texts_of
from .language_model import PassInput
from .large_pages import large_zeros
from .short_weights import TILED_AS, ReadWeight, shortest

MOST_ROWS, MOST_ON_TILES = 63, 255
"""The most rows of a pass in one call; fewer than `agree` begins with, which so sees both ways.  On
tiles more are quicker, too, and may be chosen afterwards."""
LINE = 64
"""Bytes that memory gives at once."""
ITSELF = np.ones((1, 1), bool)
"""A lone row sees itself beside all those before it."""


class WholePass:
    """The compiled passes of a model with weights of 32 bits, which it reads where they lie, or in
    the `shortest` form that says as much.

    row_counts  numbers of rows of the passes that are made this way
    most_rows   the largest that may be chosen
    team        the threads that make it, or as many of them as other programs leave cores: all of
                a team wait for the one whose core another program has
    """

    row_counts: Container[int] = range(1, MOST_ROWS + 1)
    team = ALONE

    def __init__(self, model: Any, eps: float) -> None:
        weights, biases, head_norms, norms = [], [], [], []
        for layer in model.model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            projections = attention.q_proj, attention.k_proj, attention.v_proj
            others = attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj
            weights += [each.weight for each in (*projections, *others)]
            norms += [layer.input_layernorm.weight, layer.post_attention_layernorm.weight]
            own_biases = [each.bias for each in projections if each.bias is not None]
            biases.append(torch.cat(own_biases) if own_biases else torch.empty(0))
            normed = hasattr(attention, "q_norm")
            head_norms.append(
                torch.stack([attention.q_norm.weight, attention.k_norm.weight])
                if normed
                else torch.empty((2, 0))
            )
        head = model.get_output_embeddings()
        self._kept = _kept([*weights, head.weight])  # the addresses stay theirs
        on_tiles = all(each.written_as in TILED_AS.values() for each in self._kept)
        self.most_rows = MOST_ON_TILES if on_tiles else MOST_ROWS
        self._embeddings = model.model.embed_tokens.weight.detach()
        self._head_bias = None if head.bias is None else head.bias.detach()
        self._weights = ModelWeights(
            products=np.array([_told(each) for each in self._kept]),
            norms=_stacked([*norms, model.model.norm.weight]),
            biases=_stacked(biases),
            head_norms=_stacked(head_norms),
            eps=eps,
        )

    def serves(self, inputs: Sequence[PassInput], if_possible: bool) -> bool:
        """Is a pass over these made this way?

        if_possible  it is, unless it has too many rows, whatever `row_counts` says
        """
        num_rows = sum([len(asked.tokens) for asked in inputs])
        return num_rows in self.row_counts or (if_possible and num_rows <= MOST_ROWS)

    def read(
        self, inputs: Sequence[PassInput], heads: LayerHeads, free_cores: float
    ) -> tuple[Tensor, Tensor]:
        """Logits [k, V] and last hidden states [k, h] of all rows that are wanted, one text's
        behind the other's."""
        texts = texts_of(heads, inputs, self._embeddings)
        places, visible, wanted = [], [], []
        for text, asked in zip(texts, inputs, strict=True):
            num_rows, end = len(text.positions), text.rows.stop
            seen = ITSELF
            if num_rows > 1 or text.visible is not None:
                seen = text.visible_rows().numpy()
            room, store = text.store.shape[3], text.store.data_ptr()
            places.append((num_rows, text.start, seen.shape[1], room, store))
            visible.append(seen.reshape(-1))
            wanted.append(np.arange(end - asked.num_wanted, end))
        tokens = joined([asked.tokens for asked in inputs])
        positions = joined([asked.positions for asked in inputs])
        all_wanted = np.concatenate(wanted)
        rows = RowsToRead(
            x=self._embeddings.numpy()[tokens.numpy()],
            positions=np.ascontiguousarray(positions.numpy()),
            texts=np.array(places, TEXT),
            visible=np.concatenate(visible),
            wanted=all_wanted,
            hidden=np.empty((len(all_wanted), self._embeddings.shape[1]), np.float32),
            logits=np.empty((len(all_wanted), self._kept[-1].entries.shape[0]), np.float32),
        )
        turns, shape = heads.turns.numpy(), PassHeads(*heads[:3])
        fill_logits(rows, self._weights, turns, shape, self.team_for(free_cores))
        told = torch.from_numpy(rows.logits)
        if self._head_bias is not None:
            told += self._head_bias
        return told, torch.from_numpy(rows.hidden)

    def team_for(self, free_cores: float) -> Team:
        """The threads that make a pass while other programs leave so many cores."""
        return self.team._replace(size=max(1, min(self.team.size, round(free_cores))))


def _kept(weights: Sequence[Parameter]) -> list[ReadWeight]:
    """The weights as they are read, one behind another in large pages: a model's own go there, too,
    as there should not be two of them."""
    room = large_zeros([sum(each.nbytes + LINE for each in weights)], torch.uint8)
    kept, start = [], 0
    for weight in weights:
        short = shortest(weight.detach().contiguous())
        entries = room[start : start + short.entries.nbytes].view(short.entries.dtype)
        entries = entries.view(short.entries.shape).copy_(short.entries)
        if entries.dtype == weight.dtype:
            weight.data = entries
        kept.append(short._replace(entries=entries))
        start += entries.nbytes + -entries.nbytes % LINE
    return kept


def _told(weight: ReadWeight) -> tuple[int, ...]:
    """A row of `ModelWeights.products`."""
    entries, scales, written_as = weight
    where = 0 if scales is None else scales.data_ptr()
    return entries.data_ptr(), *entries.shape, written_as, where


def _stacked(weights: Sequence[Tensor]) -> np.ndarray:
    return torch.stack([each.detach() for each in weights]).numpy()
