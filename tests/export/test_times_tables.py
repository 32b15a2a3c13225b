"""Tables of measured times say what was measured, in the form that each engine reads."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from planner import PlannerError
from planner.documents.engine import EngineFacts
from planner.estimates.additive_times import Pass, fitted
from planner.export import export
from planner.optimizer import solve
from tests.optimizer import factory
from tests.optimizer.choosing import random_traces

from .made_up import costs, profile_at


def shares_of(content: str) -> list[float]:
    (listed,) = re.fullmatch(r'export GGML_BATCH_COSTS="([0-9.,e-]+)"\n', content).groups()
    return [float(share) for share in listed.split(",")]


def timed(*every):
    """A profile of these times, and a plan that says of none of them that it was made from it."""
    return factory.profile([random_traces(0, "topk")], list(every))


@pytest.fixture
def bare(plan):
    return plan.model_copy(update={"made_from": None})


def test_llamacpps_costs_are_shares_of_a_pass(profile, plan):
    """Entry n, times n, is how many times a pass over one token that over n takes."""
    result = export(plan, "llamacpp-costs", profile=profile)
    shares = shares_of(result.content)
    curve = profile.costs[0].verify
    assert shares[0] == 1
    assert len(shares) == curve.counts[-1]
    times = [share * n for n, share in enumerate(shares, start=1)]
    assert times == pytest.approx([ms / curve.median_ms[0] for ms in curve.median_ms], rel=1e-3)
    assert result.plan is None
    assert any("a proposal (llama.cpp pull request 17034, open)" in note for note in result.notes)
    assert any("passes of this runtime at context 128" in note for note in result.notes)
    assert any("planner profile --engine llamacpp" in note for note in result.notes)


def test_llamacpps_costs_keep_a_staircase(bare):
    """llama.cpp's own: a pass over 9 tokens may be cheaper than one over 8."""
    stairs = {n: 3.0 + n for n in range(1, 9)} | {9: 6.5}
    profile = timed(factory.costs(verify=stairs.__getitem__, counts=list(stairs)))
    shares = shares_of(export(bare, "llamacpp-costs", profile=profile).content)
    assert shares == pytest.approx([ms / (n * 4.0) for n, ms in stairs.items()], rel=1e-3)
    engine = EngineFacts(
        name="llamacpp", version="1", verifier="topk", solvers=["chain"], most_tokens=8,
        target="t.gguf", draft="d.gguf",
    )  # fmt: skip
    own = profile.model_copy(update={"engine": engine})
    notes = export(bare, "llamacpp-costs", profile=own).notes
    assert any("passes of llamacpp at" in note for note in notes)
    assert not any("--engine" in note for note in notes)


def test_llamacpps_costs_need_a_pass_over_one_token(bare):
    late = timed(factory.costs(counts=[2, 4, 8]))
    with pytest.raises(PlannerError, match="over 2 tokens and more, expected those over 1"):
        export(bare, "llamacpp-costs", profile=late)
    wide = timed(costs(4))
    with pytest.raises(PlannerError, match="batch_size: got 1, but the profile measured only 4"):
        export(bare, "llamacpp-costs", profile=wide)


def summed(table: dict, num_requests: int, num_tokens: int) -> float:
    """Seconds by an additive table, as SGLang reads it: linear between its points."""
    alpha = np.interp(num_requests, table["bs_probes"], table["alpha_seconds"])
    theta = np.interp(num_tokens, table["m_probes"], table["theta_seconds"])
    return float(table["bias_seconds"] + alpha + theta)


