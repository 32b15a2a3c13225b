"""The same function in a larger shape: real acceptance at the cost of a big model.

Let a model of width D be given and one of width D' = m D be wanted. The residual stream of the
large model is the small one's, m times over; so the mean of squares is what it was, and RMSNorm
needs no more than its weights repeated. Then

    a matrix that reads the stream    W' = [W/m + N_1, ..., W/m + N_m]    with  sum_c N_c = 0
    a matrix that writes the stream   its rows repeated m times

compute what W computes. Heads, MLP units and the value slots of a longer head are *copies* of the
small model's, which read with noise of their own; the columns by which c copies of one unit write
are w/c + n_1, ..., w/c + n_c with sum n_i = 0. A layer that the small model lacks consists of
random units in two copies or more with w = 0: every weight is at work and nothing is added.

A head of g times the length turns its pair of slots j by theta^(-2j/(g d)), so the small head's
pair j goes to pair g j; what reads into the other pairs of q and k is noise that sums to zero.
Scores are divided by sqrt(g d) instead of sqrt(d); the queries are scaled by sqrt(g) to undo it.

A larger vocabulary has the small one's tokens first. The others have embeddings and rows of the
output layer of their own, and a bias of `NEVER_DRAWN` there: they are computed, and never drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn

from planner import PlannerError

from ..vocabulary import NEVER_DRAWN
from .shape import GROWN_NAMES, SHAPES, Shape

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

__all__ = ["SHAPES", "Shape", "inflate"]

NOISE = 0.5  # of the size of the weights that it is added to
IDLE_WRITES = 0.25  # size of what added layers write with, relative to a layer that was there

PLACES = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
    "attention_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
}
"""Modules of a layer."""


def inflate(
    model: LlamaForCausalLM,
    *,
    like: LlamaConfig | Shape | str,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    seed: int = 0,
) -> LlamaForCausalLM:
    """A Llama of the shape `like` that computes the function of `model`.

    like    a config, a shape, a name in SHAPES, or "hidden=512,layers=8,heads=8,intermediate=1408";
            only its sizes count: rotary base and norms' epsilon are the model's, and so are
            vocabulary and positions unless a shape has larger ones.  A saved model has no bias
            of logits, so that one with a larger vocabulary cannot be saved
    dtype   of the weights. In float32 the logits agree to rounding; in lower precisions the noise
            cancels only to theirs
    device  where the weights are made, one layer at a time

    The result has untied embeddings and frozen weights, is in evaluation mode, and carries the
    sizes it came from as the dict `config.inflated_from`. The same seed gives the same weights on
    the same device. Where hidden stays as it is, what reads into unused rotary pairs is zero.
    """
    if isinstance(like, str):
        like = Shape.parse(like)
    elif not isinstance(like, Shape):
        like = Shape.of(like)
    _check_kind(model.config)
    small = Shape.of(model.config)
    _check_sizes(small, like)
    _check_grown(model.config, like)
    large = _empty(model.config, small, like, dtype=dtype, device=device)
    maker = _Maker(small, like, torch.Generator(device).manual_seed(seed), dtype)
    with torch.no_grad():
        embedding, norm, head = model.model.embed_tokens, model.model.norm, model.lm_head
        wide = maker.repeated(maker.read(embedding).T).T.contiguous()
        more = max(0, like.vocab - len(wide))
        idle = _size(wide) * maker.normal(more, like.hidden).to(wide.dtype)
        wide = torch.cat((wide, idle)) if more else wide
        large.model.embed_tokens.weight = nn.Parameter(wide, requires_grad=False)
        large.model.norm.weight = maker.repeated(maker.read(norm))
        large.lm_head = maker.output_layer(maker.read(head), more)
        # The small model's layers are evenly spread, the last one last.
        home = {(i + 1) * like.layers // small.layers - 1: i for i in range(small.layers)}
        for index, layer in enumerate(large.model.layers):
            make = _kept_part if index in home else _idle_part
            nearest = model.model.layers[home.get(index, index % small.layers)]
            _fill_layer(layer, make(nearest, maker), maker)
    return large.eval()


@dataclass(frozen=True)
class _Part:
    """A layer in the small width, and which of its heads and units each large one copies.

    weights     float32, by name of `PLACES`: q, k, v, gate, up [outputs, D]; o, down [D, inputs];
                norms [D]
    head_dim    length of the heads of q, k and v
    head_of, kv_of, unit_of  int64 [heads'], [kv_heads'], [intermediate'], of attention and MLP
    o_noise, down_noise      standard deviation of the noise in the columns of o and down
    """

    weights: dict[str, Tensor]
    head_dim: int
    head_of: Tensor
    kv_of: Tensor
    unit_of: Tensor
    o_noise: float
    down_noise: float


@dataclass(frozen=True)
class _Maker:
    """Makes matrices of the shape `like` out of small ones, on the generator's device."""

    small: Shape
    like: Shape
    generator: torch.Generator
    dtype: torch.dtype

    def repeated(self, weight: Tensor) -> nn.Parameter:
        """Rows for every copy of the stream: [D, ...] -> [m D, ...]."""
        copies = self.like.hidden // self.small.hidden
        return self._parameter(weight.repeat(copies, *[1] * (weight.ndim - 1)))

    def reader(self, weight: Tensor) -> nn.Parameter:
        """[outputs, D] -> [outputs, m D]: the weight's m-th part plus noise that sums to zero."""
        outputs, width = weight.shape
        copies = self.like.hidden // width
        extra = self.normal(outputs, copies, width).mul_(NOISE * _size(weight))
        extra -= extra.mean(1, keepdim=True)
        return self._parameter(((extra + weight[:, None]) / copies).flatten(1))

    def output_layer(self, weight: Tensor, more: int) -> nn.Linear:
        """[V, D] -> [V + more, m D], the last of which are never drawn."""
        rows, biased = self.reader(weight), more > 0
        if biased:
            idle = (_size(rows) * self.normal(more, rows.shape[1])).to(rows.dtype)
            rows = nn.Parameter(torch.cat((rows, idle)), requires_grad=False)
        layer = nn.Linear(rows.shape[1], len(rows), bias=biased, device="meta")
        layer.weight = rows
        if biased:
            bias = rows.new_zeros(len(rows))
            bias[len(weight) :] = NEVER_DRAWN
            layer.bias = nn.Parameter(bias, requires_grad=False)
        return layer

    def writer(self, weight: Tensor, owner: Tensor, noise: float) -> nn.Parameter:
        """[D, inputs] -> [m D, len(owner)]; column i is a share of weight[:, owner[i]]."""
        count = torch.bincount(owner, minlength=weight.shape[1])
        extra = self.normal(weight.shape[0], len(owner)).mul_(noise)
        mean = _sums(extra, owner, weight) / count
        return self.repeated((weight / count - mean)[:, owner] + extra)

    def read(self, module: nn.Module) -> Tensor:
        return cast(Tensor, module.weight).detach().to(self.generator.device, torch.float32)

    def normal(self, *size: int) -> Tensor:
        return torch.randn(*size, generator=self.generator, device=self.generator.device)

    def count(self, end: int) -> Tensor:
        """0, 1, ... below `end`: int64 [end]."""
        return torch.arange(end, device=self.generator.device)

    def _parameter(self, weight: Tensor) -> nn.Parameter:
        return nn.Parameter(weight.to(self.generator.device, self.dtype), requires_grad=False)


def _sums(extra: Tensor, owner: Tensor, like: Tensor) -> Tensor:
    """The columns of `extra` that belong to each column of `like`, added up.

    A GPU's `index_add_` does so in any order: rounded otherwise, the weights of two runs would
    be those of two models.
    """
    sums = torch.zeros_like(like)
    if sums.device.type == "cpu":
        return sums.index_add_(1, owner, extra)
    sums.T.index_put_((owner,), extra.T, accumulate=True)
    return sums


def _check_kind(config: LlamaConfig) -> None:
    if config.model_type != "llama" or config.attention_bias or config.mlp_bias:
        raise PlannerError(
            f"got a model of type {config.model_type!r} to inflate, expected a Llama without "
            "biases; take the embedded target"
        )
    if config.rope_parameters["rope_type"] != "default":
        raise PlannerError(
            f"got rotary scaling {config.rope_parameters['rope_type']!r} in the model to inflate, "
            "expected 'default'; take a model without rotary scaling"
        )


def _check_sizes(small: Shape, like: Shape) -> None:
    for name in ("hidden", "head_dim"):
        got, unit = getattr(like, name), getattr(small, name)
        if got % unit:
            raise PlannerError(
                f"got {name}={got} to inflate to, expected a multiple of the model's {unit}; "
                f"take {unit * max(1, round(got / unit))}"
            )
    for name in ("layers", "intermediate"):
        got, least = getattr(like, name), getattr(small, name)
        if got < least:
            raise PlannerError(
                f"got {name}={got} to inflate to, expected at least the model's {least}; "
                "take a larger shape"
            )
    # Each of the small model's kv heads needs so many of the large one's to seat its queries.
    copies = -(-(small.heads // small.kv_heads) // (like.heads // like.kv_heads))
    needed = small.kv_heads * copies
    if like.kv_heads < needed:
        raise PlannerError(
            f"got heads={like.heads} and kv_heads={like.kv_heads} to inflate to, expected at least "
            f"{needed} kv_heads to seat the model's {small.heads} heads; raise kv_heads or heads"
        )
    if like.layers > small.layers and (like.heads % 2 or like.intermediate < 2):
        raise PlannerError(
            f"got heads={like.heads} and intermediate={like.intermediate} to inflate to, expected "
            "an even number of heads and 2 units or more, as added layers cancel in pairs; take "
            f"heads={like.heads + like.heads % 2} or keep layers={small.layers}"
        )


def _check_grown(config: LlamaConfig, like: Shape) -> None:
    for name, field in GROWN_NAMES.items():
        got, least = getattr(like, name), getattr(config, field)
        if got and got < least:
            raise PlannerError(
                f"got {name}={got} to inflate to, expected at least the model's {least}; "
                "take more, or leave it out"
            )


def _empty(
    config: LlamaConfig,
    small: Shape,
    like: Shape,
    *,
    dtype: torch.dtype,
    device: str | torch.device,
) -> LlamaForCausalLM:
    """The large model on the meta device, but for its rotary frequencies."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    settings = config.to_dict() | like.sizes()
    settings |= {"tie_word_embeddings": False, "inflated_from": small.sizes(), "dtype": dtype}
    wide = LlamaConfig.from_dict(settings)
    wide._attn_implementation = config._attn_implementation
    with torch.device("meta"):
        large = LlamaForCausalLM(wide)
    large.model.rotary_emb = LlamaRotaryEmbedding(wide).to(device)  # stays in float32
    return large


def _kept_part(layer: LlamaDecoderLayer, maker: _Maker) -> _Part:
    """A layer of the small model, its heads and units shared out over the large one's."""
    small, like, weights = maker.small, maker.like, _weights(layer, maker)
    group, like_group = small.heads // small.kv_heads, like.heads // like.kv_heads
    kv = maker.count(like.kv_heads)
    kv_of, copy_of = kv % small.kv_heads, kv // small.kv_heads
    seats = copy_of[:, None] * like_group + maker.count(like_group)
    columns = like.heads * like.head_dim / (small.heads * small.head_dim)
    return _Part(
        weights,
        head_dim=small.head_dim,
        head_of=(kv_of[:, None] * group + seats % group).flatten(),
        kv_of=kv_of,
        unit_of=maker.count(like.intermediate) % small.intermediate,
        o_noise=NOISE * _size(weights["o"]) / columns,
        down_noise=NOISE * _size(weights["down"]) * small.intermediate / like.intermediate,
    )


def _idle_part(layer: LlamaDecoderLayer, maker: _Maker) -> _Part:
    """A layer that adds nothing: random heads and units, in copies whose columns sum to zero."""
    like, weights = maker.like, _weights(layer, maker)
    o_noise, down_noise = (IDLE_WRITES * _size(weights[name]) for name in ("o", "down"))
    kv_of = maker.count(like.kv_heads)
    if like.heads // like.kv_heads % 2:  # a pair may sit in two groups: let those be copies
        kv_of = kv_of // 2
    num_units = like.intermediate // 2
    num_q, num_kv = like.heads // 2 * like.head_dim, (int(kv_of[-1]) + 1) * like.head_dim
    sizes = {"q": num_q, "k": num_kv, "v": num_kv, "gate": num_units, "up": num_units}
    for name, size in sizes.items():
        weights[name] = maker.normal(size, maker.small.hidden) * _size(weights[name])
    weights["o"] = weights["o"].new_zeros(maker.small.hidden, num_q)
    weights["down"] = weights["down"].new_zeros(maker.small.hidden, num_units)
    return _Part(
        weights,
        head_dim=like.head_dim,
        head_of=maker.count(like.heads) // 2,
        kv_of=kv_of,
        unit_of=maker.count(like.intermediate) % num_units,
        o_noise=o_noise,
        down_noise=down_noise,
    )


def _fill_layer(layer: LlamaDecoderLayer, part: _Part, maker: _Maker) -> None:
    """Set the weights of a large layer to those that compute `part`."""
    small, growth = part.weights, maker.like.head_dim // part.head_dim
    value_slots = maker.count(maker.like.head_dim) % part.head_dim
    of_values = (part.kv_of[:, None] * part.head_dim + value_slots).flatten()
    columns = (part.head_of[:, None] * part.head_dim + value_slots).flatten()
    q = _spread(small["q"] * math.sqrt(growth), part.head_of, part.head_dim, growth)
    made = {
        "q": maker.reader(q),
        "k": maker.reader(_spread(small["k"], part.kv_of, part.head_dim, growth)),
        "v": maker.reader(small["v"][of_values]),
        "o": maker.writer(small["o"], columns, part.o_noise),
        "gate": maker.reader(small["gate"][part.unit_of]),
        "up": maker.reader(small["up"][part.unit_of]),
        "down": maker.writer(small["down"], part.unit_of, part.down_noise),
        "attention_norm": maker.repeated(small["attention_norm"]),
        "mlp_norm": maker.repeated(small["mlp_norm"]),
    }
    for name, weight in made.items():
        layer.get_submodule(PLACES[name]).weight = weight


def _spread(weight: Tensor, head_of: Tensor, head_dim: int, growth: int) -> Tensor:
    """Rows of q or k for longer heads: [heads * head_dim, D] -> [heads' * growth * head_dim, D].

    Slot i turns together with slot i + half a head, as in `rotate_half` of transformers; the pair
    that turns as the small head's pair j is number growth * j. The rows in between are zero.
    """
    heads = weight.view(-1, 2, head_dim // 2, 1, weight.shape[1])[head_of]
    empty = heads.new_zeros(*heads.shape[:3], growth - 1, heads.shape[4])
    return torch.cat([heads, empty], 3).flatten(0, 3)


def _weights(layer: LlamaDecoderLayer, maker: _Maker) -> dict[str, Tensor]:
    return {name: maker.read(layer.get_submodule(place)) for name, place in PLACES.items()}


def _size(weight: Tensor) -> float:
    """Root of the mean of squares, by one thread: torch's own sum depends on how many there are,
    and so would the weights, which tell one model from another."""
    return float(np.sqrt(np.square(weight.double().cpu().numpy()).mean()))
