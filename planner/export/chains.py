"""Exports for programs that end a chain by the draft's confidence: llama.cpp and transformers."""

from __future__ import annotations

from ..drafting import ConfidentDrafting, Drafting, DynamicDrafting
from .settings import as_flags, as_json
from .task import DRAWN_CHAIN, MATCHED_CHAIN, Export, Task, Way


def _is_assisted(drafting: Drafting) -> bool:
    return isinstance(drafting, DynamicDrafting) and not drafting.adaptive


ASSISTED = Way("chain", "assisted-tuned", _is_assisted, grows=True)


CONFIDENT = Way(
    "topk", "confident", lambda drafting: isinstance(drafting, ConfidentDrafting), grows=True
)


class HuggingFace:
    """A chain, ended after a token that the draft was not sure of."""

    def export(self, task: Task) -> Export:
        choice = task.choose((DRAWN_CHAIN, ASSISTED))
        drafting = choice.plan.drafting
        config = {
            "num_assistant_tokens": choice.num_tokens,
            "num_assistant_tokens_schedule": "constant",
            "assistant_confidence_threshold": 0.0,
        }
        if isinstance(drafting, DynamicDrafting):
            config |= {
                "num_assistant_tokens": drafting.num_tokens,
                "num_assistant_tokens_schedule": drafting.schedule,
                "assistant_confidence_threshold": drafting.confidence,
            }
        notes = (
            "these are fields of the draft's generation config, for batch size 1; where "
            "scikit-learn is installed the threshold may be set anew in every step",
        )
        return Export(as_json(config), choice.plan, notes)


class LlamaCpp:
    """A chain of the draft's likeliest tokens, ended before one that it is not sure of."""

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_CHAIN, CONFIDENT))
        drafting = choice.plan.drafting
        sure = drafting.confidence if isinstance(drafting, ConfidentDrafting) else 0
        flags = {
            "spec-type": "draft-simple",
            "spec-draft-model": task.draft,
            "spec-draft-n-max": choice.num_tokens,
            "spec-draft-n-min": 0,
            "spec-draft-p-min": sure,
        }
        notes = [] if task.draft else ["--spec-draft-model is missing: name the draft's GGUF file"]
        return Export(as_flags(flags), choice.plan, tuple(notes))
