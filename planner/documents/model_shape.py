"""The shape of a language model, from its config.json: what its passes read and compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import PlannerError

NAMES = {
    "vocab": "vocab_size",
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "intermediate": "intermediate_size",
    "max_positions": "max_position_embeddings",
}
"""Field -> its key in config.json; all of them have to be there."""
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Values of `model_type` whose parameters are counted: gated MLPs, no experts."""


@dataclass(frozen=True)
class ModelShape:
    """Counts and widths of a model that consists of layers of attention and a gated MLP."""

    name: str
    vocab: int
    hidden: int
    layers: int
    heads: int
    intermediate: int
    max_positions: int
    kv_heads: int
    head_dim: int
    is_tied: bool
    """Are input and output embeddings one matrix?"""
    qkv_biases: bool = False
    other_biases: int = 0
    """Further biases of a layer: of the attention's output, and of the MLP."""
    normed_heads: bool = False
    """Are queries and keys normed, each with weights of `head_dim`?"""

    @classmethod
    def of(cls, config: Mapping[str, Any], name: str) -> ModelShape:
        """The shape that the content of a config.json describes.

        name  of the model, in this shape and in errors

        Raises PlannerError for a family that is none of `FAMILIES`, and for what is missing.
        """
        family = config.get("model_type")
        if family not in FAMILIES:
            raise PlannerError(
                f"{name}: model_type: got {family!r}, expected one of {', '.join(FAMILIES)}, whose "
                "parameters can be counted; write a costs document by hand (planner schema costs)"
            )
        sizes = {field: count_in(config, key, name) for field, key in NAMES.items()}
        heads, hidden = sizes["heads"], sizes["hidden"]
        kv_heads = count_in(config, "num_key_value_heads", name, default=heads)
        head_dim = count_in(config, "head_dim", name, default=hidden // heads)
        is_biased = bool(config.get("attention_bias", False))
        others = hidden if is_biased else 0
        if config.get("mlp_bias", False):
            others += 2 * sizes["intermediate"] + hidden
        return cls(
            name=name,
            **sizes,
            kv_heads=kv_heads,
            head_dim=head_dim,
            is_tied=bool(config.get("tie_word_embeddings", False)),
            qkv_biases=is_biased or family == "qwen2",
            other_biases=others,
            normed_heads=family == "qwen3",
        )

    @property
    def layer_weights(self) -> int:
        """Entries of a layer's matrices."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate

    @property
    def multiplied(self) -> int:
        """Entries of all matrices that every token is multiplied by: the layers', and the output
        embeddings; not the input embeddings, of which a token reads one row."""
        return self.layers * self.layer_weights + self.vocab * self.hidden

    @property
    def num_parameters(self) -> int:
        """All of them, input embeddings, norms and biases too."""
        vectors = 2 * self.hidden + self.other_biases
        vectors += self.head_dim * (self.heads + 2 * self.kv_heads) if self.qkv_biases else 0
        vectors += 2 * self.head_dim if self.normed_heads else 0
        embeddings = 0 if self.is_tied else self.vocab * self.hidden
        return self.multiplied + embeddings + self.layers * vectors + self.hidden

    @property
    def kv_entries(self) -> int:
        """Numbers that the cache keeps of one token."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def count_in(config: Mapping[str, Any], key: str, name: str, *, default: int | None = None) -> int:
    """The whole number under `key` of the config.json of the model `name`.  Raises PlannerError."""
    value = config.get(key)
    if value is None and default is not None:
        return default
    if type(value) is not int or value < 1:
        got = "missing" if value is None else f"got {value!r:.40}"
        raise PlannerError(f"{name}: {key}: {got}; expected a whole number, 1 or more")
    return value