def test_a_sum_that_holds_is_found_again(bare):
    """5 ms, and .3 ms a request beside a staircase of the tokens: exact to the nanosecond."""

    def pass_of(batch_size: int):
        return factory.costs(
            verify=lambda n: 5 + 0.3 * batch_size + 0.2 * -(-n * batch_size // 8),
            counts=[1, 2, 3, 4, 6, 8, 12, 16], batch_size=batch_size,
        )  # fmt: skip

    profile = timed(*map(pass_of, (1, 2, 4)))
    result = export(bare, "sglang-sps-additive", profile=profile)
    table = json.loads(result.content)
    assert set(table) == {
        "bias_seconds", "bs_probes", "alpha_seconds", "m_probes", "theta_seconds",
    }  # fmt: skip
    assert table["bs_probes"] == [1, 2, 4]
    assert table["alpha_seconds"] == pytest.approx([0, 0.3e-3, 0.9e-3], abs=2e-9)
    assert table["m_probes"] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    assert table["theta_seconds"][-1] == pytest.approx(0.2e-3 * 7, abs=2e-9)
    assert summed(table, 2, 12) == pytest.approx((5 + 0.6 + 0.4) / 1000, abs=5e-9)
    assert any("by 0.0 % (root mean square of 24), and by 0.0 %" in note for note in result.notes)


def test_how_far_a_sum_is_off_is_said(profile, plan):
    """The made-up times are 10 + n b / 4: a sum of tokens alone, but for one pass of batch 4."""
    table = json.loads(export(plan, "sglang-sps-additive", profile=profile).content)
    assert table["alpha_seconds"] == pytest.approx([0, 0, 0], abs=1e-8)
    assert summed(table, 16, 16 * 5) == pytest.approx((10 + 16 * 5 / 4) / 1000, abs=1e-8)
    plain = {n: 10.0 + n for n in range(1, 17)}
    bent = plain | {3: 26.0}  # twice what a sum would say at 12 tokens: 10 + 12 / 4 = 13
    odd = timed(costs(1), factory.costs(verify=bent.__getitem__, counts=list(bent), batch_size=4))
    result = export(plan.model_copy(update={"made_from": None}), "sglang-sps-additive", profile=odd)
    (said,) = [note for note in result.notes if "off the measured times" in note]
    off, most = map(float, re.findall(r"by ([0-9.]+) %", said))
    assert 0 < off < most
    table = json.loads(result.content)
    measured = [(1, n, 10 + n / 4) for n in range(1, 17)] + [(4, 4 * n, bent[n]) for n in bent]
    errors = [abs(summed(table, b, m) * 1000 / ms - 1) for b, m, ms in measured]
    assert most == pytest.approx(100 * max(errors), abs=0.06)
    assert off == pytest.approx(100 * np.sqrt(np.mean(np.square(errors))), abs=0.06)
    assert "at batch size 4 and 12 tokens" in said


def test_one_batch_size_tells_nothing_of_requests(bare):
    profile = timed(costs(4))
    result = export(bare, "sglang-sps-additive", profile=profile)
    table = json.loads(result.content)
    assert (table["bs_probes"], table["alpha_seconds"]) == ([4], [0.0])
    for n, ms in zip(
        profile.costs[0].verify.counts, profile.costs[0].verify.median_ms, strict=True
    ):
        assert summed(table, 4, 4 * n) == pytest.approx(ms / 1000, abs=5e-9)
    assert any("only 4 was measured" in note for note in result.notes)


def test_batches_without_a_number_of_tokens_in_common_are_refused(bare):
    with pytest.raises(PlannerError, match="over 32 tokens and more at batch size 32, but over 16"):
        export(bare, "sglang-sps-additive", profile=timed(costs(1), costs(32)))


def test_batches_that_were_measured_elsewhere_are_left_out():
    profile = profile_at(0.6)
    few = [costs(1), costs(4), costs(16).model_copy(update={"context": 512})]
    profile = profile.model_copy(update={"costs": few})
    plan = solve(profile, solver="chain", verifier="topk")
    table = json.loads(export(plan, "sglang-sps-additive", profile=profile).content)
    assert table["bs_probes"] == [1, 4]


def random_passes(seed: int, spread: float) -> dict[int, list[Pass]]:
    rng = np.random.default_rng(seed)
    return {
        size: [Pass(size, size * n, rng.lognormal(0.0, spread)) for n in (1, 2, 4, 7, 8, 16)]
        for size in (1, 3, 8, 32)
    }


@pytest.mark.parametrize("seed", range(20))
def test_no_part_is_negative_and_the_bias_is_positive(seed):
    times = fitted(random_passes(seed, spread=0.3))
    assert times.bias_seconds > 0
    assert min(times.alpha_seconds) == min(times.theta_seconds) == 0
    assert times.bs_probes == sorted(set(times.bs_probes))
    assert times.m_probes == sorted(set(times.m_probes))


def test_times_without_any_order_are_refused():
    """SGLang refuses a bias that is not positive."""
    with pytest.raises(PlannerError, match="with no part that all of them have"):
        fitted(random_passes(13, spread=1.0))
