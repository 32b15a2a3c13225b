"""The export for OpenVINO GenAI, which drafts chains of one length."""

from __future__ import annotations

from ..documents.document import PlannerError
from ..documents.sampling import Sampling
from ..policies import Drafting
from .notations import as_json, chain_of
from .setting import Reading, Setting
from .task import Export, Task
from .ways import MATCHED_CHAIN


def settings_of(drafting: Drafting) -> dict[str, int | float]:
    """The settings that make OpenVINO GenAI draft like this: fields of its `GenerationConfig`."""
    return {"num_assistant_tokens": drafting.most_nodes - 1}


class OpenVino:
    """A chain of the draft's likeliest tokens, where decoding is greedy."""

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_CHAIN,))
        _check(task.plan.sampling)
        notes = [
            "these are fields of GenerationConfig; set INFERENCE_PRECISION_HINT to the precision "
            "that was planned for, or texts change",
            "assistant_confidence_threshold excludes num_assistant_tokens, so that nothing limits "
            "a chain; where decoding is greedy it needs logprobs of 1 or more, without which every "
            "chain has one token",
        ]
        return Export(as_json(settings_of(choice.plan.drafting)), choice.plan, notes)

    def read(self, setting: Setting) -> Reading:
        if setting.value("assistant_confidence_threshold"):
            raise setting.error(
                "assistant_confidence_threshold: no plan says that, since chains have no longest "
                "length with it; expected num_assistant_tokens"
            )
        setting.word("branching_factor", known=(1,))
        setting.skip("tree_depth", "draft_model", "draft_device")
        tokens = setting.number("num_assistant_tokens", default=5)
        _check(setting.sampling)
        return Reading(chain_of(tokens), MATCHED_CHAIN.verifier)


def _check(sampling: Sampling) -> None:
    if not sampling.is_greedy:
        raise PlannerError(
            f"plan: sampling: got {sampling}, expected temperature 0: where OpenVINO "
            "GenAI (seen in 2026.4) samples with a draft, its text does not follow the "
            "target's distribution; plan for it at temperature 0"
        )
