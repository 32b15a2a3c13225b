"""The export for llama.cpp, which ends a chain by the draft's confidence."""

from __future__ import annotations

from ..policies import ConfidentDrafting
from .notations import as_flags
from .task import Export, Task
from .ways import CONFIDENT_CHAIN, MATCHED_CHAIN


class LlamaCpp:
    """A chain of the draft's likeliest tokens, ended before one that it is not sure of.

    Its measure is the draft's distribution at temperature 1, which is ours where decoding is
    greedy; under other temperatures chains have one length.
    """

    def export(self, task: Task) -> Export:
        greedy = task.plan.sampling.is_greedy
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
        return Export(as_flags(flags), choice.plan, notes)
