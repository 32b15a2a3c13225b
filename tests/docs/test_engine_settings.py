"""The settings that the page of engines reads: which are shown."""

from __future__ import annotations

import re

from .reading import ROOT, fenced

PAGE = ROOT / "docs" / "engines.md"


def test_settings_are_read_and_compared():
    """Their output is `test_pages`' matter, in whose folder the third reads what two wrote."""
    (block,) = [content for language, content in fenced(PAGE.read_text()) if "compare" in content]
    shown = re.findall(r"^\$ planner (\w+) .*?(\w+\.json)", block, re.MULTILINE)
    assert shown == [
        ("import", "vllm.json"), ("import", "llamacpp.json"), ("compare", "vllm.json")
    ]  # fmt: skip
