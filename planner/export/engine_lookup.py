"""Exports of plans that draft from the text's own n-grams, for engines that look up themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..documents.document import PlannerError
from ..documents.origin import LOOKUP, looks_up
from .notations import as_json
from .task import Export, Task
from .ways import MATCHED_CHAIN

MOST_MATCHED = 8
"""Tokens of a match, at most: as many as the runtime's own look-up knows."""
MATCHES = {"prompt_lookup_min": 1, "prompt_lookup_max": MOST_MATCHED}
"""Tokens of a match, as vLLM is told them."""
COPIED = (
    "it copies what stands behind one earlier match, a longest one, and drafts nothing where there "
    "is none; here every token is the likeliest by all matches: so nothing is predicted of it"
)


@dataclass(frozen=True)
class Lookup:
    """A chain from the engine's own look-up, its tokens accepted where the target's draw is the
    same.

    settings  by the most tokens of a chain
    """

    settings: Callable[[int], dict[str, str | int]]
    note: str

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_CHAIN,)).unpredicted
        settings = self.settings(choice.num_tokens)
        return Export(as_json(settings), choice.plan, [COPIED, self.note])


def _of_vllm(num_tokens: int) -> dict[str, str | int]:
    return {"method": "ngram", "num_speculative_tokens": num_tokens, **MATCHES}


def _of_transformers(num_tokens: int) -> dict[str, str | int]:
    return {"prompt_lookup_num_tokens": num_tokens, "max_matching_ngram_size": MOST_MATCHED}


LOOKUPS = {
    "vllm": Lookup(_of_vllm, "fields of --speculative-config; there is no draft model"),
    "hf": Lookup(_of_transformers, "fields of the target's own generation config, batch size 1"),
}
"""Engines that are told to look up."""
TIMES = ("sglang-sps", "sglang-sps-additive", "llamacpp-costs")
"""Exports of the target's times alone, whatever drafts."""


def check_told(draft: str, engine: str) -> None:
    """Raise PlannerError for a draft that looks up where the engine cannot be told so."""
    if looks_up(draft) and engine not in (*TIMES, *(LOOKUPS if draft == LOOKUP else ())):
        able = f"is exported to {', '.join(LOOKUPS)}" if draft == LOOKUP else "no engine drafts by"
        raise PlannerError(
            f"plan: got one for the draft {draft}, which {able}, so not to {engine}; profile with "
            "a draft model alone"
        )
