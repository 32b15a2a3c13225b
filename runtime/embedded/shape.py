"""The shape of a Llama: the numbers that decide what its forward pass costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner import PlannerError

if TYPE_CHECKING:
    from transformers import LlamaConfig


@dataclass(frozen=True)
class Shape:
    """Widths and counts, all in units of one: features, layers, heads, MLP units; and tokens of the
    vocabulary and positions, 0 where these are the model's own."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int = 0
    positions: int = 0

    def __post_init__(self) -> None:
        for name, size in vars(self).items():
            if size < 1 and name not in GROWN_NAMES:
                raise PlannerError(
                    f"got {name}={size} in a model's shape, expected a positive number; give every "
                    "size as 1 or more"
                )
        if self.heads % self.kv_heads:
            raise PlannerError(
                f"got heads={self.heads} and kv_heads={self.kv_heads} in a model's shape, expected "
                "heads to be a multiple of kv_heads; change one of them"
            )
        if self.hidden % self.heads:
            raise PlannerError(
                f"got hidden={self.hidden} and heads={self.heads} in a model's shape, expected "
                "hidden to be a multiple of heads, as transformers asks; change one of them"
            )
        if self.head_dim % 2:
            raise PlannerError(
                f"got head_dim={self.head_dim} in a model's shape, expected an even number, as "
                "rotary positions turn pairs; change head_dim"
            )

    @classmethod
    def of(cls, config: LlamaConfig) -> Shape:
        """The shape that a `LlamaConfig` describes; its other settings are left aside."""
        sizes = {size: getattr(config, name) for size, name in LLAMA_NAMES.items()}
        sizes["kv_heads"] = sizes["kv_heads"] or sizes["heads"]
        sizes["head_dim"] = sizes["head_dim"] or sizes["hidden"] // sizes["heads"]
        return cls(**sizes)

    @classmethod
    def parse(cls, text: str) -> Shape:
        """A row of SHAPES by name, or "hidden=512,layers=8,heads=8,intermediate=1408"; behind
        either, other sizes, such as "25M,vocab=32000,positions=16384".

        Left out, `kv_heads` is `heads` and `head_dim` is `hidden / heads`.
        """
        first, _, behind = text.partition(",")
        if first in SHAPES:
            return replace(SHAPES[first], **cls._sizes(behind, text)) if behind else SHAPES[first]
        sizes = cls._sizes(text, text)
        missing = {"hidden", "layers", "heads", "intermediate"} - sizes.keys()
        if missing:
            raise PlannerError(
                f"got the shape {text!r} without {', '.join(sorted(missing))}, expected hidden, "
                "layers, heads and intermediate; add what is missing"
            )
        sizes.setdefault("kv_heads", sizes["heads"])
        sizes.setdefault("head_dim", sizes["hidden"] // max(1, sizes["heads"]))
        return cls(**sizes)

    @classmethod
    def _sizes(cls, parts: str, text: str) -> dict[str, int]:
        """The sizes in "name=number,..."; `text` is all that was asked for."""
        sizes: dict[str, int] = {}
        for part in parts.split(","):
            name, _, number = part.partition("=")
            if name.strip() not in cls.__dataclass_fields__ or not number.strip().isdecimal():
                raise PlannerError(
                    f"got the shape {text!r}, expected one of {', '.join(SHAPES)} or sizes such as "
                    "'hidden=512,layers=8,heads=8,intermediate=1408'; see runtime/embedded/shape.py"
                )
            sizes[name.strip()] = int(number)
        return sizes

    def sizes(self) -> dict[str, int]:
        """The same numbers under the names that `LlamaConfig` gives them."""
        named = {name: getattr(self, size) for size, name in LLAMA_NAMES.items()}
        grown = {name: getattr(self, size) for size, name in GROWN_NAMES.items()}
        return named | {name: size for name, size in grown.items() if size}


LLAMA_NAMES = {
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "intermediate": "intermediate_size",
}
GROWN_NAMES = {"vocab": "vocab_size", "positions": "max_position_embeddings"}

SHAPES = {  # hidden, layers, heads, kv_heads, head_dim, intermediate
    "25M": Shape(512, 8, 8, 4, 64, 1408),
    "100M": Shape(1024, 8, 16, 8, 64, 3072),
    "tinyllama-1.1b": Shape(2048, 22, 32, 4, 64, 5632),
    "llama-2-7b": Shape(4096, 32, 32, 32, 128, 11008),
    "llama-3-8b": Shape(4096, 32, 32, 8, 128, 14336),
}
