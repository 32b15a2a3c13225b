"""The part of a plan's doubt that is the largest, and what would make it less."""

from __future__ import annotations

from math import hypot, log, sqrt

from ..documents.estimate import Estimate
from ..documents.profile import Profile
from ..plans.plan import Plan
from .thresholds import costs_of

REMEDIES = {
    "texts": "texts differ most; profile again with more prompts",
    "repeats": "repetitions of the times differ most; profile again with more repeats",
    "others": "other programs ran beside the profile; profile again while nothing else runs",
}
"""Parts of the doubt that another profile takes away: what they are, and what to do."""
SITTINGS = {
    "start": "one start of the engine differs most from the next",
    "sitting": "one sitting differs most from the next, however often times are repeated",
    "threads": "several threads differ most from one sitting to the next, however often times are "
    "repeated, and on one (--threads 1) less",
}
"""Parts that only a trial takes away."""


def widest_doubt(profile: Profile, plan: Plan) -> str:
    """The largest part of the doubt about the speedup of `plan`, which was made from `profile`, and
    what to do about it; "" where nothing is predicted.

    The errors of texts, of repeated times and of `SharedErrors` are independent, as in `speedup`.
    """
    predicted = plan.predicted
    if predicted is None:
        return ""
    shared = costs_of(profile, plan).shared
    times = hypot(_error(predicted.step_ms), _error(predicted.autoregressive_ms))
    parts = {
        **shared._asdict(),
        "texts": _error(predicted.tokens_per_step),
        "repeats": sqrt(max(times**2 - hypot(*shared) ** 2, 0.0)),
    }
    largest = max(parts, key=lambda name: parts[name])
    if largest in REMEDIES:
        return REMEDIES[largest]
    trial = "planner check tries it" if profile.engine else "planner decode --follow notices"
    return f"{SITTINGS[largest]}; {trial}"


def _error(number: Estimate) -> float:
    """The relative standard error behind a 95 % interval."""
    return log(number.high / number.low) / (2 * 1.96)
