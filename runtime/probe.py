"""Does a model compute trees right?  Asked once of model families that no test covers."""

from __future__ import annotations

import torch
from torch import Tensor

from planner.documents.errors import PlannerError, in_one_line

from .cache import RowCache
from .language_model import LanguageModel, PassInput, answers

TOLERANCE = {"float64": 1e-3, "float32": 1e-3}
TOLERANCE_OF_HALF_PRECISION = 0.05
"""Shares of the largest logit: far above rounding, far below what another text does to logits."""


def check_tree_passes(model: LanguageModel) -> None:
    """Compare a small tree, and what follows its kept path, with plain passes over the same texts.

    What follows is read once more, with another text's end, as texts of a batch are.  Costs seven
    passes over at most four tokens.  Raises PlannerError if the model overlooks masks, positions or
    kept rows, or cannot take them.
    """
    first, second, third, other = (token % model.vocab_size for token in (1, 5, 2, 11))
    try:
        cache = model.new_cache(8)
        _read(model, [first, second], [0, 1], cache)
        siblings = torch.eye(2, dtype=torch.bool, device=model.device)
        tree = _read(model, [third, other], [2, 2], cache, siblings)
        cache.keep_rows(2, [1])
        after = _read(model, [third], [3], cache)
        cache.rewind(3)
        beside = model.new_cache(8)
        _read(model, [first, second], [0, 1], beside)
        ends = _pass(model, [third], [3], cache), _pass(model, [other, third], [2, 3], beside)
        together = [end.logits.float() for end in answers(ends)]
        plain = _read(model, [first, second, other, third], [0, 1, 2, 3], model.new_cache(8))
        difference = torch.cat((tree[1:], after, *together)) - plain[[2, 3, 3, 2, 3]]
    except PlannerError:
        raise
    except Exception as error:
        reason = in_one_line(error, 160)
        raise PlannerError(f"{model.info.name}: {_REFUSAL} ({reason})") from None
    tolerance = TOLERANCE.get(model.dtype, TOLERANCE_OF_HALF_PRECISION)
    if not difference.abs().max() <= tolerance * plain.abs().max():
        raise PlannerError(f"{model.info.name}: {_REFUSAL} (a branch got other logits)")


def agree(model: LanguageModel, other: LanguageModel) -> bool:
    """Do two ways to compute a model give the same logits, up to rounding, over a text of 64
    tokens, over a few more behind it, and over one?"""
    text = [number * number % model.vocab_size for number in range(70)]
    tolerance = TOLERANCE.get(model.dtype, TOLERANCE_OF_HALF_PRECISION)
    caches = [(each, each.new_cache(len(text))) for each in (model, other)]
    for places in (range(64), range(64, 69), range(69, 70)):
        tokens = [text[place] for place in places]
        got, expected = (_read(each, tokens, list(places), cache) for each, cache in caches)
        if not (got - expected).abs().max() <= tolerance * expected.abs().max():
            return False
    return True


_REFUSAL = (
    "got a model that does not compute token trees, expected one that takes 4-D attention masks, "
    "position ids and a key-value cache; choose another model or attention"
)


def _read(
    model: LanguageModel,
    tokens: list[int],
    positions: list[int],
    cache: RowCache,
    visible: Tensor | None = None,
) -> Tensor:
    return _pass(model, tokens, positions, cache, visible).passed().logits.float()


def _pass(
    model: LanguageModel,
    tokens: list[int],
    positions: list[int],
    cache: RowCache,
    visible: Tensor | None = None,
) -> PassInput:
    ids = torch.tensor(tokens, device=model.device)
    places = torch.tensor(positions, device=model.device)
    return PassInput(model, ids, places, cache, visible)
