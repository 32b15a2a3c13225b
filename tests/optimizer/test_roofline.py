"""Predicted times: the roofline's arithmetic, the table of data sheets, assumed acceptance."""

from __future__ import annotations

import numpy as np
import pytest

from planner import PlannerError, Profile
from planner.documents.model_shape import ModelShape
from planner.documents.sampling import Sampling
from planner.estimates.assumed_acceptance import PowerLaw, assumed_profile
from planner.estimates.data_sheets import DATA_SHEETS, DataSheet, data_sheet
from planner.estimates.roofline import Places, Roofline, predicted_costs
from planner.optimizer import expected_tokens, solve
from planner.show.papers.sequoia_claims import DEMO_ACCEPTANCE

SMALL = ModelShape("small", 50, 16, 2, 4, 24, 64, 2, 6, is_tied=True)
TINY = ModelShape("tiny", 50, 8, 1, 2, 8, 64, 1, 4, is_tied=False)
SLOW = DataSheet("slow", {"float32": 3e-9, "bfloat16": 6e-9}, 4e-6, 0.5, "made up")
"""3000 operations a second and 4000 bytes."""


def by_the_matrix(model: ModelShape, tokens: int, batch: int, context: int) -> tuple[int, int]:
    """The twin: (float32 bytes read, operations), matrix by matrix and request by request."""
    wide, narrow = model.heads * model.head_dim, model.kv_heads * model.head_dim
    layer = [(model.hidden, wide), (model.hidden, narrow), (model.hidden, narrow)]
    layer += [(wide, model.hidden)]
    layer += [(model.hidden, model.intermediate)] * 2 + [(model.intermediate, model.hidden)]
    matrices = layer * model.layers + [(model.hidden, model.vocab)]
    read = sum(4 * rows * columns for rows, columns in matrices)
    computed = sum(2 * rows * columns for rows, columns in matrices) * batch * tokens
    for _ in range(batch):
        for _ in range(model.layers):
            read += 2 * 4 * narrow * (context + tokens)
            for _ in range(tokens):
                for _ in range(model.heads):  # scores, and the sum of values
                    computed += 2 * 2 * model.head_dim * (context + tokens)
    return read, computed


@pytest.mark.parametrize("model", [SMALL, TINY])
@pytest.mark.parametrize(("tokens", "batch", "context"), [(1, 1, 0), (7, 1, 3), (5, 3, 10)])
def test_a_pass_takes_as_long_as_reading_or_computing(model, tokens, batch, context):
    read, computed = by_the_matrix(model, tokens, batch, context)
    ms = Roofline(SLOW, "float32").pass_ms(model, tokens, batch_size=batch, context=context)
    assert ms == pytest.approx(0.5 * model.layers + max(read / 4, computed / 3))


def test_a_curve_is_flat_where_memory_binds_and_rises_where_computing_does():
    reads = Roofline(DataSheet("reads", {"float32": 1e9}, 1e-6, 0.0, ""), "float32")
    computes = Roofline(DataSheet("computes", {"float32": 1e-6}, 1e9, 0.0, ""), "float32")
    one, eight = (reads.pass_ms(SMALL, n) for n in (1, 8))
    assert eight / one < 1.1  # the cache of seven more tokens
    one, eight = (computes.pass_ms(SMALL, n) for n in (1, 8))
    assert eight / one > 8


def test_half_the_bytes_and_twice_the_peak_take_half_the_time():
    half, single = Roofline(SLOW, "bfloat16"), Roofline(SLOW, "float32")
    rest = 0.5 * SMALL.layers
    assert half.pass_ms(SMALL, 4) - rest == pytest.approx((single.pass_ms(SMALL, 4) - rest) / 2)
    assert SLOW.times(4).gb_per_s == 4 * SLOW.gb_per_s
    with pytest.raises(PlannerError, match="dtype: got 'float16', but of slow only float32, bfl"):
        Roofline(SLOW, "float16").pass_ms(SMALL, 1)


def test_predicted_costs_are_the_passes_and_are_marked():
    roofline = Roofline(SLOW, "float32")
    places = Places(batch_sizes=(1, 2), contexts=(3, 9), max_nodes=5, overhead_ms=0.25)
    costs = predicted_costs(SMALL, TINY, roofline, places)
    assert costs.predicted
    assert costs.origin.predicted
    assert "slow at 3e-09 TFLOP/s (float32)" in costs.source
    assert "made up" in costs.source
    assert [(e.batch_size, e.context) for e in costs.costs] == [(1, 3), (1, 9), (2, 3), (2, 9)]
    last = costs.costs[-1]
    for model, curve in ((SMALL, last.verify), (TINY, last.draft)):
        passes = [roofline.pass_ms(model, n, batch_size=2, context=9) for n in range(1, 6)]
        assert curve.counts == [1, 2, 3, 4, 5]
        assert curve.ms == pytest.approx(passes, abs=1e-6)
    assert last.overhead.ms == [0.25, 0.25]
    other = ModelShape("other", 51, 8, 1, 2, 8, 64, 1, 4, is_tied=False)
    with pytest.raises(PlannerError, match="vocabulary of 51"):
        predicted_costs(SMALL, other, roofline, places)


