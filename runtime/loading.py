"""Models and tokenizers by hub name or folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from planner.schema import PlannerError

from .models import TREE_ATTENTION, HuggingFaceModel

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}


def load_model(
    name: str | Path,
    *,
    device: str = "cpu",
    dtype: str = "auto",
    attention: str = "auto",
) -> HuggingFaceModel:
    """The causal language model in the folder or hub repository `name`.

    dtype      one of `DTYPES`, or "auto" for the one it was saved in
    attention  "sdpa", "eager", or "auto" for what transformers takes for this model

    Raises PlannerError in one line when it cannot be found, loaded or served.
    """
    place = checked_device(device)
    kind = checked_dtype(dtype)
    if attention not in ("auto", *TREE_ATTENTION):
        raise PlannerError(
            f"attention: got {attention!r}, expected auto or one of {', '.join(TREE_ATTENTION)}"
        )
    chosen = None if attention == "auto" else attention
    model = _loaded(AutoModelForCausalLM, name, dtype=kind, attn_implementation=chosen)
    try:
        model = model.to(place)
    except torch.OutOfMemoryError:
        raise PlannerError(
            f"{name}: does not fit into the memory of {device}; choose a smaller model or dtype"
        ) from None
    return HuggingFaceModel(model, name=str(name))


def load_tokenizer(name: str | Path) -> Any:
    """The tokenizer in the folder or hub repository `name`.  Raises PlannerError likewise."""
    return _loaded(AutoTokenizer, name)


def checked_device(device: str) -> torch.device:
    """`device` as torch knows it.  Raises PlannerError if this machine has no such device."""
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0][:120]
        raise PlannerError(
            f"device: got {device!r}, expected one that this machine has, e.g. 'cpu' or 'cuda' "
            f"({reason})"
        ) from None
    return place


def checked_dtype(dtype: str) -> torch.dtype | str:
    """`dtype` as torch knows it, or "auto".  Raises PlannerError for any other word."""
    if dtype == "auto":
        return dtype
    if dtype not in DTYPES:
        raise PlannerError(f"dtype: got {dtype!r}, expected auto or one of {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _loaded(kind: Any, name: str | Path, **settings: Any) -> Any:
    folder = Path(name)
    if not folder.is_dir() and (isinstance(name, Path) or str(name).count("/") != 1):
        looks_local = isinstance(name, Path) or str(name).startswith((".", "/", "~"))
        if looks_local or str(name).count("/") > 1:
            raise PlannerError(
                f"{name}: no such folder; expected a saved model or a hub name like 'owner/name'"
            )
    try:
        return kind.from_pretrained(name, **settings)
    except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise PlannerError(
            f"{name}: cannot be loaded as a {_WORDS[kind.__name__]}; expected a saved model's "
            f"folder or a hub name that can be reached from here ({reason})"
        ) from None


_WORDS = {"AutoModelForCausalLM": "causal language model", "AutoTokenizer": "tokenizer"}
