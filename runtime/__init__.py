"""Espalier's runtime: carries a plan out on two language models and reports what it measured.

Each name is imported when it is first asked for, so that what a model's config says is known
without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.verifiers import VERIFIERS, Verifier

    from .decode import Decoder, Generation, decode_prompts
    from .generation_config import sampling_of
    from .language_model import LanguageModel
    from .loading import as_language_model, load_model, load_tokenizer
    from .lookup import LookupBeside, LookupModel
    from .models import HuggingFaceModel
    from .randomness import Source, TorchSource
    from .scheduler import Request, Scheduler
    from .session import Session, StepRecord
    from .table import TableModel
    from .tensor_parallel import load_parallel
    from .token_distribution import distribution

__all__ = [
    "VERIFIERS",
    "Decoder",
    "Generation",
    "HuggingFaceModel",
    "LanguageModel",
    "LookupBeside",
    "LookupModel",
    "Request",
    "Scheduler",
    "Session",
    "Source",
    "StepRecord",
    "TableModel",
    "TorchSource",
    "Verifier",
    "as_language_model",
    "decode_prompts",
    "distribution",
    "load_model",
    "load_parallel",
    "load_tokenizer",
    "sampling_of",
]

HOMES = {
    "VERIFIERS": "planner.verifiers",
    "Verifier": "planner.verifiers",
    "Decoder": "runtime.decode",
    "Generation": "runtime.decode",
    "decode_prompts": "runtime.decode",
    "sampling_of": "runtime.generation_config",
    "LanguageModel": "runtime.language_model",
    "as_language_model": "runtime.loading",
    "load_model": "runtime.loading",
    "load_tokenizer": "runtime.loading",
    "LookupBeside": "runtime.lookup",
    "LookupModel": "runtime.lookup",
    "HuggingFaceModel": "runtime.models",
    "Source": "runtime.randomness",
    "TorchSource": "runtime.randomness",
    "Request": "runtime.scheduler",
    "Scheduler": "runtime.scheduler",
    "Session": "runtime.session",
    "StepRecord": "runtime.session",
    "TableModel": "runtime.table",
    "load_parallel": "runtime.tensor_parallel",
    "distribution": "runtime.token_distribution",
}
"""Public name -> the module that it lives in."""


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
