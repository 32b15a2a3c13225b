"""The origin of numbers: which models, on which machine, run in which way."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from .document import Count, Part

LOOKUP = "lookup"
"""The name of the draft that has no weights: the text's own n-grams."""
BESIDE_LOOKUP = "+lookup"
"""The end of the name of a draft model that has look-up beside it."""


def looks_up(draft: str) -> bool:
    """Does the draft of this name look up what it offers, alone or beside a model?"""
    return draft == LOOKUP or draft.endswith(BESIDE_LOOKUP)


class ModelInfo(Part):
    """One language model: its name and shape."""

    name: str
    fingerprint: str = Field(
        description="SHA-256 over shape and sampled weights; empty: nobody read the weights"
    )
    num_parameters: int = Field(ge=0)
    vocab_size: Count
    max_positions: Count
    hidden_size: int | None = None
    num_layers: int | None = None
    inflated_from: dict[str, Any] | None = Field(
        default=None, description="shape of the small model that this one computes, if any"
    )
    matched_from: dict[str, Count] | None = Field(
        default=None,
        exclude_if=lambda matched: matched is None,
        description="of a draft put into its target's tokens: the size of its own vocabulary, and "
        "how many tokens are in both",
    )

    @property
    def is_lookup(self) -> bool:
        """Is it the text's own n-grams, and no model?"""
        return self.name == LOOKUP


class Machine(Part):
    """The machine that times were measured on."""

    platform: str
    cpu: str
    num_threads: Count
    device: str
    gpu: str | None = None
    driver: str | None = None
    python: str
    torch: str
    transformers: str


class CostsOrigin(Part):
    """The source of times that were not measured beside the acceptance that they stand with."""

    source: str = Field(min_length=1, description="whose times these are, in a sentence")
    predicted: bool = Field(
        default=False, description="computed from what a machine could do at best, not measured"
    )
    sha256: str = Field(description="of the document that they were read from")
    profiled: bool = Field(
        default=False, description="measured by a profile, on the machine that is named here"
    )

    def __str__(self) -> str:
        return f"{'predicted, not measured' if self.predicted else 'given'}: {self.source}"


class Execution(Part):
    """How the models were run."""

    dtype: str
    attention: str
    cuda_graphs: bool = False
    target_memory: float | None = Field(
        default=None,
        ge=0,
        exclude_if=lambda memory: memory is None,
        description="GB that the target's layers might take, where the others were read in every "
        "pass",
    )
    tensor_parallel: int | None = Field(
        default=None,
        ge=2,
        exclude_if=lambda processes: processes is None,
        description="processes that the target's weights were split over, each on its own device",
    )

    @property
    def flags(self) -> list[str]:
        """The words of `planner profile` that ask for weights of the same type, held likewise."""
        words = [f"--dtype={self.dtype}"]
        if self.target_memory is not None:
            words += [f"--target-memory={self.target_memory:.17g}"]
        if self.tensor_parallel is not None:
            words += [f"--tensor-parallel={self.tensor_parallel}"]
        return words
