"""What a GPU is asked about the decode loop, asked here of a CPU; and what it said, on its page."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks.gpu import law
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.page import TABLES
from benchmarks.gpu.results import Results
from benchmarks.gpu.steps import pass_times
from benchmarks.outputs import marked
from runtime import as_language_model
from runtime.embedded import load_pair

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_saved_runs(name):
    shown = marked(ROOT / "docs/results/gpu.md", name)
    assert shown == TABLES[name](ROOT / "benchmarks/results/gpu")


@pytest.mark.parametrize("verifier", ["rrsw", "chain"])
def test_the_law_of_a_step_is_told_from_another(verifier, tmp_path, monkeypatch):
    """The target's own is not found wrong, and the draft's would be."""
    monkeypatch.setitem(law.NUM_STEPS, True, 150)
    results = Results(tmp_path / "gpu.json")
    results.start("law")
    bench = Bench("law", results, time.monotonic() + 60, dry=True)
    target, draft = (as_language_model(each) for each in load_pair())
    row = law.judged(bench, target, draft, verifier)
    assert row["right"]
    assert row["chance"] > law.LEAST_CHANCE
    assert row["chance_of_draft"] < law.MOST_OF_ANOTHER


def test_passes_are_timed_behind_a_text():
    times = pass_times([as_language_model(each) for each in load_pair()], 2)
    assert len(times) == 2
    assert min(times) > 0
