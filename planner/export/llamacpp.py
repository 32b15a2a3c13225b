"""The export for llama.cpp, which ends a chain by the draft's confidence."""

from __future__ import annotations

from ..policies import ConfidentDrafting, Drafting
from .notations import as_flags
from .task import Export, Task
from .ways import CONFIDENT_CHAIN, MATCHED_CHAIN


def flags_of(drafting: Drafting) -> dict[str, str | int | float]:
    """The settings that make llama.cpp draft like this, by the names of its options."""
    sure = drafting.confidence if isinstance(drafting, ConfidentDrafting) else 0.0
    return {
        "spec-type": "draft-simple",
        "spec-draft-n-max": drafting.most_nodes - 1,
        "spec-draft-n-min": 0,
        "spec-draft-p-min": sure or 0,
    }


class LlamaCpp:
    """A chain of the draft's likeliest tokens, ended before one that it is not sure of.

    Its measure is the share of the likeliest token among the draft's ten likeliest, whatever the
    temperature.  Only a profile of llama.cpp itself holds that, so that from others chains of one
    length are planned.
    """

    def export(self, task: Task) -> Export:
        ways = (MATCHED_CHAIN, CONFIDENT_CHAIN)
        as_it_is = task.profile is None and task.plan.sampling.is_greedy
        choice = task.choose(ways if task.is_measured or as_it_is else ways[:1])
        flags = {"spec-draft-model": task.draft, **flags_of(choice.plan.drafting)}
        notes = [] if task.draft else ["--spec-draft-model is missing: name a GGUF with --draft"]
        if not task.is_measured:
            notes.append(
                "llama.cpp's passes cost what they cost there, and its p-min is a share among ten "
                "tokens: planner profile --engine llamacpp measures both"
            )
        return Export(as_flags(flags), choice.plan, notes)
