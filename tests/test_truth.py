"""A plan's predictions are what is then measured: on table models, where only chance differs."""

import math
from functools import cache

import numpy as np
import pytest
import torch

from planner import Plan, Tree
from planner.documents.sampling import Sampling
from planner.estimates.evidence import recorded
from planner.estimates.step_costs import step_costs
from planner.optimizer.grading import grade
from planner.verifiers import VERIFIERS
from profiler import Pair, Settings, measure_profile
from runtime import TableModel, decode_prompts

V, NUM_TOKENS = 6, 24
TREES = {
    "chain": Tree([-1, 0, 1, 2]),
    "forked": Tree([-1, 0, 0, 1, 1, 2, 4]),
    "wide": Tree([-1, 0, 0, 0, 1, 1, 2, 4]),
}


def pair() -> tuple[TableModel, TableModel]:
    rng = torch.Generator().manual_seed(1)
    target = 2 * torch.randn(V, V, V, generator=rng, dtype=torch.float64)
    noise = torch.randn(V, V, V, generator=rng, dtype=torch.float64)
    return TableModel(target, name="target"), TableModel(0.6 * target + noise, name="draft")


@cache
def profile(num_prompts):
    rng = np.random.default_rng(0)
    settings = Settings(
        samplings=(Sampling(temperature=0.0), Sampling(temperature=1.0)),
        contexts=(4,), max_nodes=8, num_tokens=NUM_TOKENS, num_ranks=4, repeats=2,
    )  # fmt: skip
    return measure_profile(Pair(*pair()), rng.integers(V, size=(num_prompts, 4)).tolist(), settings)


CASES = [(0.0, "topk"), (0.0, "rrsw"), *((1.0, verifier) for verifier in VERIFIERS)]


def served(verifier: str) -> list[str]:
    """Trees with no more children than a verifier serves; the widest last."""
    most = VERIFIERS[verifier].max_children or V
    return [name for name, tree in TREES.items() if tree.num_children.max() <= most]


@pytest.mark.parametrize(
    ("temperature", "verifier", "name", "num_prompts"),
    [(*case, served(case[1])[-1], 40) for case in CASES]
    + [
        pytest.param(*case, name, 200, marks=pytest.mark.soak)
        for case in CASES
        for name in served(case[1])
    ],
)
def test_predicted_tokens_per_step_are_measured(name, temperature, verifier, num_prompts):
    """Fresh prompts, the same lengths: within 5 standard errors of both sides together.

    Each verifier with the widest tree that it serves, which is as deep as any; in `make soak` with
    every one, and more prompts.
    """
    tree = TREES[name]
    facts = profile(num_prompts)
    (entry,) = (
        each
        for each in facts.acceptance
        if (each.sampling.temperature, each.verifier) == (temperature, verifier)
    )
    plan = Plan(
        drafting={"kind": "tree", "parents": tree.parents.tolist()}, verifier=entry.verifier,
        sampling=entry.sampling,
    )  # fmt: skip
    predicted = grade(tree, recorded(facts, entry), step_costs(facts)).tokens_per_step
    prompts = np.random.default_rng(99).integers(V, size=(num_prompts, 4)).tolist()
    report = decode_prompts(plan, *pair(), prompts, max_new_tokens=NUM_TOKENS)
    steps = np.array([len(each.tokens_by_step) for each in report.continuations])
    measured = report.measured.tokens_per_step
    assert measured == NUM_TOKENS * len(prompts) / steps.sum()
    # tokens are the same for every prompt, so the ratio's error is the mean number of steps' error
    measured_error = measured * steps.std() / steps.mean() / math.sqrt(len(steps))
    predicted_error = (predicted.high - predicted.low) / (2 * 1.96)
    assert abs(measured - predicted.value) <= 5 * math.hypot(measured_error, predicted_error)
