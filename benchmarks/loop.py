"""The phases of a step of trees that grow, and how long each takes.

    python -m benchmarks.loop [--shape NAME] [--num-nodes N] [--num-steps N]

Decodes with the embedded pair, its target inflated, T = 0.6, and prints per way of drafting the
median milliseconds of a step by phase, and which share of the step `grow` is: deciding what to
draft, and building the tree with its ancestors on the host.  All ways take turns at every
prompt.
"""

from __future__ import annotations

import argparse

import numpy as np
from tqdm import tqdm

from planner.documents.sampling import Sampling
from planner.policies import GreedyDrafting, Policy, ThresholdDrafting
from planner.policies.fixed import FixedTree
from planner.verifiers import VERIFIERS
from profiler.times.cost_grid import typical_tree
from runtime.embedded import load_prompts
from runtime.randomness import seeded_source
from runtime.session import Session, StepRecord

from .contests import SHAPES, draft_of, target_of

DEPTH, CHILDREN = 20, 8
PHASES = ("nodes", "passes", "draft", "grow", "verify", "accept", "step", "share")


def policies(num_nodes: int) -> dict[str, Policy]:
    """Policies by name: a fixed tree, and DySpec's two."""
    limits = {"num_nodes": num_nodes, "max_depth": DEPTH, "max_children": CHILDREN}
    settings = {
        "dyspec-greedy": GreedyDrafting(**limits),
        "dyspec-threshold": ThresholdDrafting(threshold=0.5 / num_nodes, **limits),
    }
    grown = {name: drafting.policy(deterministic=False) for name, drafting in settings.items()}
    return {"fixed tree": FixedTree(typical_tree(num_nodes)), **grown}


def phases(step: StepRecord) -> tuple[float, ...]:
    """The numbers of one step, in the order of `PHASES`."""
    return (
        step.num_nodes, len(step.widths), sum(step.draft_ms), step.grow_ms, step.verify_ms,
        step.accept_ms, step.total_ms, step.grow_ms / step.total_ms,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="100M", help="'' is as it is")
    parser.add_argument("--num-nodes", type=int, default=64)
    parser.add_argument("--num-steps", type=int, default=24, help="of each way of drafting")
    arguments = parser.parse_args()
    target = target_of(arguments.shape)
    session = Session(
        target, draft_of("distilled"), verifier=VERIFIERS["rrsw"],
        sampling=Sampling(temperature=0.6), rng=seeded_source(0, target.device),
    )  # fmt: skip
    ways = policies(arguments.num_nodes)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
    prompts = load_prompts("evaluation")
    for repeat in tqdm(range(arguments.num_steps + 2), desc=target.info.name):
        prompt = prompts[repeat % len(prompts)]
        for name, policy in ways.items():
            session.prefill(prompt)
            step = session.step(policy)
            if repeat >= 2:  # the first ones compile and warm up
                found[name].append(phases(step))
    print(f"{'':<18}" + "".join(f"{phase:>9}" for phase in PHASES))
    for name, rows in found.items():
        *numbers, share = np.median(rows, axis=0)
        print(f"{name:<18}" + "".join(f"{each:>9.2f}" for each in numbers) + f"{share:>9.2%}")


if __name__ == "__main__":
    main()
