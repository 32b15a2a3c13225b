"""Exports for SGLang: its three numbers, its lengths by batch size, its table of times."""

from __future__ import annotations

from ..schema import PlannerError
from .settings import as_flags, as_json
from .task import MATCHED_CHAIN, MATCHED_TREE, Export, Task


class Sglang:
    """A tree chosen anew in every step among the likeliest: depth, width, nodes."""

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_TREE,))
        drafting = choice.plan.drafting
        width = least_width(drafting.most_children, drafting.max_depth, choice.num_tokens)
        flags = {
            "speculative-algorithm": "STANDALONE",
            "speculative-draft-model-path": task.draft_model,
            "speculative-num-steps": drafting.max_depth,
            "speculative-eagle-topk": width,
            "speculative-num-draft-tokens": drafting.most_nodes,
        }
        notes = list(task.lacking_draft("--speculative-draft-model-path"))
        if width > 1:
            notes += [
                "draft tokens include the root; trees need page size 1 on some attention backends",
                "SGLang chooses the tree anew in every step, by the draft's probabilities, and "
                "always drafts so many levels of that width; predicted is this runtime's plan",
            ]
        return Export(as_flags(flags), choice.plan, tuple(notes))


class SglangAdaptive:
    """Lengths of chains by batch size."""

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_CHAIN,))
        schedule = [(task.batch_size, choice.num_tokens)]
        if task.profile is not None:
            schedule = task.schedule(choice.way)
        config = {str(size): {"candidate_steps": [tokens]} for size, tokens in schedule}
        notes = (
            "read with --speculative-adaptive and top-k 1 by the EAGLE algorithms, not by "
            "STANDALONE; a batch size holds up to the next one",
        )
        return Export(as_json(config), choice.plan, notes)


class SglangTimes:
    """The measured t(n), as passes a second."""

    def export(self, task: Task) -> Export:
        if task.profile is None:
            raise PlannerError("profile: got none, expected the one that holds the measured times")
        context = task.plan.made_from.context if task.plan.made_from else None
        entries = [cost for cost in task.profile.costs if cost.batch_size == task.batch_size]
        costs = next((cost for cost in entries if cost.context == context), entries[0])
        counts, times = costs.verify.counts, costs.verify.low_ms
        table = {
            "sample_batch_tokens": counts,
            "sample_steps_per_sec": [round(1000 / ms, 3) for ms in times],
            "max_batch_tokens": counts[-1],
        }
        notes = (
            f"passes of this runtime at context {costs.context} and batch size "
            f"{costs.batch_size}; read by the DSPARK algorithm only",
        )
        return Export(as_json(table), None, notes)


def least_width(width: int, depth: int, num_tokens: int) -> int:
    """The least top-k, from `width` on, with which SGLang scores so many tokens: k below the root
    and k^2 in each level further down."""
    while width + (depth - 1) * width**2 < num_tokens:
        width += 1
    return width
