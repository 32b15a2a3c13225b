"""Token ids of `--prompt` and `--prompts`."""

from __future__ import annotations

from typing import Any

from ..documents.document import PlannerError
from ..documents.prompts import Prompt, read_prompts

EMBEDDED_PREFIX = "embedded/"


def prompt_ids(
    source: str, tokenizer: Any, embedded_tokenizer: bool, limit: int | None = None
) -> list[list[int]]:
    """Token ids of the prompts in the file `source`, or of an embedded set (`embedded/SET`).

    The embedded sets are token ids of the embedded tokenizer; for another one they go through
    their text.  Raises PlannerError naming the file and the line.
    """
    prompts: list[Prompt]
    if source.startswith(EMBEDDED_PREFIX):
        from runtime.embedded import load_prompts, load_tokenizer

        sets = ("profile", "evaluation")
        name = source.removeprefix(EMBEDDED_PREFIX)
        if name not in sets:
            known = ", ".join(EMBEDDED_PREFIX + each for each in sets)
            raise PlannerError(f"prompts: got {source!r}, expected a file or one of {known}")
        prompts = list(load_prompts(name))
        if not embedded_tokenizer:
            own = load_tokenizer()
            prompts = [own.decode(prompt) for prompt in prompts]
    else:
        prompts = read_prompts(source)
    return [encode(prompt, tokenizer) for prompt in prompts[:limit]]


def encode(prompt: Prompt, tokenizer: Any) -> list[int]:
    """Token ids of one prompt, at least one.

    Raises PlannerError where none come out and for what is no Unicode: bytes on the command line
    that are no UTF-8, half of a surrogate pair in JSON.
    """
    if isinstance(prompt, list):
        return prompt
    if any("\ud800" <= character <= "\udfff" for character in prompt):
        raise PlannerError(f"prompt: got {prompt!r:.60}, expected text that is valid Unicode")
    ids = list(tokenizer(prompt)["input_ids"])
    if not ids:
        raise PlannerError(f"prompt: got {prompt!r:.60}, expected text of at least one token")
    return ids
