"""Exports for SGLang: its three numbers, its lengths by batch size, its table of times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..documents.tree import Tree
from ..policies import Drafting, TreeDrafting
from .notations import HEADS_NOTE, as_flags, as_json, chain_of
from .setting import OWN_HEADS, Reading, Setting
from .task import Export, Task
from .ways import MATCHED_CHAIN, MATCHED_TREE

DRAFT_MODEL = "STANDALONE"
ALGORITHMS = (DRAFT_MODEL, "EAGLE", "EAGLE3", "NEXTN")
"""Algorithms that draft by model or heads with these numbers; all but the first by heads."""
WITHOUT_MODEL = ("EAGLE", "NEXTN")
"""Algorithms that need no model of their own where the target has layers for it."""


def flags_of(
    drafting: Drafting, draft_model: str | None, method: str | None = None
) -> dict[str, str | int | None]:
    """The settings that make SGLang draft like this, by the names of its options.

    method  its algorithm; None: the one that a draft model is for
    """
    if isinstance(drafting, TreeDrafting):
        tree = drafting.tree
    else:
        tree = Tree([-1, *range(drafting.most_nodes - 1)])
    return {
        "speculative-algorithm": method or DRAFT_MODEL,
        "speculative-draft-model-path": draft_model,
        "speculative-num-steps": tree.depth,
        "speculative-eagle-topk": least_width(tree),
        "speculative-num-draft-tokens": tree.num_nodes,
    }


class Sglang:
    """A tree chosen anew in every step among the likeliest: depth, width, nodes.  A chain where
    the times are SGLang's own, which were measured of chains."""

    def export(self, task: Task) -> Export:
        tree_way = replace(MATCHED_TREE, width=least_width)
        choice = task.choose((MATCHED_CHAIN,) if task.is_measured else (tree_way,))
        flags = flags_of(choice.plan.drafting, task.draft_model, task.method)
        notes = task.lacking_draft("--speculative-draft-model-path")
        if flags["speculative-eagle-topk"] != 1:
            notes += [
                "draft tokens include the root; trees need page size 1 on some attention backends",
                "predicted is one tree of these numbers for all steps; SGLang chooses its nodes "
                "anew in every step, by the draft's probabilities",
            ]
        return Export(as_flags(flags), choice.plan, notes)

    def read(self, setting: Setting) -> Reading:
        algorithm = setting.word("speculative_algorithm", "speculative_algo", known=ALGORITHMS)
        setting.word("speculative_adaptive", known=(False,))
        for name in ("single", "acc"):  # below 1 the target's distribution is not kept
            setting.word(f"speculative_accept_threshold_{name}", known=(1.0, 1))
        setting.skip(r"speculative_(draft_(?!window)|attention|moe)\w+")
        depth = setting.number("speculative_num_steps")
        width = setting.number("speculative_eagle_topk", default=1)
        nodes = setting.number("speculative_num_draft_tokens", least=2, default=depth + 1)
        notes = () if algorithm == DRAFT_MODEL else (OWN_HEADS,)
        return Reading(served_tree(setting, depth, width, nodes), MATCHED_TREE.verifier, notes)


class SglangAdaptive:
    """Lengths of chains by batch size."""

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_CHAIN,))
        schedule = task.schedule(choice)
        config = {str(size): {"candidate_steps": [tokens]} for size, tokens in schedule}
        notes = (
            *([] if task.method else [HEADS_NOTE]),
            "read with --speculative-adaptive and top-k 1 by the EAGLE algorithms, not by "
            "STANDALONE; a batch size holds up to the next one",
        )
        return Export(as_json(config), choice.plan, notes)

    def read(self, setting: Setting) -> Reading:
        known = {}
        for size in [*setting.content]:
            slot = setting.value(size)
            setting.size(size, "batch size")
            steps = slot.get("candidate_steps") if isinstance(slot, dict) else None
            if not isinstance(steps, list) or len(steps) != 1:
                raise setting.error(
                    f"{size}: got {slot!r:.60}, expected candidate_steps of one length: among "
                    "several it chooses while it serves, which no plan says"
                )
            known[int(size)] = setting.whole(steps[0], f"{size}.candidate_steps", least=0)
        sizes = [size for size in sorted(known) if size <= setting.batch_size]
        if not sizes:
            raise setting.error(
                f"batch size {setting.batch_size}: no length for it, only for {sorted(known)}"
            )
        return Reading(chain_of(known[sizes[-1]]), MATCHED_CHAIN.verifier, (OWN_HEADS,))


class SglangTimes:
    """The measured t(n), as passes a second."""

    def export(self, task: Task) -> Export:
        costs = task.times(task.batch_size)
        counts = np.arange(costs.verify.first, costs.verify.last + 1) * task.batch_size
        table = {
            "sample_batch_tokens": counts.tolist(),
            "sample_steps_per_sec": np.round(1000 / costs.verify.ms, 3).tolist(),
            "max_batch_tokens": int(counts[-1]),
        }
        notes = (
            f"passes of {task.timed_program} at context {costs.context} and batch size "
            f"{costs.batch_size}; read by the DSPARK algorithm only",
        )
        return Export(as_json(table), None, notes)


def served_tree(setting: Setting, depth: int, width: int, num_nodes: int) -> TreeDrafting:
    """The tree that these numbers mean: a chain, or one level of children.

    Raises PlannerError for all others, whose nodes are chosen while they are drafted.
    """
    if width == 1:
        return chain_of(depth)
    if depth == 1:
        return TreeDrafting(parents=[-1, *[0] * min(width, num_nodes - 1)])
    raise setting.error(
        f"top-k {width} on {depth} levels: the tree is chosen anew in every step among the "
        "draft's likeliest, which no plan says; expected top-k 1, or one level"
    )


def least_width(tree: Tree) -> int:
    """The least top-k with which SGLang scores enough nodes: k below the root and k^2 in each level
    further down."""
    width = int(tree.num_children.max())
    while width + (tree.depth - 1) * width**2 < tree.num_nodes - 1:
        width += 1
    return width
