"""The export for llama.cpp, which ends a chain by the draft's confidence."""

from __future__ import annotations

from ..policies import ConfidentDrafting, Drafting
from .notations import as_flags, chain_of
from .setting import OWN_HEADS, Reading, Setting
from .task import Export, Task
from .ways import CONFIDENT_CHAIN, DRAWN_CHAIN, MATCHED_CHAIN

DRAFT_MODEL = "draft-simple"
MODELS = (DRAFT_MODEL, "draft-eagle3", "draft-mtp", "draft-dflash")
"""Types that draft by model or heads; all but the first by heads."""
LOOKED_UP = {
    name: f"spec-{name}-size-m" for name in ("ngram-simple", "ngram-map-k", "ngram-map-k4v")
}
"""Types that copy from the text, and the option that has the length of what they copy."""
OWN_METHODS = (*MODELS, *LOOKED_UP)
WITHOUT_MODEL = ("draft-mtp", *LOOKED_UP)
"""Types that need no model of their own."""


def flags_of(drafting: Drafting, method: str | None = None) -> dict[str, str | int | float]:
    """The settings that make llama.cpp draft like this, by the names of its options.

    method  its type of speculation; None: the one that a draft model is for
    """
    kind, length = method or DRAFT_MODEL, drafting.most_nodes - 1
    if kind in LOOKED_UP:
        return {"spec-type": kind, LOOKED_UP[kind]: length}
    sure = drafting.confidence if isinstance(drafting, ConfidentDrafting) else 0.0
    return {
        "spec-type": kind,
        "spec-draft-n-max": length,
        "spec-draft-n-min": 0,
        "spec-draft-p-min": sure or 0,
    }


SHORT = "md|td|tbd|hfr?d|ngld|devd|ct[kv]d|C[br]*d|otd|n?cmoed"
"""Short names, as a regular expression, of flags that say where and how the draft model runs."""


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
        draft = task.draft or task.served_heads
        flags = {"spec-draft-model": draft, **flags_of(choice.plan.drafting, task.method)}
        notes = []
        if draft is None and not task.is_drafted_alone:
            notes.append("--spec-draft-model is missing: name a GGUF with --draft")
        if not task.is_measured:
            notes.append(
                "llama.cpp's passes cost what they cost there, and its p-min is a share among ten "
                "tokens: planner profile --engine llamacpp measures both"
            )
        return Export(as_flags(flags), choice.plan, notes)

    def read(self, setting: Setting) -> Reading:
        """The names that it has had for them are read alike; the defaults are those of 2026."""
        kind = setting.word("spec_type", known=MODELS)
        most = setting.number("spec_draft_n_max", "draft_max", "draft_n", "draft", default=3)
        least = setting.number("spec_draft_n_min", "draft_min", "draft_n_min", least=0, default=0)
        sure = setting.share("spec_draft_p_min", "draft_p_min", default=0.0)
        drawn = setting.word("spec_draft_sampling", known=("greedy", "probabilistic")) != "greedy"
        setting.skip(r"spec_draft_(?!n_m|p_m|backend|samp)\w+", r"\w+_draft", SHORT)
        if least > (most if sure == 0 else 1):
            raise setting.error(
                f"spec_draft_n_min: got {least}, with which shorter chains are thrown away after "
                "they were drafted; no plan says that, expected 0"
            )
        notes = [] if kind == DRAFT_MODEL else [OWN_HEADS]
        if sure == 0:
            way = DRAWN_CHAIN if drawn else MATCHED_CHAIN
            return Reading(chain_of(most), way.verifier, notes)
        if drawn:
            raise setting.error(
                f"spec_draft_p_min: got {sure:g} with spec_draft_sampling probabilistic, which no "
                "plan says; expected 0, or greedy"
            )
        notes.append(
            "p-min is a share among the draft's ten likeliest tokens there, and among all here, "
            "unless the profile is one of llama.cpp itself"
        )
        drafting = ConfidentDrafting(max_depth=most, confidence=sure)
        return Reading(drafting, CONFIDENT_CHAIN.verifier, notes)
