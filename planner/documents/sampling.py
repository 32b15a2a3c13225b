"""How logits become the distribution that is sampled from."""

from __future__ import annotations

from pydantic import Field

from .document import Part


class Sampling(Part):
    """How both models' logits become distributions, in this order; the same for both models, but
    for the draft's temperature, if it has its own."""

    temperature: float = Field(ge=0, description="0 is greedy decoding")
    top_k: int = Field(default=0, ge=0, description="keep the k most probable tokens; 0 keeps all")
    top_p: float = Field(default=1.0, gt=0, le=1, description="nucleus mass; 1 keeps all")
    min_p: float = Field(
        default=0.0,
        ge=0,
        le=1,
        exclude_if=lambda share: share == 0,
        description="keep tokens of at least so much of the likeliest one's probability; 0 keeps "
        "all, and is not written down",
    )
    repetition_penalty: float = Field(
        default=1.0,
        gt=0,
        exclude_if=lambda penalty: penalty == 1,
        description="logits of tokens that the text holds already, prompt included, are divided by "
        "it where positive and multiplied where negative, before all else; 1 changes nothing, and "
        "is not written down",
    )
    draft_temperature: float | None = Field(
        default=None,
        gt=0,
        exclude_if=lambda own: own is None,
        description="the draft's own temperature; missing where it is the target's, or 1 if that "
        "is 0",
    )

    @property
    def is_greedy(self) -> bool:
        """Is the most probable token always taken?"""
        return self.temperature == 0

    @property
    def cuts(self) -> bool:
        """Are tokens left out that the temperature alone would leave possible?"""
        return not self.is_greedy and (self.top_k > 0 or self.top_p < 1 or self.min_p > 0)

    @property
    def penalizes(self) -> bool:
        """Does a distribution depend on which tokens the text holds already?"""
        return self.repetition_penalty != 1

    @property
    def of_draft(self) -> Sampling:
        """The sampling of the draft's children: this, at the draft's own temperature, or its plain
        softmax where greedy, whose order is still of use."""
        if self.is_greedy:
            return Sampling(
                temperature=self.draft_temperature or 1.0,
                repetition_penalty=self.repetition_penalty,
            )
        if self.draft_temperature is None:
            return self
        alone = {"temperature": self.draft_temperature, "draft_temperature": None}
        return self.model_copy(update=alone)

    @property
    def flags(self) -> str:
        """The options of `planner profile` that ask for it."""
        words = [f"--temperature {self.temperature:g}"]
        words += [
            f"--{name.replace('_', '-')} {getattr(self, name):g}"
            for name, usual in type(self).model_fields.items()
            if name != "temperature" and getattr(self, name) != usual.default
        ]
        return " ".join(words)

    def __str__(self) -> str:
        words = [f"T={self.temperature:g}"]
        words += [f"top-k={self.top_k}"] if self.top_k else []
        words += [f"top-p={self.top_p:g}"] if self.top_p < 1 else []
        words += [f"min-p={self.min_p:g}"] if self.min_p > 0 else []
        words += [f"penalty={self.repetition_penalty:g}"] if self.penalizes else []
        words += [f"draft T={self.draft_temperature:g}"] if self.draft_temperature else []
        return " ".join(words)
