"""A profile of nothing but assumptions: acceptance by a power law, times by a data sheet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from ..documents.arguments import count
from ..documents.counted import counted
from ..documents.document import PlannerError
from ..documents.given_costs import GivenCosts
from ..documents.model_shape import ModelShape
from ..documents.origin import Execution, Machine, ModelInfo
from ..documents.profile import Acceptance, Profile, PromptAcceptance
from ..documents.sampling import Sampling
from ..documents.version import WRITTEN_BY

VERIFIER = "rrsw"
"""The verifier that Sequoia's authors found to follow a power law (Figure 3)."""
UNKNOWN = "unknown"
"""Facts of a machine that nobody has looked at."""


@dataclass(frozen=True)
class PowerLaw:
    """P(k children are all rejected) = (1 - first) / k^exponent: Sequoia, Definition 3.5, as an
    equation, and with the first child's own chance."""

    first: float
    exponent: float
    num_ranks: int = 16

    def __post_init__(self) -> None:
        if not 0 < self.first < 1:
            raise PlannerError(f"acceptance: got {self.first}, expected a chance, above 0, below 1")
        if not 0 < self.exponent < 100:
            raise PlannerError(f"exponent: got {self.exponent}, expected a number above 0")
        count(self.num_ranks, "num_ranks", 1)

    @classmethod
    def near(cls, rejected: np.ndarray) -> PowerLaw:
        """The law through the first of `rejected` that is nearest to the others on a logarithmic
        scale, by least squares.

        rejected  float64 [num_ranks], two or more: P(k children are all rejected), above 0

        Raises PlannerError where that does not fall.
        """
        logs = np.log(np.arange(1, len(rejected) + 1))
        exponent = float(logs @ np.log(rejected[0] / rejected) / (logs @ logs))
        return cls(1 - float(rejected[0]), exponent, len(rejected))

    @property
    def rejected(self) -> np.ndarray:
        """float64 [num_ranks]: P(k children are all rejected), for k from 1."""
        return np.asarray((1 - self.first) * np.arange(1, self.num_ranks + 1) ** -self.exponent)

    @property
    def acceptance(self) -> np.ndarray:
        """float64 [num_ranks]: by rank, unconditional."""
        return -np.diff(np.append(1.0, self.rejected))

    def __str__(self) -> str:
        return (
            f"assumed, not measured: {counted(self.num_ranks, 'rank')}, all of k children "
            f"rejected with chance {1 - self.first:.4g} / k^{self.exponent:g}"
        )


def assumed_profile(
    target: ModelShape,
    draft: ModelShape,
    costs: GivenCosts,
    law: PowerLaw,
    *,
    sampling: Sampling,
    dtype: str,
) -> Profile:
    """The profile that solve takes where nobody has measured anything.

    sampling, dtype  that the acceptance is assumed for, and the costs are predicted for

    The acceptance stands in it twice, as if two prompts had shown it: it is taken to be exact.
    """
    prompt = PromptAcceptance(num_positions=1, acceptance=law.acceptance.tolist())
    machine = Machine(
        platform=UNKNOWN,
        cpu=UNKNOWN,
        num_threads=1,
        device=UNKNOWN,
        python=UNKNOWN,
        torch=UNKNOWN,
        transformers=UNKNOWN,
    )
    return Profile(
        written_by=WRITTEN_BY,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine,
        execution=Execution(dtype=dtype, attention=UNKNOWN),
        target=_info(target),
        draft=_info(draft),
        costs=[each.costs([VERIFIER]) for each in costs.costs],
        costs_from=costs.origin,
        acceptance=[
            Acceptance(
                sampling=sampling,
                verifier=VERIFIER,
                num_ranks=law.num_ranks,
                prompts=[prompt, prompt],
            )
        ],
        acceptance_from=str(law),
    )


def _info(shape: ModelShape) -> ModelInfo:
    return ModelInfo(
        name=shape.name,
        fingerprint="",
        num_parameters=shape.num_parameters,
        vocab_size=shape.vocab,
        max_positions=shape.max_positions,
        hidden_size=shape.hidden,
        num_layers=shape.layers,
    )
