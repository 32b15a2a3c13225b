"""Exports for vLLM: chains, node lists for versions that took them, and made-up acceptance."""

from __future__ import annotations

from typing import Any

from ..drafting import TreeDrafting
from ..schema import PlannerError
from .settings import as_json, by_position, ranges, rank_paths
from .task import DRAWN_CHAIN, MATCHED_CHAIN, MATCHED_TREE, Export, Task

DRAFT_SAMPLING = {MATCHED_CHAIN: "greedy", DRAWN_CHAIN: "probabilistic"}
WAYS = tuple(DRAFT_SAMPLING)


class Vllm:
    """A chain, shorter in larger batches where these were measured."""

    def export(self, task: Task) -> Export:
        choice = task.choose(WAYS)
        config = _model(task) | {
            "num_speculative_tokens": choice.num_tokens,
            "draft_sample_method": DRAFT_SAMPLING[choice.way],
            "rejection_sample_method": "standard",
        }
        notes = list(task.lacking_draft("model"))
        schedule = task.schedule(choice.way) if len(task.batch_sizes) > 1 else []
        if schedule:
            config["num_speculative_tokens"] = max(tokens for _, tokens in schedule)
            config["num_speculative_tokens_per_batch_size"] = ranges(schedule)
            notes.append("batches larger than any measured draft as the largest one does")
        else:
            notes.append(f"one length for all batches: only batch size {task.batch_size} is known")
        return Export(as_json(config), choice.plan, tuple(notes))


class VllmTree:
    """A fixed tree, as versions up to 0.20.2 took it."""

    def export(self, task: Task) -> Export:
        choice = task.choose((MATCHED_TREE,))
        assert isinstance(choice.plan.drafting, TreeDrafting)
        paths = rank_paths(choice.plan.tree)
        config = _model(task) | {
            "num_speculative_tokens": len(paths),
            "speculative_token_tree": str(paths),
        }
        notes = (
            *task.lacking_draft("model"),
            "later versions of vLLM draft chains only: export to vllm",
        )
        return Export(as_json(config), choice.plan, notes)


class Synthetic:
    """Our predicted acceptance, to be played by the engine instead of the models' own."""

    def export(self, task: Task) -> Export:
        choice = task.choose(WAYS)
        predicted, tree = choice.plan.predicted, choice.plan.tree
        if predicted is None or predicted.reach is None:
            raise PlannerError(
                "plan: got one that predicts no acceptance under the verification of vllm; give "
                "the profile that it was made from"
            )
        rates = [round(rate, 4) for rate in by_position(predicted.reach, tree.depths)]
        config = _model(task) | {
            "num_speculative_tokens": choice.num_tokens,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": rates,
        }
        flag = "--spec-synth-rates " + ",".join(f"{rate:g}" for rate in rates)
        notes = (
            *task.lacking_draft("model"),
            "texts come out wrong on purpose: these rates decide what is accepted, not the models",
            f"for llama.cpp: {flag} --spec-draft-n-max {choice.num_tokens} --spec-draft-p-min 0",
        )
        return Export(as_json(config), choice.plan, notes)


def _model(task: Task) -> dict[str, Any]:
    model = task.draft_model
    return {"method": "draft_model"} | ({} if model is None else {"model": model})
