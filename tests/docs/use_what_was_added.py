"""A program for the copy that the recipes of CONTRIBUTING.md were followed on: everything is used.

A pair of tables is profiled; plans are made with the new verifier, and with the new solver for the
new policy; they are shown, decoded and exported.
"""

from __future__ import annotations

import os
import tempfile

import numpy as np
import torch
from click.testing import CliRunner

from planner.cli import main
from planner.documents.sampling import Sampling
from planner.optimizer import solve
from planner.optimizer.choice import Question, rank_candidates
from planner.plans.plan import Plan
from profiler import Pair, Settings, measure_profile
from profiler.times import sweeps
from runtime import TableModel, decode_prompts

V, TOKENS = 6, 12


def small_pair() -> Pair:
    """Two related tables: the next token depends on the two before."""
    rng = torch.Generator().manual_seed(1)
    target = 2 * torch.randn(V, V, V, generator=rng, dtype=torch.float64)
    noise = torch.randn(V, V, V, generator=rng, dtype=torch.float64)
    return Pair(TableModel(target, name="target"), TableModel(0.6 * target + noise, name="draft"))


def planner(*words: str) -> str:
    """The output of a command."""
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return result.output


def use() -> None:
    """Profile, plan, show, decode, export."""
    # Nothing is asked of the times.
    sweeps.WARM_UP_MS, sweeps.COLD_MS, sweeps.NUM_COLD = 0.0, 0.01, 1
    pair, rng = small_pair(), np.random.default_rng(0)
    settings = Settings(
        samplings=(Sampling(temperature=1.0),), contexts=(4,), max_nodes=8, num_tokens=TOKENS,
        num_ranks=4, repeats=2,
    )  # fmt: skip
    prompts = rng.integers(V, size=(16, 4)).tolist()
    profile = measure_profile(pair, prompts, settings)
    profile.save("profile.json")
    assert "guess" in {entry.verifier for entry in profile.acceptance}

    solve(profile, verifier="guess", solver="chain").save("guess.json")
    guess = Plan(
        drafting={"kind": "tree", "parents": [-1, 0, 1]}, verifier="guess",
        sampling={"temperature": 1.0},
    )  # fmt: skip
    found = rank_candidates(profile, Question(solver="hedge", verifier="rrsw"))
    settled = next(each for each in found if each.drafting.kind == "hedge")
    hedge = Plan(drafting=settled.drafting, verifier="rrsw", sampling={"temperature": 1.0})
    assert settled.tokens_per_step.value > 1
    for plan in (guess, hedge):
        plan.save("plan.json")
        assert plan.drafting.words() in planner("show", "plan.json").replace("\n", " ")
        report = decode_prompts(plan, pair.target, pair.draft, prompts, max_new_tokens=TOKENS)
        assert report.measured.num_accepted > 0

    guess.model_copy(update={"verifier": "topk"}).save("plan.json")
    assert planner("export", "plan.json", "--to", "outline").startswith("[-1, 0, 1]")
    planner("solve", "profile.json", "--verifier", "guess", "-o", "again.json")
    assert Plan.load("again.json").verifier == "guess"
    planner("solve", "profile.json", "--solver", "hedge", "-o", "again.json")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        use()
    print("guess, hedge and outline work")