@pytest.mark.parametrize("name", DATA_SHEETS)
def test_every_machine_has_a_source_and_sensible_constants(name):
    sheet = DATA_SHEETS[name]
    assert len(sheet.source) > 10
    assert sheet.gb_per_s > 0
    # a machine computes far more than it reads, or no tree would ever pay
    assert all(1e12 * peak / (1e9 * sheet.gb_per_s) > 5 for peak in sheet.tflops.values())
    assert data_sheet(name.lower().replace(" ", "-")) is sheet


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_a_machine_is_known_by_what_its_driver_calls_it(driver, name):
    assert data_sheet(driver) is DATA_SHEETS[name]


def test_what_is_told_stands_for_the_sheets_number_and_is_named():
    known = DATA_SHEETS["H100"]
    assert known.told("bfloat16", {"tflops": None, "gb_per_s": None}) is known
    told = known.told("bfloat16", {"tflops": 500.0, "gb_per_s": None, "layer_ms": 0.0})
    assert (told.peak("bfloat16"), told.gb_per_s, told.layer_ms) == (500.0, known.gb_per_s, 0.0)
    assert told.source == f"{known.source}; as told: tflops, layer_ms"


def test_an_unknown_machine_is_named():
    for name in ("abacus", "NVIDIA RTX A1000", ""):
        with pytest.raises(PlannerError, match=f"gpu: got '{name}', expected one of H100"):
            data_sheet(name)


@pytest.mark.parametrize(("first", "exponent"), [(0.5, 1.0), (0.634, 0.463), (0.9, 3.0)])
def test_all_of_k_children_are_rejected_by_the_power(first, exponent):
    law = PowerLaw(first, exponent, num_ranks=9)
    left = 1 - np.cumsum(law.acceptance)
    assert left == pytest.approx([(1 - first) / k**exponent for k in range(1, 10)])
    assert law.acceptance[0] == pytest.approx(first)
    assert "9 ranks, " in str(law)
    assert "1 rank, " in str(PowerLaw(first, exponent, num_ranks=1))


@pytest.mark.parametrize("rejected", [[0.4, 0.28, 0.1], [0.9, 0.3, 0.3, 0.2], [0.5, 0.2]])
def test_the_nearest_law_has_the_smallest_squared_error(rejected):
    """The closest law through the first, on a logarithmic scale; a law itself is its own."""
    law = PowerLaw.near(np.array(rejected))
    assert PowerLaw.near(law.rejected).exponent == pytest.approx(law.exponent)

    def error(exponent):
        other = PowerLaw(law.first, exponent, law.num_ranks)
        return float((np.log(other.rejected / rejected) ** 2).sum())

    assert law.rejected[0] == pytest.approx(rejected[0])
    assert all(error(law.exponent + move) > error(law.exponent) for move in (-0.01, 0.01))


def test_the_exponent_of_the_published_vector():
    """Acceptance of its first rank and of all: what the page on costs from elsewhere says."""
    first, total = DEMO_ACCEPTANCE[0], DEMO_ACCEPTANCE.sum()
    exponent = np.log((1 - first) / (1 - total)) / np.log(len(DEMO_ACCEPTANCE))
    assert (round(first, 3), round(total, 3), round(exponent, 3)) == (0.634, 0.927, 0.463)
    assert PowerLaw(first, exponent, 32).acceptance.sum() == pytest.approx(total)


@pytest.mark.parametrize("wrong", [(0.0, 1.0), (1.0, 1.0), (0.5, 0.0), (float("nan"), 1.0)])
def test_what_is_no_law_is_refused(wrong):
    with pytest.raises(PlannerError, match="expected a"):
        PowerLaw(*wrong)


def test_an_assumed_profile_is_planned_with_and_says_so(tmp_path):
    costs = predicted_costs(SMALL, TINY, Roofline(SLOW, "float32"), Places(max_nodes=12))
    law, warm = PowerLaw(0.7, 1.2, 4), Sampling(temperature=0.8)
    profile = assumed_profile(SMALL, TINY, costs, law, sampling=warm, dtype="float32")
    profile.save(tmp_path / "profile.json")
    profile = Profile.load(tmp_path / "profile.json")
    plan = solve(profile, solver="chain")
    assert plan.sampling == warm
    assert plan.made_from.costs_from == costs.origin
    assert plan.made_from.acceptance_from.startswith("assumed, not measured: 4 ranks")
    tokens = plan.predicted.tokens_per_step
    assert tokens.low == tokens.value == tokens.high
    assert tokens.value == pytest.approx(expected_tokens(plan.tree, law.acceptance))
    assert profile.target.num_parameters == SMALL.num_parameters
