"""Exports for TensorRT-LLM: a chain by batch size, and a tree chosen anew in every step."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .settings import ranges
from .task import MATCHED_CHAIN, MATCHED_TREE, Export, Task


class TensorRT:
    """A chain, shorter in larger batches where these were measured."""

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_CHAIN,))
        most, schedule, notes = choice.num_tokens, {}, []
        if len(task.batch_sizes) > 1:
            lengths = task.schedule(choice.way)
            most = lengths[0][1]
            schedule = {last: min(length, most) for _, last, length in ranges(lengths)}
            notes.append("batches larger than any measured do not draft")
        config = {
            "decoding_type": "Draft_Target",
            "max_draft_len": most,
            "draft_len_schedule": schedule,
            "speculative_model": task.draft_model,
        }
        return Export(
            as_yaml(config), choice.plan, (*task.lacking_draft("speculative_model"), *notes)
        )


class TensorRTTree:
    """A tree chosen anew in every step among the likeliest: depth, width, nodes."""

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_TREE,))
        drafting, total = choice.plan.drafting, choice.num_tokens
        depth = drafting.max_depth
        config = {
            "decoding_type": "Eagle3",
            "max_draft_len": depth,
            "use_dynamic_tree": True,
            "dynamic_tree_max_topK": max(drafting.most_children, -(-total // depth)),
            "max_total_draft_tokens": total,
            "speculative_model": task.draft_model,
        }
        notes = (
            *task.lacking_draft("speculative_model"),
            "trees need EAGLE heads there; a draft model of its own drafts chains: export to "
            "trtllm",
            "draft tokens do not include the root; predicted is this runtime's plan",
        )
        return Export(as_yaml(config), choice.plan, notes)


def as_yaml(config: Mapping[str, object]) -> str:
    """`speculative_config` without what is empty or None; values as in JSON, which YAML reads."""
    lines = ["speculative_config:"]
    for name, value in config.items():
        if isinstance(value, Mapping):
            if value:
                lines += [f"  {name}:", *(f"    {key}: {each}" for key, each in value.items())]
        elif value is not None:
            lines.append(f"  {name}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"
