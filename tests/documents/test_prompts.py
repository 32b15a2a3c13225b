"""Prompts from files: what a line is, and what wrong lines are answered with."""

from __future__ import annotations

import json

import pytest

from planner import PlannerError
from planner.documents.prompts import read_prompts

ODD = ("\r", "\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\u2029")
"""Characters where `str.splitlines` breaks lines too."""


@pytest.mark.parametrize("mark", ODD, ids=ascii)
def test_only_a_line_feed_ends_a_line(mark, tmp_path):
    text = f"def f():{mark}    pass"
    (tmp_path / "p.txt").write_text(f"{text}\nx = 1\r\n", encoding="utf-8", newline="")
    assert read_prompts(tmp_path / "p.txt") == [text, "x = 1"]
    line = json.dumps({"text": "a\u2028b"}, ensure_ascii=False)
    (tmp_path / "p.jsonl").write_text(line, encoding="utf-8")
    assert read_prompts(tmp_path / "p.jsonl") == ["a\u2028b"]


@pytest.mark.parametrize("name", ["p.txt", "p.jsonl"])
def test_the_mark_before_utf_8_is_no_part_of_the_first_prompt(name, tmp_path):
    (tmp_path / name).write_text({"p.txt": "x", "p.jsonl": '{"text": "x"}'}[name], "utf-8-sig")
    assert read_prompts(tmp_path / name) == ["x"]


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (b'{"ids": [' + b"1" * 5000 + b"]}", "p.jsonl", "line 1: cannot be read as JSON"),
        (b"\n" + b"[" * 200_000, "p.jsonl", "line 2: cannot be read as JSON"),
        (b"ab\xff", "p.txt", "no UTF-8 text (at byte 2)"),
        (b"x", "prompts", "a name that ends in nothing, expected .txt"),
    ],
)
def test_wrong_lines_are_one_line(content, name, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PlannerError) as caught:
        read_prompts(tmp_path / name)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
