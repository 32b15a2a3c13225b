"""The export for transformers, whose assisted generation ends a chain by the draft's confidence."""

from __future__ import annotations

from ..policies import DynamicDrafting
from .notations import as_json
from .task import Export, Task
from .ways import ASSISTED_CHAIN, DRAWN_CHAIN


class HuggingFace:
    """A chain, ended after a token that the draft was not sure of."""

    def export(self, task: Task) -> Export:
        choice = task.choose((DRAWN_CHAIN, ASSISTED_CHAIN))
        drafting = choice.plan.drafting
        tokens, schedule, confidence = choice.num_tokens, "constant", 0.0
        notes = [
            "these are fields of the draft's generation config, for batch size 1; where "
            "scikit-learn is installed the threshold may be set anew in every step"
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
        return Export(as_json(config), choice.plan, notes)
