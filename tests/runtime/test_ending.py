"""A text ends where a reader of all of it finds the first stop token or the first stop string; its
log probabilities are the target's own."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch

from planner import PlannerError
from planner.documents.sampling import Sampling
from runtime import Decoder, distribution
from runtime.ending import Ending
from runtime.inputs import checked_ending
from tests.runtime.small_models import plan, small_model

TREE = [-1, 0, 0, 0, 1, 1, 2, 4, 4, 7]
PROMPT = [11, 42, 7, 3, 19]

WORDS = [b"a", b"b", b" ", b"ab", b"ba", b"a b", "é".encode()[:1], "é".encode()[1:], b"", b""]
STRINGS = ("bab", " é", "aaa", "a b a", "\N{REPLACEMENT CHARACTER}")
"""The last is there only as long as half of a character is."""


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


def test_a_character_is_found_whose_bytes_come_one_by_one_with_nothing_between():
    bytes_of = [bytes([each]) for each in "\N{SLIGHTLY SMILING FACE}".encode()]
    words = [*bytes_of, b""]
    ending = Ending(
        frozenset(),
        ("\N{SLIGHTLY SMILING FACE}", "ab"),
        lambda tokens: b"".join(words[token] for token in tokens).decode(errors="replace"),
    )
    tokens = [0, 4, 0, 4, 1, 4, 2, 3]
    assert ending.cut([], [*tokens, 4]) == (tokens, True)


@pytest.mark.parametrize(
    ("strings", "words"),
    [
        ("end", "got 'end', expected a list of strings"),
        ([""], "expected a list of strings that are not empty"),
        ([3], "expected a list of strings"),
        (["end"], "give the decoder the tokenizer's decode"),
    ],
)
def test_stop_strings_that_are_none(strings, words):
    with pytest.raises(PlannerError, match=words):
        checked_ending([], strings, None)


def test_a_decoding_that_fails_is_one_line():
    ending = Ending(frozenset(), ("a",), lambda tokens: WORDS[99].decode())
    with pytest.raises(PlannerError, match=r"to_text: failed for tokens .*: IndexError: list"):
        ending.cut([], [1, 2])
    assert Ending(frozenset(), (), ending.to_text).cut([], [1, 2]) == ([1, 2], False)


def test_text_ends_with_the_token_that_completes_a_stop_string():
    decoder = Decoder.from_plan(plan(TREE), small_model("llama"), small_model("llama", seed=1))
    whole = decoder.generate(PROMPT, max_new_tokens=30).tokens
    decoder = replace(decoder, to_text=lambda tokens: "".join(f"<{token}>" for token in tokens))
    stop = f"{whole[12]}><{whole[13]}"
    got = decoder.generate(PROMPT, max_new_tokens=30, stop_strings=[stop]).tokens
    text = decoder.to_text(whole)
    assert decoder.to_text(got) == text[: text.index(stop) + len(stop)] + ">"
    streamed = decoder.stream(PROMPT, max_new_tokens=30, stop_strings=[stop])
    assert list(chain.from_iterable(streamed)) == got


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 0.8, "min_p": 0.05}])
@pytest.mark.parametrize("verifier", ["rrsw", "traversal"])
def test_logprobs_are_those_of_the_target_that_reads_the_text(verifier, sampling):
    target = small_model("llama")
    found = Sampling(**sampling)
    asked = plan(TREE, verifier=verifier).model_copy(update={"sampling": found})
    decoder = replace(Decoder.from_plan(asked, target, target), logprobs=True)
    got = decoder.generate(PROMPT, max_new_tokens=30, seed=3)
    with torch.inference_mode():
        logits = target(torch.tensor([[*PROMPT, *got.tokens]])).logits[0, len(PROMPT) - 1 : -1]
    own = distribution(logits, found)[torch.arange(30), torch.tensor(got.tokens)].log()
    assert got.logprobs == pytest.approx(own.tolist(), abs=1e-4)
    assert len(got.report.continuations[0].tokens_by_step) < 30
