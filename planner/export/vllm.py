"""Exports for vLLM: chains, node lists for versions that took them, and made-up acceptance."""

from __future__ import annotations

import ast
from typing import Any

from ..documents.tree import Tree
from ..policies import Drafting, TreeDrafting
from .engine_lookup import MATCHES
from .notations import as_json, chain_of, one_length, ranges, rank_paths, tree_of
from .setting import OWN_HEADS, Reading, Setting
from .task import Choice, Export, Task
from .ways import DRAWN_CHAIN, MATCHED_CHAIN, UNIFORM_TREE, Way

DRAFT_MODEL = "draft_model"
METHODS = (DRAFT_MODEL, "eagle", "eagle3", "mtp", "dflash", "medusa", "mlp_speculator")
"""Methods that draft by model or heads; all but the first by heads."""
WITHOUT_MODEL = ("mtp", "ngram")
"""Methods that need no model of their own."""
LOOKED_UP = {"ngram": MATCHES}
"""Further settings of a method that copies from the text."""
OWN_METHODS = (*METHODS, *LOOKED_UP)


def settings_of(
    drafting: Drafting, draft_model: str | None, *, drawn: bool = False, method: str | None = None
) -> dict[str, Any]:
    """The settings that make vLLM draft like this: fields of its `SpeculativeConfig`.

    drawn   are tokens drawn from the draft's distribution, and not its likeliest?
    method  its own word for what drafts; None: a draft model
    """
    name = method or DRAFT_MODEL
    return LOOKED_UP.get(name, {}) | {
        "method": name,
        "model": draft_model,
        "num_speculative_tokens": drafting.most_nodes - 1,
        "draft_sample_method": "probabilistic" if drawn else "greedy",
        "rejection_sample_method": "standard",
    }


class Vllm:
    """A chain, shorter in larger batches where these were measured."""

    def export(self, task: Task) -> Export:
        choice = task.choose(drawn_at_temperature(task))
        config = _config(task, choice, "standard")
        schedule = task.schedule(choice)
        notes = task.lacking_draft("model")
        if len(schedule) > 1:
            config["num_speculative_tokens"] = max(tokens for _, tokens in schedule)
            config["num_speculative_tokens_per_batch_size"] = ranges(schedule)
            notes.append("batches larger than any measured draft as the largest one does")
        else:
            notes.append(one_length(task.batch_size))
        return Export(as_json(config), choice.plan, notes)

    def read(self, setting: Setting) -> Reading:
        return _read(setting)


class VllmTree:
    """A fixed tree, as versions up to 0.20.2 took it.

    Their proposer drafts so many children for every node of a level as that level has nodes for one
    of the level above, so that other trees would be cut or filled up.
    """

    def export(self, task: Task) -> Export:
        choice = task.choose((UNIFORM_TREE,)).unpredicted
        paths = rank_paths(choice.plan.tree)
        config = {
            "method": task.method or DRAFT_MODEL,
            "model": task.draft_model,
            "num_speculative_tokens": len(paths),
            "speculative_token_tree": str(paths),
        }
        notes = (
            *task.lacking_draft("model"),
            "versions that draft trees were seen to verify the nodes as one list, and then a tree "
            "is slower than a chain: measure it there, or export to vllm",
        )
        return Export(as_json(config), choice.plan, notes)

    def read(self, setting: Setting) -> Reading:
        return _read(setting)


class Synthetic:
    """Our predicted acceptance, to be played by the engine instead of the models' own."""

    def export(self, task: Task) -> Export:
        choice = task.choose(drawn_at_temperature(task))
        rates = [round(rate, 4) for rate in choice.chances]
        config = _config(task, choice, "synthetic") | {"synthetic_acceptance_rates": rates}
        flag = "--spec-synth-rates " + ",".join(f"{rate:g}" for rate in rates)
        notes = (
            *task.lacking_draft("model"),
            "texts come out wrong on purpose: these rates decide what is accepted, not the models",
            f"for llama.cpp: {flag} --spec-draft-n-max {choice.num_tokens} --spec-draft-p-min 0",
        )
        return Export(as_json(config), choice.plan, notes)

    def read(self, setting: Setting) -> Reading:
        return _read(setting)


def _read(setting: Setting) -> Reading:
    method = setting.word("method", known=METHODS)
    ways = {"greedy": MATCHED_CHAIN, "probabilistic": DRAWN_CHAIN}
    way = ways[setting.word("draft_sample_method", known=list(ways))]
    setting.word("rejection_sample_method", known=("standard", "synthetic"))
    for name in ("enable_adaptive_verification", "parallel_drafting"):
        setting.word(name, known=(False,))
    setting.skip(
        "model", "speculative_model", r"draft_(?!sample)\w+", r"synthetic_\w+", "quantization",
        "(code_)?revision", "max_model_len", "enforce_eager", r"(attention|moe)_backend",
    )  # fmt: skip
    notes = [] if method == DRAFT_MODEL else [OWN_HEADS]
    given = setting.value("speculative_token_tree")
    if given is not None:
        drafting = TreeDrafting(parents=_tree(setting, given).parents.tolist())
        if not UNIFORM_TREE.takes(drafting):
            notes.append(
                "vLLM drafts as written only trees in which all nodes of a level have equally many "
                "children"
            )
        setting.skip("num_speculative_tokens")
        return Reading(drafting, UNIFORM_TREE.verifier, notes)
    return Reading(_length(setting), way.verifier, notes)


def _length(setting: Setting) -> Drafting:
    """The chain that it drafts in batches of the setting's size."""
    most = setting.number("num_speculative_tokens")
    lengths = setting.value("num_speculative_tokens_per_batch_size")
    if lengths is None:
        return chain_of(most)
    name = "num_speculative_tokens_per_batch_size"
    if not isinstance(lengths, list) or not all(
        isinstance(each, list) and len(each) == 3 for each in lengths
    ):
        raise setting.error(f"{name}: got {lengths!r:.40}, expected [first, last, tokens] each")
    by_first = {
        setting.size(first, name): setting.whole(tokens, name, least=0)
        for first, _, tokens in lengths
    }
    begun = [first for first in by_first if first <= setting.batch_size]
    if not begun:
        raise setting.error(f"{name}: batch size {setting.batch_size}: no length for it")
    return chain_of(min(by_first[max(begun)], most))


def _tree(setting: Setting, given: Any) -> Tree:
    """The tree in a string of paths, or in a list of them."""
    try:
        paths = ast.literal_eval(given) if isinstance(given, str) else given
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        paths = None
    if not isinstance(paths, list | tuple):
        raise setting.error(f"speculative_token_tree: got {given!r:.40}, expected a list of paths")
    return tree_of(paths)


def drawn_at_temperature(task: Task) -> tuple[Way, ...]:
    """Chains matched, and drawn unless the sampling cuts more than the temperature does: vLLM's
    drafts are not cut, and where a profile cut both distributions, drawn chains were measured
    otherwise."""
    return (MATCHED_CHAIN,) if task.plan.sampling.cuts else (MATCHED_CHAIN, DRAWN_CHAIN)


def _config(task: Task, choice: Choice, rejection: str) -> dict[str, Any]:
    told = settings_of(
        choice.plan.drafting,
        task.draft_model,
        drawn=choice.way != MATCHED_CHAIN,
        method=task.method,
    )
    return told | {"rejection_sample_method": rejection}
