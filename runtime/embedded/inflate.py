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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from planner import PlannerError

from .shape import SHAPES, Shape

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

__all__ = ["SHAPES", "Shape", "inflate"]

NOISE = 0.5  # of the size of the weights that it is added to
IDLE_WRITES = 0.25  # size of what added layers write with, relative to a layer that was there


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
            only its sizes count: vocabulary, rotary base, norms' epsilon and positions are model's
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
    large = _empty(model.config, small, like, dtype=dtype, device=device)
    maker = _Maker(
        copies=like.hidden // small.hidden,
        generator=torch.Generator(device).manual_seed(seed),
        device=torch.device(device),
        dtype=dtype,
    )
    with torch.no_grad():
        _fill_ends(large, model, maker)
        home = {_place(i, small, like): i for i in range(small.layers)}
        for index, layer in enumerate(large.model.layers):
            make = _kept_part if index in home else _idle_part
            nearest = model.model.layers[home.get(index, index % small.layers)]
            _fill_layer(layer, make(nearest, small, like, maker), like, maker)
    return large.eval()


@dataclass(frozen=True)
class _Part:
    """A layer in the small width, and which of its heads and units each large one copies.

    q, k, v, gate, up  float32 [outputs, D];   o, down  float32 [D, inputs];   norms  float32 [D]
    head_dim             length of the heads of q, k and v
    head_of, kv_of       int64 [heads'], [kv_heads']; the head that each large one copies
    unit_of              int64 [intermediate']; likewise for MLP units
    o_noise, down_noise  standard deviation of the noise in the columns of o and down
    """

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    attention_norm: Tensor
    mlp_norm: Tensor
    head_dim: int
    head_of: Tensor
    kv_of: Tensor
    unit_of: Tensor
    o_noise: float
    down_noise: float


@dataclass(frozen=True)
class _Maker:
    """Makes large matrices out of small ones; `copies` is m."""

    copies: int
    generator: torch.Generator
    device: torch.device
    dtype: torch.dtype

    def repeated(self, weight: Tensor) -> nn.Parameter:
        """Rows for every copy of the stream: [D, ...] -> [m D, ...]."""
        return self._parameter(weight.repeat(self.copies, *[1] * (weight.ndim - 1)))

    def reader(self, weight: Tensor) -> nn.Parameter:
        """[outputs, D] -> [outputs, m D]: the weight's m-th part plus noise that sums to zero."""
        outputs, width = weight.shape
        extra = self.normal(outputs, self.copies, width).mul_(NOISE * _size(weight))
        extra -= extra.mean(1, keepdim=True)
        return self._parameter(((extra + weight[:, None]) / self.copies).flatten(1))

    def writer(self, weight: Tensor, owner: Tensor, noise: float) -> nn.Parameter:
        """[D, inputs] -> [m D, len(owner)]; column i is a share of weight[:, owner[i]]."""
        count = torch.bincount(owner, minlength=weight.shape[1])
        extra = self.normal(weight.shape[0], len(owner)).mul_(noise)
        mean = self._sums(extra, owner, weight) / count
        return self.repeated((weight / count - mean)[:, owner] + extra)

    def _sums(self, extra: Tensor, owner: Tensor, like: Tensor) -> Tensor:
        """The columns of `extra` that belong to each column of `like`, added up.

        A GPU's `index_add_` does so in any order: rounded otherwise, the weights of two runs would
        be those of two models.
        """
        sums = torch.zeros_like(like)
        if sums.device.type == "cpu":
            return sums.index_add_(1, owner, extra)
        sums.T.index_put_((owner,), extra.T, accumulate=True)
        return sums

    def normal(self, *size: int) -> Tensor:
        return torch.randn(*size, generator=self.generator, device=self.device)

    def _parameter(self, weight: Tensor) -> nn.Parameter:
        return nn.Parameter(weight.to(self.device, self.dtype), requires_grad=False)


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
    needed = small.kv_heads * _kv_copies(small, like)
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


