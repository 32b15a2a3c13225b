"""How logits become the distribution that is sampled from."""

from __future__ import annotations

from pydantic import Field

from .document import Part


class Sampling(Part):
    """How both models' logits become distributions, in this order; the same for both models."""

    temperature: float = Field(ge=0, description="0 is greedy decoding")
    top_k: int = Field(default=0, ge=0, description="keep the k most probable tokens; 0 keeps all")
    top_p: float = Field(default=1.0, gt=0, le=1, description="nucleus mass; 1 keeps all")

    @property
    def is_greedy(self) -> bool:
        """Is the most probable token always taken?"""
        return self.temperature == 0

    @property
    def of_draft(self) -> Sampling:
        """The sampling of the draft's children: this, or its plain softmax where greedy, whose
        order is still of use."""
        return Sampling(temperature=1.0) if self.is_greedy else self

    def __str__(self) -> str:
        words = [f"T={self.temperature:g}"]
        words += [f"top-k={self.top_k}"] if self.top_k else []
        words += [f"top-p={self.top_p:g}"] if self.top_p < 1 else []
        return " ".join(words)
