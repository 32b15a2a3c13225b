"""Exports for TensorRT-LLM: a chain by batch size, and a tree chosen anew in every step."""

from __future__ import annotations

from dataclasses import replace

from ..documents.tree import Tree
from .notations import HEADS_NOTE, Schedule, as_yaml, one_length, ranges
from .task import Export, Task
from .ways import MATCHED_CHAIN, MATCHED_TREE

STALE_NOTE = (
    "while a batch drafts nothing (length 0, or larger than any measured) the draft's cache is not "
    "kept up, and its requests' acceptance stays ruined afterwards, without a word (TensorRT-LLM "
    "#16888): where batches grow and shrink again, write 1 for 0"
)


class TensorRT:
    """A chain, shorter in larger batches where these were measured."""

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_CHAIN,))
        most, lengths, schedule = choice.num_tokens, {}, task.schedule(choice)
        notes = task.lacking_draft("speculative_model")
        if len(schedule) > 1:
            lengths = by_upper_bound(schedule)
            most = max(lengths.values())
            notes.append("batches larger than any measured do not draft")
            if 0 in lengths.values():
                notes.append(STALE_NOTE)
            if any(tokens > most for _, tokens in schedule):
                notes.append("no batch may draft more there than the smallest: longer ones are cut")
        else:
            notes.append(one_length(task.batch_size))
        config = {
            "decoding_type": "Draft_Target",
            "max_draft_len": most,
            "draft_len_schedule": lengths,
            "speculative_model": task.draft_model,
        }
        return Export(as_yaml({"speculative_config": config}), choice.plan, notes)


class TensorRTTree:
    """A tree chosen anew in every step among the likeliest: depth, width, nodes."""

    def export(self, task: Task) -> Export:
        choice = task.choose((replace(MATCHED_TREE, width=least_width),))
        tree = choice.plan.tree
        config = {
            "decoding_type": "Eagle3",
            "max_draft_len": tree.depth,
            "use_dynamic_tree": True,
            "dynamic_tree_max_topK": least_width(tree),
            "max_total_draft_tokens": tree.num_nodes - 1,
            "speculative_model": task.draft,
        }
        notes = [] if task.draft else ["speculative_model is missing: name the heads with --draft"]
        notes += [
            HEADS_NOTE,
            "predicted is one tree of these numbers for all steps; TensorRT-LLM chooses its nodes "
            "anew in every step; a draft model of its own drafts chains there: export to trtllm",
        ]
        return Export(as_yaml({"speculative_config": config}), choice.plan, notes)


def by_upper_bound(schedule: Schedule) -> dict[int, int]:
    """Tokens to draft by the largest batch size that drafts so many; none more than the smallest
    batch, and that one at least one."""
    most = max(schedule[0][1], 1)
    cut = [(size, min(tokens, most)) for size, tokens in schedule]
    cut[0] = (schedule[0][0], most)
    return {last: tokens for _, last, tokens in ranges(cut)}


def least_width(tree: Tree) -> int:
    """The least top-k that TensorRT-LLM takes for it: nodes <= top-k times depth."""
    return max(int(tree.num_children.max()), -(-(tree.num_nodes - 1) // tree.depth))
