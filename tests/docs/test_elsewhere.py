"""The page on costs from elsewhere: its commands print what it shows, its numbers are derived."""

from __future__ import annotations

import json
import re

import numpy as np
from click.testing import CliRunner

from planner.cli import main
from planner.documents.given_costs import GivenCosts
from planner.estimates.data_sheets import DATA_SHEETS
from planner.show.papers.sequoia_printed import OFFLOADED_MS, OFFLOADED_STEPS, offloaded_times

from .reading import ROOT, fenced

PAGE = (ROOT / "docs" / "elsewhere.md").read_text()
COSTS = ROOT / "docs" / "costs" / "sequoia-l40-offloaded.json"
SPECINFER = np.array([
    [8.66, 6.46], [6.93, 5.20], [7.36, 5.50], [6.18, 4.64], [7.87, 5.91], [6.24, 4.68],
])  # fmt: skip
"""16 chains of 48 tokens: tokens per step, speedup."""


def test_every_command_is_shown():
    """Their output is `test_pages`' matter."""
    shown = set(re.findall(r"^\$ planner (\w+)", PAGE, re.MULTILINE))
    assert shown == {"solve", "grade", "predict", "compare"}


def test_every_machine_stands_on_the_page_and_in_the_help():
    told = CliRunner().invoke(main, ["predict", "--help"]).output
    for name in DATA_SHEETS:
        assert re.search(rf"{name}\b", PAGE)
        assert re.search(rf"{name}\b", " ".join(told.split()))


def test_the_example_is_the_file_beside_the_page():
    (block,) = [content for language, content in fenced(PAGE) if language == "json"]
    assert json.loads(block) == json.loads(COSTS.read_text())


def test_the_example_follows_from_what_the_paper_prints():
    """The law as `planner reproduce` fits it to the six steps of Table 5."""
    (times,) = GivenCosts.load(COSTS).costs
    alone, verify = times.verify.ms
    draft = times.draft.ms[0]
    tokens, speedup, printed_depth = OFFLOADED_STEPS.T
    steps, levels = alone * tokens / speedup, printed_depth - 1
    fit = offloaded_times()
    assert [alone, verify, draft] == [OFFLOADED_MS, round(fit[0]), round(fit[1], 1)]
    stated = [float(each) for each in re.findall(r"to\s+within\s+([\d.]+)\s+%", PAGE)][:2]
    off = np.abs((verify + draft * levels) / steps - 1).max()
    others = alone * SPECINFER[:, 0] / SPECINFER[:, 1]
    off_others = np.abs((verify + draft * 48) / others - 1).max()
    assert [np.ceil(1000 * off) / 10, np.ceil(1000 * off_others) / 10] == stated
