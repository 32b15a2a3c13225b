"""From the names on the command line to models: hub ids, folders, and the embedded pair.

Embedded names: `embedded/target`, `embedded/draft`, `embedded/draft-plain`, each with `@SHAPE`
behind it (`embedded/target@25M`) for the same function inflated to a larger shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..plan import Plan
from ..schema import PlannerError

if TYPE_CHECKING:
    from runtime.models import LanguageModel

TARGET, DRAFT, WEAK_DRAFT = "embedded/target", "embedded/draft", "embedded/draft-plain"
EMBEDDED = {TARGET: ("distilled", 0), DRAFT: ("distilled", 1), WEAK_DRAFT: ("plain", 1)}
"""Name -> (pair, which of the two)."""


@dataclass(frozen=True)
class Pair:
    """Two models that share a vocabulary, and the tokenizer that makes it."""

    target: LanguageModel
    draft: LanguageModel
    tokenizer: Any


def load_pair(
    target: str | None,
    draft: str | None,
    *,
    device: str | None,
    dtype: str | None,
    attention: str,
    plan: Plan | None = None,
) -> Pair:
    """The two models and the target's tokenizer.

    A name not given is the plan's own, where that is an embedded model, and else the embedded one.
    Raises PlannerError for names that lead to no model.
    """
    names = _names(target, draft, plan)
    models = [_load(name, device=device, dtype=dtype, attention=attention) for name in names]
    return Pair(*models, tokenizer=_load_tokenizer(names[0]))


def is_embedded(name: str) -> bool:
    return name.split("@")[0] in EMBEDDED


def _names(target: str | None, draft: str | None, plan: Plan | None) -> tuple[str, str]:
    defaults = (TARGET, DRAFT)
    if plan is not None and plan.made_from is not None:
        own = (plan.made_from.target.name, plan.made_from.draft.name)
        if all(map(is_embedded, own)):
            defaults = own
    return target or defaults[0], draft or defaults[1]


def _load(
    name: str, *, device: str | None, dtype: str | None, attention: str
) -> LanguageModel:
    import torch

    from runtime.loading import load_model

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or ("float32" if device == "cpu" else "bfloat16")
    if name.startswith("embedded/") and not is_embedded(name):
        raise PlannerError(
            f"got {name!r}, expected one of {', '.join(EMBEDDED)} (with @SHAPE behind it to inflate)"
        )
    if not is_embedded(name):
        return load_model(name, device=device, dtype=dtype, attention=attention)
    from runtime.embedded import pair_paths
    from runtime.embedded.inflate import inflate
    from runtime.models import HuggingFaceModel

    base, _, shape = name.partition("@")
    pair, place = EMBEDDED[base]
    folder = pair_paths(pair)[place]
    model = load_model(str(folder), device=device, dtype=dtype, attention=attention)
    assert isinstance(model, HuggingFaceModel)
    module = model.module
    if shape:
        module = inflate(module, like=shape).to(device=model.device)
    return HuggingFaceModel(module, name=name)


def _load_tokenizer(name: str) -> Any:
    if is_embedded(name):
        from runtime.embedded import load_tokenizer as load_embedded

        return load_embedded()
    from runtime.loading import load_tokenizer

    return load_tokenizer(name)
