"""How long does a pass take over the tokens of many requests?  A sum of what each of them costs.

    t(b, m) = bias + alpha(b) + theta(m)

for b requests of m tokens in all; alpha and theta are linear between the points that they are
known at, and constant beyond.  They are fitted to measured passes by least squares of relative
errors, no part being negative; alpha and theta are 0 at the smallest number.  theta's points are
the numbers of tokens of the smallest batch, then those of larger ones that it did not reach: where
batches overlap, what they differ by is alpha.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from ..documents.document import PlannerError

_DIGITS = 9
"""Digits behind the point: nanoseconds."""


class Pass(NamedTuple):
    """A measured pass of the target."""

    num_requests: int
    num_tokens: int
    seconds: float


@dataclass(frozen=True)
class AdditiveTimes:
    """The time of a pass as a sum; the names are those of SGLang's table."""

    bias_seconds: float
    bs_probes: list[int]
    alpha_seconds: list[float]
    """Seconds by number of requests."""
    m_probes: list[int]
    theta_seconds: list[float]
    """Seconds by number of tokens."""

    def seconds(self, num_requests: int, num_tokens: int) -> float:
        """A pass over so many tokens of so many requests."""
        return float(
            self.bias_seconds
            + np.interp(num_requests, self.bs_probes, self.alpha_seconds)
            + np.interp(num_tokens, self.m_probes, self.theta_seconds)
        )


def fitted(passes: Mapping[int, Sequence[Pass]]) -> AdditiveTimes:
    """The sum that is nearest to what was measured.

    passes  by number of requests, each by number of tokens, ascending

    Raises PlannerError where a batch has no number of tokens in common with smaller ones: what
    its requests cost cannot be told from what its tokens do; and where there is no bias, which
    SGLang refuses.
    """
    sizes = sorted(passes)
    knots: list[int] = []
    for size in sizes:
        counts = [each.num_tokens for each in passes[size]]
        if knots and counts[0] > knots[-1]:
            raise PlannerError(
                f"profile: got passes over {counts[0]} tokens and more at batch size {size}, but "
                f"over {knots[-1]} at most at smaller ones, so that what a request costs cannot be "
                "told from what a token does; profile batch sizes nearer to each other"
            )
        knots += [count for count in counts if not knots or count > knots[-1]]
    every = [each for size in sizes for each in passes[size]]
    requests, tokens, seconds = (np.array(column) for column in zip(*every, strict=True))
    bias = np.ones((len(every), 1))
    alpha = requests[:, None] == np.array(sizes[1:])
    theta = np.stack([np.interp(tokens, knots, unit) for unit in np.eye(len(knots))], axis=1)
    design = np.hstack([bias, alpha, theta[:, 1:]])
    parts, _ = nnls(design / seconds[:, None], np.ones(len(every)))
    parts = np.round(parts, _DIGITS)
    if parts[0] == 0:
        raise PlannerError(
            "profile: got times of passes with no part that all of them have, so that they are no "
            "sum of it, the requests' and the tokens'; profile again, with more repetitions"
        )
    return AdditiveTimes(
        bias_seconds=float(parts[0]),
        bs_probes=sizes,
        alpha_seconds=[0.0, *parts[1 : len(sizes)].tolist()],
        m_probes=knots,
        theta_seconds=[0.0, *parts[len(sizes) :].tolist()],
    )
