"""Chains that end when the next token is unlikely to be accepted (SpecDec++)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from ..documents.counted import counted
from ..documents.head_card import STOPPING_SCORES, HeadFile, StoppingScore
from .chain_policy import ChainPolicy, ChainSettings
from .policy import ENTROPY, FEATURES, MAX_PROBABILITY, SCORE, Policy, Share

HEAD, CONFIDENCE, ENTROPY_SCORE, PROBABILITY = range(len(STOPPING_SCORES))
COLUMNS: dict[StoppingScore, tuple[str, ...]] = {
    "head": (FEATURES[SCORE],),
    "confidence": (FEATURES[MAX_PROBABILITY],),
    "entropy": (FEATURES[ENTROPY],),
    "probability": (),
}
"""The columns of `FEATURES` that each score looks at."""


class StoppingDrafting(ChainSettings):
    """A chain, continued while P(a token of it is rejected) <= `threshold` (SpecDec++).

    The probability that all are accepted is the product of one factor a token:
    `head`         what the trained head says of the token,
    `confidence`   the largest entry of the draft distribution that it was drawn from,
    `entropy`      exp(-H) of that distribution,
    `probability`  its own probability there.
    """

    kind: Literal["stopping"] = "stopping"
    score: StoppingScore
    threshold: Share = Field(description="stop once P(some token is rejected) exceeds this")
    head: HeadFile | None = None

    @model_validator(mode="after")
    def _head_where_it_is_used(self) -> StoppingDrafting:
        if (self.score == "head") != (self.head is not None):
            got = "none" if self.head is None else "one"
            raise ValueError(f"a head exactly where score is 'head', not {got} for {self.score!r}")
        return self

    @property
    def trained_head(self) -> HeadFile | None:
        return self.head

    def words(self) -> str:
        return (
            f"chains that end once {self.score} says that one in them is rejected with chance "
            f"{self.threshold:g}, at most {counted(self.max_depth, 'token')}"
        )

    def policy(self, *, deterministic: bool) -> Policy:
        return Stopping(self)


def factor(score: int, drawn: Any, features: Any) -> Any:
    """P(a drafted token is accepted), as a score has it: this text serves one token, many tokens
    in arrays, and compiled code.

    score     place in `STOPPING_SCORES`
    drawn     float, or float64 [w]: the token's probability where it was drawn
    features  float64 [F], or [F, w], by column of `FEATURES`: of the distribution that it was
              drawn from, but for the head's word, which is on the token that was read there

    Returns a float, or float64 [w].
    """
    if score == HEAD:
        return features[SCORE]
    if score == CONFIDENCE:
        return features[MAX_PROBABILITY]
    if score == ENTROPY_SCORE:
        return np.exp(-features[ENTROPY])
    return drawn


class Stopping(ChainPolicy):
    """Stop once 1 - (product of P(accepted) over the tokens) exceeds the threshold (SpecDec++).

    A draft pass over a token gives the head's word on that token, and the distribution from which
    the next one is drawn.  The head's word comes a pass later than the other scores, which are of
    that distribution; its word on the root, which was not drafted, counts for nothing.  What a pass
    has been spent on is drafted: the token that is drawn from the distribution joins the chain
    before the policy is asked, as in the paper's Algorithm 1.
    """

    def __init__(self, settings: StoppingDrafting) -> None:
        super().__init__(settings.max_depth)
        self.columns = COLUMNS[settings.score]
        self._score = STOPPING_SCORES.index(settings.score)
        self._least = 1 - settings.threshold
        self._all_accepted = 1.0

    def start(self, max_depth: int) -> None:
        super().start(max_depth)
        self._all_accepted = 1.0

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        if self._score != HEAD or nodes[0] > 0:
            self._all_accepted *= float(factor(self._score, drawn[0, 0], features[0]))
        self._continues = self._all_accepted >= self._least
