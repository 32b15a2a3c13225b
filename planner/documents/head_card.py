"""The card in the file of a trained acceptance head (SpecDec++, sections 4.4 and 5).

The weights lie in a safetensors file; this document is its metadata, so that a head cannot be
parted from the draft, the sampling and the data that it was trained for.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from .document import Count, Document, Part, Probability
from .estimate import Estimate
from .origin import Execution, Machine, ModelInfo
from .sampling import Sampling

NonNegative = Annotated[float, Field(ge=0)]

StoppingScore = Literal["head", "confidence", "entropy", "probability"]
"""Scores that may end a chain, as in a plan of kind "stopping"."""
STOPPING_SCORES: tuple[StoppingScore, ...] = get_args(StoppingScore)


class HeadFile(Part):
    """A trained acceptance head, by name and content."""

    file: str
    sha256: str


class HeadShape(Part):
    """`depth` residual blocks of `hidden_size` units, then one output."""

    hidden_size: Count
    depth: int = Field(ge=0)


class HeadTraining(Part):
    """How a head was trained."""

    reject_weight: float = Field(gt=0, description="of the rejected part of the loss; accepted: 1")
    mix: float | None = Field(
        ge=0, lt=1,
        description="share of the target's tokens among those that the draft reads; null: all that "
        "stand before a drafted token, as in decoding",
    )  # fmt: skip
    epochs: Count
    batch_size: int = Field(ge=1, description="texts per step")
    learning_rate: float = Field(gt=0, description="of the first step; a cosine from there to 0")
    seed: int = Field(ge=0)


class HeadData(Part):
    """The texts that a head was trained on and tried on; no prompt is on both sides."""

    prompts_sha256: str = Field(description="of the token ids of all prompts, in order")
    num_prompts: Count
    num_texts: Count
    num_tokens: int = Field(ge=1, description="written by the target")
    mean_acceptance: Probability = Field(description="of a drafted token")
    held_out_prompts: Count
    held_out_texts: Count
    held_out_tokens: Count


class CalibrationBin(Part):
    """Held-out tokens of similar score."""

    num_tokens: Count
    score: Probability = Field(description="what the head says, mean")
    predicted: Probability = Field(description="the same with the loss's weight undone, mean")
    accepted: Probability = Field(description="exact acceptance min(1, p/q), mean")


class StoppingPoint(Part):
    """One way of stopping at one setting along the held-out texts (SpecDec++, section 5.1)."""

    setting: float = Field(description="threshold h; of fixed lengths the number of tokens")
    discard_rate: NonNegative = Field(description="tokens drafted in vain per token emitted")
    verification_rate: Probability = Field(description="target passes per token emitted")


class StoppingCurve(Part):
    """All settings of one way of stopping."""

    rule: str = Field(description="the score that stops chains, or 'fixed'")
    points: list[StoppingPoint]


class StoppingComparison(Part):
    """Ways of stopping that verify as often as chains of one length, by interpolating their curves.

    One that reaches no such rate is left out.
    """

    num_drafted: int = Field(ge=1, description="the fixed length")
    verification_rate: Probability
    discard_rate: NonNegative = Field(description="of the fixed length")
    change: dict[str, Estimate] = Field(
        description="by score: its discard rate over that of the fixed length, minus 1"
    )


class HeadEvaluation(Part):
    """Scores on held-out prompts, of every drafted token behind the target's own text, as in
    decoding."""

    kl: float = Field(description="binary KL divergence of the scores from the exact acceptance")
    kl_unweighted: float = Field(description="the same with the loss's weight undone")
    kl_constant: float = Field(description="of one constant, the mean acceptance in training")
    calibration: list[CalibrationBin] = Field(description="ten bins of equally many tokens")
    max_drafted: int = Field(ge=1, description="longest chain in the simulation")
    stopping: list[StoppingCurve]
    compared: list[StoppingComparison]


class HeadCard(Document):
    """A head's provenance: whose hidden states it reads, what it predicts, how well."""

    format: Literal["acceptance-head"] = "acceptance-head"
    version: Literal[1] = 1
    target: ModelInfo
    draft: ModelInfo
    sampling: Sampling
    shape: HeadShape
    training: HeadTraining
    data: HeadData
    losses: list[float] = Field(
        description="mean weighted loss over consecutive stretches of the training steps"
    )
    evaluation: HeadEvaluation
    machine: Machine
    execution: Execution = Field(
        description="how the draft was run; its hidden states depend on it"
    )
    weights_sha256: str
