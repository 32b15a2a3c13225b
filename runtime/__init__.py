"""Espalier's runtime: carries a plan out on two language models and reports what it measured."""

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
    "load_tokenizer",
    "sampling_of",
]
