"""The export for transformers, whose assisted generation ends a chain by the draft's confidence."""

from __future__ import annotations

from ..policies import ConfidentDrafting, Drafting, DynamicDrafting
from .notations import as_json, chain_of
from .setting import Reading, Setting
from .task import Export, Task
from .ways import ASSISTED_CHAIN, DRAWN_CHAIN

LONGEST = 24
"""Tokens of a chain whose length transformers does not limit, at most."""


def settings_of(drafting: Drafting) -> dict[str, str | int | float]:
    """The settings of a draft's generation config that make transformers draft like this; of a
    `ConfidentDrafting` the nearest that there is, since the token of too little confidence is
    offered here."""
    tokens, schedule, confidence = drafting.most_nodes - 1, "constant", 0.0
    if isinstance(drafting, DynamicDrafting):
        tokens = min(drafting.num_tokens, drafting.max_depth)
        schedule, confidence = drafting.schedule, drafting.confidence
    elif isinstance(drafting, ConfidentDrafting):
        confidence = drafting.confidence
    return {
        "num_assistant_tokens": tokens,
        "num_assistant_tokens_schedule": schedule,
        "assistant_confidence_threshold": confidence,
    }


class HuggingFace:
    """A chain, ended after a token that the draft was not sure of."""

    def export(self, task: Task) -> Export:
        choice = task.choose((DRAWN_CHAIN, ASSISTED_CHAIN))
        drafting = choice.plan.drafting
        notes = [
            "these are fields of the draft's generation config, for batch size 1; where "
            "scikit-learn is installed the threshold may be set anew in every step"
        ]
        if isinstance(drafting, DynamicDrafting) and drafting.schedule == "heuristic":
            choice = choice.unpredicted
            notes.append(
                f"chains of more than {drafting.max_depth} tokens, which the plan does not "
                "draft, cannot be ruled out there"
            )
        return Export(as_json(settings_of(drafting)), choice.plan, notes)

    def read(self, setting: Setting) -> Reading:
        if setting.value("prompt_lookup_num_tokens") is not None:
            raise setting.error(
                "prompt_lookup_num_tokens: got drafts from n-grams, which no setting is read as; "
                "planner profile --draft lookup plans for them"
            )
        tokens = setting.number("num_assistant_tokens", default=20)
        schedule = setting.word(
            "num_assistant_tokens_schedule", known=("constant", "heuristic", "heuristic_transient")
        )
        confidence = setting.share("assistant_confidence_threshold", default=0.4)
        setting.skip("assistant_model", "assistant_tokenizer", "target_lookbehind")
        if schedule == "constant" and confidence == 0:
            return Reading(chain_of(tokens), DRAWN_CHAIN.verifier)
        most, notes = tokens, []
        if schedule != "constant":
            most = max(tokens, LONGEST)
            notes = [f"transformers does not limit its chains; here they end at {most} tokens"]
        drafting = DynamicDrafting(
            max_depth=most,
            num_tokens=tokens,
            schedule="constant" if schedule == "constant" else "heuristic",
            confidence=confidence,
        )
        return Reading(drafting, ASSISTED_CHAIN.verifier, notes)
