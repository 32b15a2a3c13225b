"""The pass of a Llama-shaped model on a CPU, in a few calls and with packed weights.

transformers' modules make some fifty calls of torch in every layer, and products that are slow for
the few rows of a step.  Here weights are copied into an order that is fast for them; queries, keys
and values are one product, and so are the two of the MLP; what stands between products is compiled
(`fused_rows`), and of few enough rows all of the pass (`compiled_pass`).  The sums are those of
transformers in another order, so that logits agree up to rounding.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, silu

from tree_kernels.host.team import ALONE, team_of

from .cache import RowCache, TreeCache
from .compiled_pass import MOST_ON_TILES, WholePass
from .cores import CORES
from .fused_rows import HeadNorms, LayerHeads, joined, pass_rows
from .language_model import PassInput, PassOutput
from .llama_shape import is_llama_shaped
from .models import HuggingFaceModel
from .packed import can_pack, product
from .probe import agree

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_log = logging.getLogger(__name__)

ASKED = 1, 3, 7, 15, 31, 63, 127, MOST_ON_TILES
"""Numbers of rows of which the clock is asked which way is the faster one, before any between."""
NUM_TIMED, ENOUGH, SEEN = 3, 0.2, 64
"""Passes timed each way to know whether it is the faster one, or as many as are made in so many
seconds; and the rows that they see before them."""

ALL, NONE = range(1, MOST_ON_TILES + 1), range(0)
"""Numbers of rows of passes in one call: as many as there may be, and none."""

Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class FusedLayer:
    """One layer: h hidden features, H heads and K of keys, of size d, m units of the MLP.

    before     [h]                  norm in front of attention
    qkv        h -> (H + 2 K) d     queries, keys, values
    head_norms [d] twice            norms of each query and key, where there are any
    out        H d -> h
    between    [h]                  norm in front of the MLP
    gate_up    h -> 2 m
    down       m -> h
    """

    before: Tensor
    qkv: Product
    head_norms: HeadNorms
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
            head_norms=norms,
            out=product(attention.o_proj.weight),
            between=layer.post_attention_layernorm.weight.data,
            gate_up=product(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])),
            down=product(mlp.down_proj.weight),
        )


class FusedModel(HuggingFaceModel):
    """A `HuggingFaceModel` on a CPU that computes its passes itself; made by `fused`.

    It holds the module, whose weights must stay as they are, and a packed copy of them.
    """

    def __init__(self, model: PreTrainedModel, *, name: str | None = None) -> None:
        super().__init__(model, name=name)
        config = self._config
        self.attention = f"{self.attention}, fused"
        with torch.no_grad():
            self._layers = [FusedLayer.of(layer) for layer in model.model.layers]
            head: Any = model.get_output_embeddings()
            self._head = product(head.weight, head.bias)
        self._norm = model.model.norm.weight.data
        self._heads = LayerHeads(
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_size=model.model.layers[0].self_attn.head_dim,
            eps=config.rms_norm_eps,
            turns=self._turns(64),
        )
        self._whole: WholePass | None = None
        self._threads_timed = torch.get_num_threads()
        self._chosen: dict[int, tuple[Any, Any]] = {}
        """Team and numbers of rows of `WholePass`, by the number of torch's threads."""
        if self._norm.dtype == torch.float32:
            self._whole = WholePass(model, self._heads.eps)

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
        asked = PassInput(self, tokens, positions, cache, visible, num_logits)
        return self._read([asked])

    def forward_batch(self, inputs: Sequence[PassInput]) -> list[PassOutput]:
        """All products are of all texts' rows at once; attention is each text's own."""
        read = self._read(inputs)
        counts = [asked.num_wanted for asked in inputs]
        return [
            PassOutput(*each) for each in zip(*(each.split(counts) for each in read), strict=True)
        ]

    def _read(
        self, inputs: Sequence[PassInput], *, beside_nobody: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Logits and hidden states of all wanted rows, one text's behind the other's.

        beside_nobody  made as if other programs left all cores

        In parts, all of torch's threads would wait for the one whose core another program has.
        """
        heads, whole, free_cores = self._heads_up_to(inputs), self._whole, CORES.now()
        threads = torch.get_num_threads()
        if whole is not None and threads != self._threads_timed:
            self._choose_for(threads, whole)
        threads = self._threads_timed
        if beside_nobody:
            free_cores = threads
        in_one_call = not beside_nobody and CORES.too_few(threads)
        if whole is not None and whole.serves(inputs, in_one_call):
            read = whole.read(inputs, heads, free_cores)
        else:
            read = self._in_parts(heads, inputs)
        CORES.done()
        return read

    @torch.inference_mode()
    def _in_parts(self, heads: LayerHeads, inputs: Sequence[PassInput]) -> tuple[Tensor, Tensor]:
        """The same, a call for every product and for what stands between."""
        tokens = joined([each.tokens for each in inputs])
        added = embedding(tokens, self.module.model.embed_tokens.weight)
        rows = pass_rows(heads, inputs, added)
        x = torch.zeros_like(added)
        for number, layer in enumerate(self._layers):
            x, read = rows.normed(x, added, layer.before)
            mixed = rows.attended(number, layer.qkv(read), layer.head_norms)
            x, read = rows.normed(x, layer.out(mixed), layer.between)
            gate, up = layer.gate_up(read).chunk(2, -1)
            added = layer.down(silu(gate).mul_(up))
        hidden = _wanted(rows.normed(x, added, self._norm)[1], inputs)
        return self._head(hidden), hidden

    def _choose_for(self, threads: int, whole: WholePass) -> None:
        """Choose ways for so many of torch's threads, or take what was chosen: each of Python's
        threads may have another number of them."""
        if threads in self._chosen:
            self._threads_timed, (whole.team, whole.row_counts) = threads, self._chosen[threads]
        else:
            self.choose_ways()

    def choose_ways(self) -> None:
        """Passes of as many rows in one call as are so faster than in parts, by the clock.

        Which numbers these are depends on the processor's tiles: three may be slower, and seven
        faster again.  So the clock is asked of some numbers, up to the second one after another
        that is slower, and between two whose answers differ, to a quarter.  Of torch's threads all
        take part, or one where it is faster alone with one row.  Once torch has another number of
        threads, it is asked again.  All threads are timed, whatever cores other programs hold
        meanwhile: these come and go, and what is chosen stays.
        """
        whole = self._whole
        if whole is None:
            return
        self._threads_timed = threads = torch.get_num_threads()
        whole.team = team = team_of(threads)
        for whole.row_counts in NONE, ALL:
            self._seconds(1)  # both are compiled
        if team != ALONE:
            whole.team = self._quicker(1, "team", (team, ALONE))
        quicker: dict[int, bool] = {}
        for num_rows in ASKED[: bisect_right(ASKED, whole.most_rows)]:
            quicker[num_rows] = self._quicker_in_one_call(num_rows)
            if [*quicker.values()][-2:] == [False, False]:
                break
        for low, high in pairwise([*quicker]):
            while quicker[low] != quicker[high] and high - low > max(1, low // 4):
                middle = (low + high) // 2
                quicker[middle] = self._quicker_in_one_call(middle)
                low, high = (middle, high) if quicker[middle] == quicker[low] else (low, middle)
        asked = sorted(quicker)
        whole.row_counts = frozenset(
            number
            for number in range(1, whole.most_rows + 1)
            if quicker[asked[bisect_right(asked, number) - 1]]
        )
        self._chosen[threads] = whole.team, whole.row_counts

    def _quicker_in_one_call(self, num_rows: int) -> bool:
        return len(self._quicker(num_rows, "row_counts", (ALL, NONE))) > 0

    def _quicker(self, num_rows: int, name: str, ways: tuple[Any, Any]) -> Any:
        """The value of two, of an attribute of `WholePass`, with which a pass over so many rows is
        the faster; the first, if both are as fast."""
        seconds: tuple[list[float], list[float]] = [], []
        end = time.perf_counter() + ENOUGH
        while len(seconds[1]) < NUM_TIMED and (not seconds[1] or time.perf_counter() < end):
            for way, timed in zip(ways, seconds, strict=True):
                setattr(self._whole, name, way)
                timed.append(self._seconds(num_rows))
        return ways[min(seconds[1]) < min(seconds[0])]

    def _seconds(self, num_rows: int) -> float:
        """The time of a pass over so many rows behind others."""
        cache, like = TreeCache(len(self._layers), SEEN + num_rows), self._norm
        cache.with_room(SEEN, like, (self._heads.kv_heads, self._heads.head_size))
        cache.append(SEEN)
        tokens = torch.zeros(num_rows, dtype=torch.int64)
        asked = PassInput(self, tokens, tokens + SEEN, cache)
        start = time.perf_counter()
        self._read([asked], beside_nobody=True)
        return time.perf_counter() - start

    def _heads_up_to(self, inputs: Sequence[PassInput]) -> LayerHeads:
        """The heads, with rotations for all positions of a pass, which are within its texts."""
        end = max([each.cache.length + len(each.tokens) for each in inputs])
        if end > self._heads.turns.shape[1]:
            self._heads = self._heads._replace(turns=self._turns(2 * end))
        return self._heads

    def _turns(self, num_positions: int) -> Tensor:
        """`LayerHeads.turns` for so many positions."""
        model: Any = self.module.model
        places = torch.arange(num_positions)[None]
        cosines, sines = model.rotary_emb(self._norm, places)
        sines = sines.clone()
        sines[..., : sines.shape[-1] // 2].neg_()
        return torch.cat((cosines, sines))


def fused(model: PreTrainedModel, *, name: str | None = None) -> HuggingFaceModel:
    """The adapter around `model` that is the faster one: `FusedModel` where that serves it.

    The logits of both are compared once (`agree`).
    """
    plain = HuggingFaceModel(model, name=name)
    if not is_fusable(model):
        return plain
    quick = FusedModel(model, name=name)
    if agree(quick, plain):
        quick.choose_ways()
        return quick
    _log.warning("%s: passes of transformers, as the fused ones gave other logits", plain.name)
    return plain


def is_fusable(model: PreTrainedModel) -> bool:
    """Does `FusedModel` compute what this model computes?"""
    weights = list(model.parameters())
    if model.config._attn_implementation != "sdpa" or weights[0].device.type != "cpu":
        return False
    if not is_llama_shaped(model):
        return False
    return can_pack(weights[0].dtype, sum(weight.nbytes for weight in weights))


def _wanted(x: Tensor, inputs: Sequence[PassInput]) -> Tensor:
    """The rows that are wanted of those of a pass, [n, any]: the last ones of each text."""
    if len(inputs) == 1:
        return x[len(x) - inputs[0].num_wanted :]
    texts = x.split([len(each.tokens) for each in inputs])
    pairs = zip(texts, inputs, strict=True)
    return torch.cat([text[len(text) - asked.num_wanted :] for text, asked in pairs])
