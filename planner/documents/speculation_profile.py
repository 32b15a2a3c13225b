"""Acceptance by position as other people's tools write it: `speculation_profile.json`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from .document import Count, Part, Probability

HALF_DIGIT = 5e-4
"""The error of a rate that is rounded to three digits; writers give six."""


class SpeculationProfile(Part):
    """A file of schema 1.0, which Model-Optimizer of NVIDIA proposes; keys not named here are
    ignored.

    Rates are by position of the drafted token, the first one first.  Marginal: P(all drafted tokens
    up to this one are accepted); conditional: P(this one is | all before it were).
    """

    model_config = ConfigDict(extra="ignore")

    schema_version: Literal["1.0"]
    measured: Literal[True] = Field(description="false where somebody has yet to measure")
    producer: str | None = None
    method: str | None = None
    num_speculative_tokens: Count
    max_supported_k: Count | None = None
    verification_method: str | None = None
    conditional_accept_rates: list[Probability]
    marginal_accept_rates: list[Probability]
    mean_accept_length: Annotated[float, Field(ge=1)] = Field(
        description="tokens per step, bonus included"
    )
    accept_length_model: str | None = None
    accept_length_by_k: dict[str, float] | None = None
    measurement_conditions: dict[str, Any] | None = None

    @field_validator("conditional_accept_rates", "marginal_accept_rates")
    @classmethod
    def _one_a_position(cls, rates: list[float], info: ValidationInfo) -> list[float]:
        expected = info.data.get("num_speculative_tokens", len(rates))
        if len(rates) != expected:
            raise ValueError(f"num_speculative_tokens = {expected} rates, one a position")
        return rates

    @field_validator("marginal_accept_rates")
    @classmethod
    def _products(cls, rates: list[float], info: ValidationInfo) -> list[float]:
        product = 1.0
        conditional = info.data.get("conditional_accept_rates", ())
        for place, (each, rate) in enumerate(zip(conditional, rates, strict=False), start=1):
            product *= each
            if abs(rate - product) > (place + 1) * HALF_DIGIT:
                raise ValueError(
                    f"{product:.6g} at position {place}, the product of the conditional ones"
                )
        return rates
