"""The settings that the page of engines reads, and what it shows of them, as printed."""

from __future__ import annotations

import shlex
from pathlib import Path

from click.testing import CliRunner

from planner.cli import main

from .reading import ROOT, fenced

PAGE = ROOT / "docs" / "engines.md"


def shown() -> list[tuple[list[str], str]]:
    """(the words of a command, what the page shows below it), in order."""
    (block,) = [content for language, content in fenced(PAGE.read_text()) if "compare" in content]
    parts = [part.partition("\n") for part in block.split("$ planner ")[1:]]
    return [(shlex.split(line), output) for line, _, output in parts]


def test_settings_are_read_and_compared_as_the_page_shows(tmp_path, monkeypatch):
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    monkeypatch.chdir(tmp_path)
    commands = shown()
    assert [words[0] for words, _ in commands] == ["import", "import", "compare"]
    for words, output in commands:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0
        assert result.output.rstrip() == output.rstrip()
    assert Path("vllm.json").is_file()
