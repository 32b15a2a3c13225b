"""From the names on the command line to models: hub ids, folders, and the embedded pair.

Embedded names: `embedded/target`, `embedded/draft`, `embedded/draft-plain`, each with `@SHAPE`
behind it (`embedded/target@25M`) for the same function inflated to a larger shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..plan import Plan
from ..schema import PlannerError

if TYPE_CHECKING:
    from runtime.models import LanguageModel

TARGET, DRAFT, WEAK_DRAFT = "embedded/target", "embedded/draft", "embedded/draft-plain"
EMBEDDED = {TARGET: ("distilled", 0), DRAFT: ("distilled", 1), WEAK_DRAFT: ("plain", 1)}
"""Name -> (pair, which of the two)."""


def pair_names(target: str | None, draft: str | None, plan: Plan | None = None) -> tuple[str, str]:
    """Names of the target and the draft.

    One that is not given is the plan's own, where that is an embedded pair, else the embedded one.
    """
    defaults = (TARGET, DRAFT)
    if plan is not None and plan.made_from is not None:
        own = (plan.made_from.target.name, plan.made_from.draft.name)
        if all(map(is_embedded, own)):
            defaults = own
    return target or defaults[0], draft or defaults[1]


def load_named(
    name: str, *, device: str | None, dtype: str | None, attention: str
) -> LanguageModel:
    """The model called `name`.  Raises PlannerError for a name that leads to none."""
    import torch

    from runtime.loading import load_model

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or ("float32" if device == "cpu" else "bfloat16")
    if is_embedded(name):
        return _load_embedded(name, device=device, dtype=dtype, attention=attention)
    _check_not_embedded(name)
    return load_model(name, device=device, dtype=dtype, attention=attention)


def load_tokenizer_of(name: str) -> Any:
    """The tokenizer that comes with the model called `name`.  Raises PlannerError likewise."""
    if is_embedded(name):
        from runtime.embedded import load_tokenizer as load_embedded

        return load_embedded()
    from runtime.loading import load_tokenizer

    _check_not_embedded(name)
    return load_tokenizer(name)


def _check_not_embedded(name: str) -> None:
    """What is called `embedded/...` ships with the project and is looked for nowhere else."""
    if name.startswith("embedded/"):
        raise PlannerError(
            f"got {name!r}, expected one of {', '.join(EMBEDDED)} "
            "(with @SHAPE behind it to inflate it)"
        )


def is_embedded(name: str) -> bool:
    return name.split("@")[0] in EMBEDDED


def _load_embedded(name: str, *, device: str, dtype: str, attention: str) -> LanguageModel:
    from transformers.utils import logging

    from runtime.embedded import pair_paths
    from runtime.loading import checked_attention, load_model, with_attention

    checked_attention(attention)
    base, _, shape = name.partition("@")
    pair, place = EMBEDDED[base]
    logging.disable_progress_bar()  # a bar for a few megabytes
    try:
        folder = pair_paths(pair)[place]
        module = load_model(folder, device=device, dtype=dtype, attention="sdpa").module
    finally:
        logging.enable_progress_bar()
    if shape:
        from runtime.embedded.inflate import inflate

        kind = module.dtype
        module = inflate(module.float(), like=shape, dtype=kind, device=module.device)
    return with_attention(module, attention, name=name)
