"""Acceptance by position, as other tools write it, is read whole or refused in one line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from planner import PlannerError
from planner.cli import main
from planner.documents.speculation_profile import SpeculationProfile

MEASURED = {
    "schema_version": "1.0",
    "measured": True,
    "num_speculative_tokens": 3,
    "conditional_accept_rates": [0.8, 0.75, 0.5],
    "marginal_accept_rates": [0.8, 0.6, 0.3],
    "mean_accept_length": 2.7,
    "acceptance_length_histogram": {"1": 2, "2": 2, "3": 3, "4": 3},
    "measurement_conditions": {"temperature": 0.0, "dataset": "a set"},
}


def test_what_the_schema_leaves_open_is_let_pass():
    read = SpeculationProfile.parse(MEASURED, "file")
    assert read.conditional_accept_rates == [0.8, 0.75, 0.5]
    assert read.marginal_accept_rates == [0.8, 0.6, 0.3]


def test_three_digits_are_enough_at_any_position():
    each = [0.9165] * 9
    three = {
        "num_speculative_tokens": 9,
        "conditional_accept_rates": [round(rate, 3) for rate in each],
        "marginal_accept_rates": [round(0.9165**place, 3) for place in range(1, 10)],
    }
    SpeculationProfile.parse(MEASURED | three, "file")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"measured": False}, "measured: got False, expected True"),
        ({"schema_version": "2.0"}, "schema_version: got '2.0', expected '1.0'"),
        ({"mean_accept_length": 0.9}, "mean_accept_length: got 0.9"),
        ({"conditional_accept_rates": [0.8, 1.2, 0.5]}, r"conditional_accept_rates.1: got 1.2"),
        ({"conditional_accept_rates": [0.8, None, 0.5]}, r"conditional_accept_rates.1: got None"),
        ({"conditional_accept_rates": [0.8, 0.75]}, "3 rates, one a position"),
        ({"marginal_accept_rates": [0.8, 0.6, 0.3, 0.1]}, "3 rates, one a position"),
        ({"marginal_accept_rates": [0.8, 0.75, 0.5]}, "expected 0.6 at position 2, the product"),
        ({"marginal_accept_rates": [float("nan"), 0.6, 0.3]}, r"marginal_accept_rates.0: got nan"),
    ],
)
def test_nonsense_is_refused_in_one_line(change, said):
    with pytest.raises(PlannerError, match=said) as error:
        SpeculationProfile.parse(MEASURED | change, "file")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "key", ["measured", "num_speculative_tokens", "conditional_accept_rates",
            "marginal_accept_rates", "mean_accept_length"],
)  # fmt: skip
def test_a_missing_key_is_named(key):
    content = {name: value for name, value in MEASURED.items() if name != key}
    with pytest.raises(PlannerError, match=f"file: {key}: missing"):
        SpeculationProfile.parse(content, "file")


def test_it_is_shown_and_never_drawn(tmp_path):
    file = tmp_path / "speculation_profile.json"
    file.write_text(json.dumps(MEASURED))
    shown = CliRunner().invoke(main, ["show", str(file)])
    assert shown.exit_code == 0
    assert "tokens       2.700 per step as written, 2.700 by the rates" in shown.stdout
    assert "under        temperature 0.0, dataset a set" in shown.stdout
    rows = [line.split() for line in shown.stdout.splitlines()[-3:]]
    assert rows == [["1", "0.800", "0.800"], ["2", "0.750", "0.600"], ["3", "0.500", "0.300"]]
    drawn = CliRunner().invoke(main, ["show", str(file), "--png", str(tmp_path / "a.png")])
    assert drawn.exit_code == 2
    assert "is printed only" in drawn.stderr
