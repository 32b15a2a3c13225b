"""Wrong input to decoding, said in one line before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from torch import Tensor

from planner.documents.document import PlannerError
from planner.documents.origin import ModelInfo
from planner.plans.plan import BatchSetting, Plan
from planner.plans.settings import PlanSetting

from .ending import Ending
from .language_model import LanguageModel

MOST_NODES = 2**16
"""Most nodes of a step's tree: a bound on memory, far above every tree that is worth its time."""


def checked_prompt(input_ids: Sequence[int] | Tensor, vocab_size: int) -> list[int]:
    """The prompt as a list of tokens.

    Raises PlannerError if it is empty, a batch, not integers, or outside the vocabulary.
    """
    if isinstance(input_ids, Tensor):
        if input_ids.dim() == 2 and input_ids.shape[0] == 1:
            input_ids = input_ids[0]
        if input_ids.dim() != 1:
            raise PlannerError(
                f"input_ids: got a tensor of shape {list(input_ids.shape)}, expected [P] or "
                "[1, P]; generate_batch takes the prompts of a batch as a list"
            )
        input_ids = input_ids.tolist()
    try:
        ids = list(input_ids)
    except TypeError:
        raise PlannerError(
            f"input_ids: got {input_ids!r:.40}, expected a list of tokens or a tensor"
        ) from None
    if not ids:
        raise PlannerError("input_ids: got an empty prompt, expected at least one token")
    for place, token in enumerate(ids):
        if not _is_integer(token):
            raise PlannerError(
                f"input_ids[{place}]: got {token!r:.40}, expected an integer; pass one prompt, "
                "encoded by the target's tokenizer"
            )
        if not 0 <= token < vocab_size:
            raise PlannerError(
                f"input_ids[{place}]: got token {token}, expected 0 to {vocab_size - 1}; encode "
                "the prompt with the target's own tokenizer"
            )
    return [int(token) for token in ids]


def checked_stop_tokens(stop_tokens: Sequence[int]) -> frozenset[int]:
    """The tokens that end a text.  Raises PlannerError for anything but a list of integers."""
    try:
        tokens = [int(token) for token in stop_tokens if _is_integer(token)]
        known = len(tokens) == len(stop_tokens)
    except TypeError:
        tokens, known = [], False
    if not known:
        raise PlannerError(f"stop_tokens: got {stop_tokens!r:.60}, expected a list of tokens")
    return frozenset(tokens)


def checked_ending(
    stop_tokens: Sequence[int],
    stop_strings: Sequence[str],
    to_text: Callable[[list[int]], str] | None,
) -> Ending:
    """The end of the text.  Raises PlannerError for anything but lists of tokens and of strings
    that are not empty, and for strings without the tokenizer's decoding."""
    tokens = checked_stop_tokens(stop_tokens)
    whole = not isinstance(stop_strings, str) and isinstance(stop_strings, Sequence)
    if not whole or not all(isinstance(each, str) and each for each in stop_strings):
        raise PlannerError(
            f"stop_strings: got {stop_strings!r:.60}, expected a list of strings that are not empty"
        )
    if stop_strings and to_text is None:
        raise PlannerError(
            "stop_strings: got some without to_text; give the decoder the tokenizer's decode"
        )
    return Ending(tokens, tuple(stop_strings), to_text)


def checked_count(count: int, name: str) -> int:
    """`count` as an int.  Raises PlannerError, which calls it `name`, unless it is 1 or more."""
    if not _is_integer(count) or count < 1:
        raise PlannerError(f"{name}: got {count!r}, expected an integer >= 1")
    return int(count)


def checked_limits(
    prompts: Sequence[Sequence[int] | Tensor], max_new_tokens: int | Sequence[int]
) -> list[int]:
    """The new tokens that each prompt may get; whether these are numbers is seen later.

    Raises PlannerError where there are no prompts, or not as many numbers as prompts.
    """
    if isinstance(prompts, str) or not isinstance(prompts, Sequence):
        kind = type(prompts).__name__
        raise PlannerError(f"prompts: got a {kind}, expected a list of prompts")
    if len(prompts) == 0:
        raise PlannerError("prompts: got none, expected at least one")
    if not isinstance(max_new_tokens, Sequence):
        return [max_new_tokens] * len(prompts)
    if len(max_new_tokens) != len(prompts):
        raise PlannerError(
            f"max_new_tokens: got {len(max_new_tokens)} numbers for {len(prompts)} prompts, "
            "expected one for each, or one for all"
        )
    return list(max_new_tokens)


