"""A text ends where a reader of all of it finds the first stop token or the first stop string."""

from __future__ import annotations

import numpy as np
import pytest

from planner import PlannerError
from runtime.ending import Ending
from runtime.inputs import checked_ending

WORDS = [b"a", b"b", b" ", b"ab", b"ba", b"a b", "é".encode()[:1], "é".encode()[1:]]
STRINGS = ("bab", " é", "aaa", "a b a")


def to_text(tokens: list[int]) -> str:
    return b"".join(WORDS[token] for token in tokens).decode(errors="replace")


def ended_by_reading_all(tokens: list[int], stop: set[int], strings: tuple[str, ...]) -> list[int]:
    for end in range(1, len(tokens) + 1):
        text = to_text(tokens[:end])
        if tokens[end - 1] in stop or any(each in text for each in strings):
            return tokens[:end]
    return tokens


@pytest.mark.parametrize("strings", [(), *((each,) for each in STRINGS), STRINGS])
@pytest.mark.parametrize("stop", [set(), {3}])
def test_step_by_step_as_by_reading_all(strings, stop):
    rng, ending = np.random.default_rng(0), Ending(frozenset(stop), strings, to_text)
    ends = 0
    for _ in range(200):
        tokens = rng.integers(len(WORDS), size=30).tolist()
        written: list[int] = []
        ended = False
        while not ended and len(written) < len(tokens):
            place = len(written)
            new, ended = ending.cut(written, tokens[place : place + rng.integers(1, 6)])
            written += new
        expected = ended_by_reading_all(tokens, stop, strings)
        assert written == expected
        ends += len(expected) < len(tokens)
    assert ends > 0 or not (strings or stop)


@pytest.mark.parametrize(
    ("strings", "words"),
    [
        ("end", "got 'end', expected a list of strings"),
        ([""], "expected a list of strings that are not empty"),
        ([3], "expected a list of strings"),
        (["end"], "pass the tokenizer's decode as to_text"),
    ],
)
def test_stop_strings_that_are_none(strings, words):
    with pytest.raises(PlannerError, match=words):
        checked_ending([], strings, None)
