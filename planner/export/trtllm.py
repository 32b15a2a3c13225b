"""Exports for TensorRT-LLM: a chain by batch size, and a tree chosen anew in every step."""

from __future__ import annotations

from dataclasses import replace

from ..documents.tree import Tree
from .notations import HEADS_NOTE, Schedule, as_yaml, chain_of, one_length, ranges
from .setting import OWN_HEADS, Reading, Setting
from .sglang import served_tree
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
            notes.append(
                "each size is the largest that drafts so many tokens; older versions take it for "
                "the smallest"
            )
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

    def read(self, setting: Setting) -> Reading:
        return _read(setting)


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

    def read(self, setting: Setting) -> Reading:
        return _read(setting)


def _read(setting: Setting) -> Reading:
    known = ("Draft_Target", "DraftTarget", "Eagle", "Eagle3", "MTP")
    notes = (OWN_HEADS,) if setting.word("decoding_type", known=known) in known[2:] else ()
    setting.word("use_rejection_sampling", known=(False,))
    setting.skip("speculative_model(_dir)?")
    most = setting.number("max_draft_len", "num_nextn_predict_layers", least=0)
    if setting.word("use_dynamic_tree", known=(False, True)):
        width = setting.number("dynamic_tree_max_topK")
        total = setting.number("max_total_draft_tokens")
        return Reading(served_tree(setting, most, width, total + 1), MATCHED_TREE.verifier, notes)
    setting.skip("max_total_draft_tokens", "dynamic_tree_max_topK")
    lengths = setting.value("draft_len_schedule") or {}
    if not isinstance(lengths, dict):
        raise setting.error(f"draft_len_schedule: got {lengths!r:.40}, expected lengths by size")
    if lengths:
        by_size = {
            setting.size(size, "draft_len_schedule"): setting.whole(
                tokens, f"draft_len_schedule.{size}", least=0
            )
            for size, tokens in lengths.items()
        }
        upper = min((size for size in by_size if size >= setting.batch_size), default=None)
        most = 0 if upper is None else by_size[upper]
    return Reading(chain_of(most), MATCHED_CHAIN.verifier, notes)


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
