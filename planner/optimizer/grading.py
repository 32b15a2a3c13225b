"""Grading: what is a way of drafting worth?  The same two questions for every candidate.

Tokens per step over milliseconds per step.  A tree that every step drafts alike: tokens from the
recorded acceptance, time from the cost tables.  Trees that grow while they are drafted: both from
rounds played on recorded trees (`replay`), where tokens are noisier.  To stand beside each other,

    tokens(grown) = tokens(control) * played(grown) / played(control),

the control being a fixed tree under the same verifier: what the recorded trees happen to be better
or worse than the texts at large moves both factors of the quotient alike, and drops out of it.

Settings that were searched suit the texts that they were searched on.  What their like, searched on
other texts, reaches is their speed (`choice`); their step is their own, as it depends on the draft
alone; and their tokens are what that speed at that step amounts to, one at least.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..documents.estimate import Estimate
from ..documents.tree import Tree
from ..estimates.bootstrap import foreseen
from ..estimates.evidence import Evidence, Prediction
from ..estimates.intervals import at_least, product, relative
from ..estimates.step_costs import StepCosts, speedup
from ..plans.plan import Predicted, PredictedSteps
from ..policies import Drafting, TreeDrafting
from ..replay.replays import Played, Replays
from ..verifiers import VERIFIERS

EXACTLY_ONE = Estimate(value=1.0, low=1.0, high=1.0)


@dataclass(frozen=True)
class Candidate:
    """A way of drafting under a verifier, graded."""

    solver: str
    verifier: str
    drafting: Drafting
    tokens_per_step: Estimate
    step_ms: Estimate
    autoregressive_ms: Estimate
    speedup: Estimate
    prediction: Prediction | None = None
    """Its steps on the texts; None where trees grow."""
    played: Played | None = None
    """Its rounds on the recorded trees, where trees grow."""

    @property
    def tree(self) -> Tree:
        """The tree of every step.  Raises TypeError where trees grow."""
        if isinstance(self.drafting, TreeDrafting):
            return self.drafting.tree
        raise TypeError(f"{self.drafting.kind}: every step has a tree of its own")

    @property
    def grows(self) -> bool:
        """Is every step's tree decided on while it is drafted?"""
        return not isinstance(self.drafting, TreeDrafting)

    @property
    def speculates(self) -> bool:
        return self.drafting.most_nodes > 1

    @property
    def num_nodes(self) -> float:
        """Verified by a step, on average."""
        if self.played is None:
            return float(self.drafting.most_nodes)
        return float(self.played.sizes @ np.arange(len(self.played.sizes)))

    @property
    def depth(self) -> float:
        """Levels below the root, on average."""
        if self.played is None:
            return float(self.tree.depth)
        return float(self.played.depths @ np.arange(len(self.played.depths)))

    @property
    def tokens_per_ms(self) -> float:
        """Speed, which candidates are chosen by."""
        return self.tokens_per_step.value / self.step_ms.value

    @property
    def predicted(self) -> Predicted:
        """The prediction of a plan that drafts like this."""
        inside = self.prediction
        return Predicted(
            tokens_per_step=self.tokens_per_step,
            step_ms=self.step_ms,
            autoregressive_ms=self.autoregressive_ms,
            speedup=self.speedup,
            acceptance=None if inside is None else inside.acceptance.tolist(),
            reach=None if inside is None else inside.reach.tolist(),
            steps=None if self.played is None else _steps(self.played),
        )


def grade(
    tree: Tree, evidence: Evidence, costs: StepCosts, *, solver: str = "", verifier: str = ""
) -> Candidate:
    """The candidate that drafts `tree`: what it would emit and cost.

    evidence  what was recorded of its verifier

    Raises PlannerError if the tree is larger, wider or bushier than what was measured.
    """
    prediction = evidence.predict(tree)
    step = costs.step(tree)
    gain = EXACTLY_ONE  # a lone root is autoregressive decoding itself
    if tree.num_nodes > 1:
        gain = speedup(prediction.tokens_per_step, step, costs.autoregressive)
    return Candidate(
        solver=solver,
        verifier=verifier,
        drafting=TreeDrafting(parents=tree.parents.tolist()),
        tokens_per_step=prediction.tokens_per_step,
        step_ms=step.estimate,
        autoregressive_ms=costs.autoregressive.estimate,
        speedup=gain,
        prediction=prediction,
    )


def grade_grown(
    drafting: Drafting, played: Played, replays: Replays, *, control: Candidate | None
) -> Candidate:
    """The candidate that grows its trees by `drafting`: what these would emit and cost.

    played   rounds of it, or of its like, on `replays`: how fast it is
    control  a fixed tree under the same verifier, graded; None: the rounds played are all there is

    Texts are the samples of the bootstrap, the same for all; the errors of the control, of the
    quotient and of the measured times are added in squares on the logarithmic scale.
    """
    costs = played.costs
    own = Played.of(drafting, replays, costs)
    base = None if control is None else Played(replays.play(control.drafting), costs)
    known = EXACTLY_ONE if control is None else control.tokens_per_step
    ms = own.step_samples()
    gain, speed = played.samples() / played.step_samples(), played.tokens_per_ms
    if base is not None:
        gain, speed = gain / base.samples(), speed / base.tokens_per_step
    step, alone = own.step, costs.autoregressive.estimate
    speed = max(speed, 1 / (known.value * step.ms))  # a step emits a token
    most, num_texts = float(drafting.most_nodes), replays.num_texts

    def sampled(number: float, samples: np.ndarray) -> Estimate:
        return foreseen(number, samples, num_texts, least=number / most, most=number * most)

    return Candidate(
        solver="",
        verifier="",
        drafting=drafting,
        tokens_per_step=at_least(1.0, product(known, sampled(speed * step.ms, gain * ms))),
        step_ms=product(sampled(step.ms, ms), relative(step.estimate)),
        autoregressive_ms=alone,
        speedup=product(known, sampled(speed, gain), relative(step.estimate), alone),
        played=own,
    )


def order(candidate: Candidate) -> tuple[float, bool, int, bool, str, str, str]:
    """A key to sort by, the best first: tokens per millisecond; ties go to fixed trees, then to
    fewer nodes, then to verifiers that need no sampling, then to the first name."""
    return (
        -candidate.tokens_per_ms,
        candidate.grows,
        candidate.drafting.most_nodes,
        not VERIFIERS[candidate.verifier].deterministic,
        candidate.verifier,
        candidate.solver,
        candidate.drafting.model_dump_json(),
    )


def _steps(played: Played) -> PredictedSteps:
    return PredictedSteps(
        nodes=_shares(played.sizes),
        depth=_shares(played.depths),
        draft_passes=played.passes_per_step,
        discard_rate=played.discard_rate,
        verification_rate=played.verification_rate,
        cut_short=round(played.cut_short, 4),
    )


def _shares(shares: np.ndarray) -> list[float]:
    """The shares up to the last that is not zero, to four digits."""
    return [round(share, 4) for share in np.trim_zeros(shares, "b").tolist()]