def _kv_copies(small: Shape, like: Shape) -> int:
    """How many of the large model's kv heads one of the small model's needs to seat its queries."""
    return -(-(small.heads // small.kv_heads) // (like.heads // like.kv_heads))


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


def _fill_ends(large: LlamaForCausalLM, model: LlamaForCausalLM, maker: _Maker) -> None:
    """Embedding, final norm and head."""
    embedding = _float(model.model.embed_tokens, maker)
    head = _float(model.lm_head, maker)
    large.model.embed_tokens.weight = nn.Parameter(
        maker.repeated(embedding.T).T.contiguous(), requires_grad=False
    )
    large.model.norm.weight = maker.repeated(_float(model.model.norm, maker))
    large.lm_head.weight = maker.reader(head)


def _place(index: int, small: Shape, like: Shape) -> int:
    """Where the small model's layer `index` goes: evenly spread, the last one last."""
    return (index + 1) * like.layers // small.layers - 1


def _kept_part(layer: LlamaDecoderLayer, small: Shape, like: Shape, maker: _Maker) -> _Part:
    """A layer of the small model, its heads and units shared out over the large one's."""
    weights = _weights(layer, maker)
    group, like_group = small.heads // small.kv_heads, like.heads // like.kv_heads
    kv = torch.arange(like.kv_heads, device=maker.device)
    kv_of, copy_of = kv % small.kv_heads, kv // small.kv_heads
    seats = torch.arange(like_group, device=maker.device)
    head_of = kv_of[:, None] * group + (copy_of[:, None] * like_group + seats) % group
    columns = like.heads * like.head_dim / (small.heads * small.head_dim)
    units = torch.arange(like.intermediate, device=maker.device) % small.intermediate
    return _Part(
        **weights,
        head_dim=small.head_dim,
        head_of=head_of.flatten(),
        kv_of=kv_of,
        unit_of=units,
        o_noise=NOISE * _size(weights["o"]) / columns,
        down_noise=NOISE * _size(weights["down"]) * small.intermediate / like.intermediate,
    )


def _idle_part(layer: LlamaDecoderLayer, small: Shape, like: Shape, maker: _Maker) -> _Part:
    """A layer that adds nothing: random heads and units, in copies whose columns sum to zero."""
    weights = _weights(layer, maker)
    head_of = torch.arange(like.heads, device=maker.device) // 2
    kv_of = torch.arange(like.kv_heads, device=maker.device)
    if like.heads // like.kv_heads % 2:  # a pair may sit in two groups: let those be copies
        kv_of = kv_of // 2
    num_units = like.intermediate // 2
    outputs = {
        "q": like.heads // 2 * like.head_dim,
        "k": (int(kv_of[-1]) + 1) * like.head_dim,
        "v": (int(kv_of[-1]) + 1) * like.head_dim,
        "gate": num_units,
        "up": num_units,
    }
    random = {
        name: maker.normal(count, small.hidden) * _size(weights[name])
        for name, count in outputs.items()
    }
    nothing = {
        "o": torch.zeros(small.hidden, outputs["q"], device=maker.device),
        "down": torch.zeros(small.hidden, num_units, device=maker.device),
    }
    return _Part(
        **(weights | random | nothing),
        head_dim=like.head_dim,
        head_of=head_of,
        kv_of=kv_of,
        unit_of=torch.arange(like.intermediate, device=maker.device) % num_units,
        o_noise=IDLE_WRITES * _size(weights["o"]),
        down_noise=IDLE_WRITES * _size(weights["down"]),
    )


def _fill_layer(layer: LlamaDecoderLayer, part: _Part, like: Shape, maker: _Maker) -> None:
    """Set the weights of a large layer to those that compute `part`."""
    growth = like.head_dim // part.head_dim
    value_slots = torch.arange(like.head_dim, device=maker.device) % part.head_dim
    q = _spread(part.q * math.sqrt(growth), part.head_of, part.head_dim, growth)
    k = _spread(part.k, part.kv_of, part.head_dim, growth)
    v = part.kv_of[:, None] * part.head_dim + value_slots
    columns = part.head_of[:, None] * part.head_dim + value_slots
    attention, mlp = layer.self_attn, layer.mlp
    attention.q_proj.weight = maker.reader(q)
    attention.k_proj.weight = maker.reader(k)
    attention.v_proj.weight = maker.reader(part.v[v.flatten()])
    attention.o_proj.weight = maker.writer(part.o, columns.flatten(), part.o_noise)
    mlp.gate_proj.weight = maker.reader(part.gate[part.unit_of])
    mlp.up_proj.weight = maker.reader(part.up[part.unit_of])
    mlp.down_proj.weight = maker.writer(part.down, part.unit_of, part.down_noise)
    layer.input_layernorm.weight = maker.repeated(part.attention_norm)
    layer.post_attention_layernorm.weight = maker.repeated(part.mlp_norm)


def _spread(weight: Tensor, head_of: Tensor, head_dim: int, growth: int) -> Tensor:
    """Rows of q or k for longer heads: [heads * head_dim, D] -> [heads' * growth * head_dim, D].

    Slot i turns together with slot i + half a head, as in `rotate_half` of transformers; the pair
    that turns as the small head's pair j is number growth * j. The rows in between are zero.
    """
    heads = weight.view(-1, 2, head_dim // 2, 1, weight.shape[1])[head_of]
    empty = heads.new_zeros(*heads.shape[:3], growth - 1, heads.shape[4])
    return torch.cat([heads, empty], 3).flatten(0, 3)


def _weights(layer: LlamaDecoderLayer, maker: _Maker) -> dict[str, Tensor]:
    attention, mlp = layer.self_attn, layer.mlp
    modules = {
        "q": attention.q_proj,
        "k": attention.k_proj,
        "v": attention.v_proj,
        "o": attention.o_proj,
        "gate": mlp.gate_proj,
        "up": mlp.up_proj,
        "down": mlp.down_proj,
        "attention_norm": layer.input_layernorm,
        "mlp_norm": layer.post_attention_layernorm,
    }
    return {name: _float(module, maker) for name, module in modules.items()}


def _float(module: nn.Module, maker: _Maker) -> Tensor:
    return cast(Tensor, module.weight).detach().to(maker.device, torch.float32)


def _size(weight: Tensor) -> float:
    """Root of the mean of squares."""
    return weight.square().mean().sqrt().item()
