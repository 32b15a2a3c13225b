"""The identity of a measurement: what its pieces in a journal depend on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from planner.documents.pieces import Journal, Piece, discard_pieces, written_by_code
from runtime.machine import describe_execution, describe_machine
from runtime.pair import Pair

__all__ = ["Journal", "Piece", "discard_pieces", "identity_of", "measured_by"]

MEASURING = (
    "profiler",
    "engines",
    "runtime",
    "planner.verifiers",
    "planner.policies",
    "tree_kernels",
)
"""Packages whose sources decide what is measured."""


def identity_of(pair: Pair, prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The models, the machine that they are run on and how, and the prompts, as JSON data."""
    models = (pair.target, pair.draft)
    return {
        "target": pair.target.info.model_dump(),
        "draft": pair.draft.info.model_dump(),
        "machine": describe_machine(pair.target.device).model_dump(),
        "execution": [describe_execution(model).model_dump() for model in models],
        "prompts": [list(prompt) for prompt in prompts],
    }


@cache
def measured_by() -> str:
    """The code that measures, in one word (`written_by_code`): the verifiers may accept, and the
    passes may cost, something else since."""
    return written_by_code(MEASURING)