@contextmanager
def named(what: str) -> Iterator[None]:
    """A context whose errors say that they are of `what`."""
    try:
        yield
    except PlannerError as error:
        raise PlannerError(f"{what}: {error}") from None


def check_length(num_prompt: int, max_new_tokens: int, models: Sequence[LanguageModel]) -> None:
    """Raise PlannerError unless there is something to decode and positions to decode it at."""
    max_new_tokens = checked_count(max_new_tokens, "max_new_tokens")
    shortest = min(models, key=lambda model: model.max_positions)
    if num_prompt + max_new_tokens > shortest.max_positions:
        raise PlannerError(
            f"prompt: got {num_prompt} tokens and {max_new_tokens} new ones, expected at most "
            f"{shortest.max_positions} together ({shortest.info.name} has no more positions); "
            "shorten the prompt or lower max_new_tokens"
        )


def check_models(
    plan: Plan, target: LanguageModel, draft: LanguageModel | None, *, follow: bool
) -> None:
    """Raise PlannerError unless `plan` can be carried out on these models and was made for them.

    follow  with every setting of its tables
    """
    drafting = [way for way in plan.carried_out(follow=follow) if way.speculates]
    for way in drafting:
        _check_way(way, target, draft)
    if plan.made_from is not None:
        dtype = plan.made_from.execution.dtype
        _check_origin("target", plan.made_from.target, dtype, target)
        if draft is not None and drafting:
            _check_origin("draft", plan.made_from.draft, dtype, draft)


def _check_way(
    way: Plan | BatchSetting | PlanSetting, target: LanguageModel, draft: LanguageModel | None
) -> None:
    """Raise PlannerError unless what it drafts can be drafted and verified with these models."""
    if way.drafting.most_nodes > MOST_NODES:
        raise PlannerError(
            f"drafting: got trees of up to {way.drafting.most_nodes} nodes, expected at most "
            f"{MOST_NODES}, which are more than are ever worth verifying; plan again"
        )
    if draft is None:
        raise PlannerError(
            "draft: got none, but the plan drafts tokens; pass a draft model, or plan without"
        )
    if draft.vocab_size != target.vocab_size:
        raise PlannerError(
            f"draft: got a vocabulary of {draft.vocab_size} tokens ({draft.info.name}), "
            f"expected the target's {target.vocab_size} ({target.info.name}); load the draft by "
            "its name with drafts_for, or choose one with the same tokenizer"
        )
    most = way.drafting.most_children
    if most > target.vocab_size:
        field = "max_children" if way.drafting.grows else "parents"
        raise PlannerError(
            f"drafting.{field}: got {most} children of one node, expected at most the "
            f"vocabulary's {target.vocab_size}; plan again for these models"
        )
    if draft.device != target.device:
        raise PlannerError(
            f"draft: got a model on {draft.device}, expected it beside the target on "
            f"{target.device}; load both on one device"
        )


def _check_origin(role: str, expected: ModelInfo, dtype: str, model: LanguageModel) -> None:
    got = model.info
    is_another = expected.fingerprint not in ("", got.fingerprint)  # "": nobody read the weights
    if is_another or expected.vocab_size != got.vocab_size:
        ways = ("", "") if model.dtype == dtype else (f" in {model.dtype}", f" in {dtype}")
        raise PlannerError(
            f"{role}: got {got.name}{ways[0]} ({got.fingerprint[:12]}, {got.vocab_size} tokens), "
            f"expected {expected.name}{ways[1]} ({expected.fingerprint[:12]}, "
            f"{expected.vocab_size} tokens), for which the plan was made; load that model"
            f"{ways[1]}, or profile and plan again"
        )


def _is_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
