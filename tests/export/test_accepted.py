"""Exports are those that the engines' own parsers were seen to accept (`make engines`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.export import ENGINES

from .parsers.cases import ACCEPTED, UNREAD, broken, made

PAGE = Path(__file__).parents[2] / "docs/engines.md"
RECORD = json.loads(ACCEPTED.read_text())


@pytest.mark.parametrize("case", RECORD)
def test_an_export_is_the_one_that_was_read(case: str) -> None:
    assert made()[case] == RECORD[case]["content"], "exports differ: run make engines"


def test_every_export_was_read_or_it_is_said_why_not() -> None:
    assert set(made()) == set(RECORD), "exports come or go: run make engines"
    read = {case.split()[0] for case, each in RECORD.items() if each["read_by"]}
    assert read | UNREAD.keys() == set(ENGINES)
    assert not read & UNREAD.keys()
    assert all(each["as"] for each in RECORD.values() if each["read_by"])


@pytest.mark.parametrize("case", RECORD)
def test_a_broken_export_is_another_one(case: str) -> None:
    assert broken(case.split()[0], made()[case]) != made()[case]


def test_the_page_names_who_read_them() -> None:
    page = " ".join(PAGE.read_text().split())
    assert all(each["read_by"] in page for each in RECORD.values() if each["read_by"])
