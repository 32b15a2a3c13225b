"""Models by the names on the command line: hub ids, folders, and the embedded pair.

Embedded names: `embedded/target`, `embedded/draft`, `embedded/draft-plain`, each with `@SHAPE`
behind it (`embedded/target@25M`) for the same function inflated to a larger shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..documents.document import PlannerError
from ..plans.plan import Plan

if TYPE_CHECKING:
    from runtime.language_model import LanguageModel

TARGET, DRAFT, WEAK_DRAFT = "embedded/target", "embedded/draft", "embedded/draft-plain"
EMBEDDED = {TARGET: ("distilled", 0), DRAFT: ("distilled", 1), WEAK_DRAFT: ("plain", 1)}
"""Name -> (pair, which of the two)."""


def pair_names(target: str | None, draft: str | None, plan: Plan | None = None) -> tuple[str, str]:
    """Names of the target and the draft.

    One that is not given is the one that the plan was made for, else the embedded one.
    Raises PlannerError for an empty name: a shell's variable that was never set.
    """
    defaults = (TARGET, DRAFT)
    if plan is not None and plan.made_from is not None:
        defaults = (plan.made_from.target.name, plan.made_from.draft.name)
    names = defaults[0] if target is None else target, defaults[1] if draft is None else draft
    for role, name in zip(("target", "draft"), names, strict=True):
        if not name:
            raise PlannerError(f"{role}: got an empty name, expected a hub id or a folder")
    return names


def load_named(
    name: str, *, device: str | None, dtype: str | None, attention: str
) -> LanguageModel:
    """The model called `name`.  Raises PlannerError for a name that leads to none."""
    import torch

    from runtime.loading import checked_device, load_model

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = dtype or ("float32" if checked_device(device).type == "cpu" else "bfloat16")
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
    base, at, shape = name.partition("@")
    pair, place = EMBEDDED[base]
    logging.disable_progress_bar()  # a bar for a few megabytes
    try:
        folder = pair_paths(pair)[place]
        module = load_model(folder, device=device, dtype=dtype, attention="sdpa").module
    finally:
        logging.enable_progress_bar()
    if at:
        from runtime.embedded.inflate import inflate

        kind = module.dtype
        module = inflate(module.float(), like=shape, dtype=kind, device=module.device)
    return with_attention(module, attention, name=name)
