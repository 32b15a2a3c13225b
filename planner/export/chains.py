"""Exports for programs that end a chain by the draft's confidence: llama.cpp and transformers."""

from __future__ import annotations

from ..policies import ConfidentDrafting, DynamicDrafting
from .settings import as_flags, as_json
from .task import Export, Task
from .ways import (
    ASSISTED_CHAIN,
    CONFIDENT_CHAIN,
    DRAWN_CHAIN,
    MATCHED_CHAIN,
)


class HuggingFace:
    """A chain, ended after a token that the draft was not sure of."""

    def export(self, task: Task) -> Export:
        choice = task.choose((DRAWN_CHAIN, ASSISTED_CHAIN))
        drafting = choice.plan.drafting
        tokens, schedule, confidence = choice.num_tokens, "constant", 0.0
        notes = [
            "these are fields of the draft's generation config, for batch size 1; where "
            "scikit-learn is installed the threshold may be set anew in every step",
        ]
        if isinstance(drafting, DynamicDrafting):
            tokens = min(drafting.num_tokens, drafting.max_depth)
            schedule, confidence = drafting.schedule, drafting.confidence
            if schedule == "heuristic":
                choice = choice.unpredicted
                notes.append(
                    f"chains of more than {drafting.max_depth} tokens, which the plan does not "
                    "draft, cannot be ruled out there"
                )
        config = {
            "num_assistant_tokens": tokens,
            "num_assistant_tokens_schedule": schedule,
            "assistant_confidence_threshold": confidence,
        }
        return Export(as_json(config), choice.plan, tuple(notes))


class LlamaCpp:
    """A chain of the draft's likeliest tokens, ended before one that it is not sure of.

    Its measure is the draft's distribution at temperature 1, which is ours where decoding is
    greedy; under other temperatures chains have one length.
    """

    def export(self, task: Task) -> Export:
        greedy = task.plan.sampling.temperature == 0
        choice = task.choose((MATCHED_CHAIN, CONFIDENT_CHAIN) if greedy else (MATCHED_CHAIN,))
        drafting = choice.plan.drafting
        sure = drafting.confidence if isinstance(drafting, ConfidentDrafting) else 0
        flags = {
            "spec-type": "draft-simple",
            "spec-draft-model": task.draft,
            "spec-draft-n-max": choice.num_tokens,
            "spec-draft-n-min": 0,
            "spec-draft-p-min": sure,
        }
        notes = [] if task.draft else ["--spec-draft-model is missing: name a GGUF with --draft"]
        if sure > 0:
            notes.append(
                "llama.cpp takes a token's share of the draft's few likeliest, which is never "
                "smaller than the probability that was planned with: chains end a little later"
            )
        return Export(as_flags(flags), choice.plan, tuple(notes))
