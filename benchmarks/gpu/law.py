"""Is the decode loop right on this device?  Greedy text, and the law of what a step emits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.stats import chi2

from .bench import Bench
from .results import Row

if TYPE_CHECKING:
    from planner.documents.tree import Tree
    from runtime import LanguageModel
    from runtime.session import Session

NUM_STEPS = {True: 20, False: 400}
"""Steps by whether it is a dry run."""
LEAST_EXPECTED = 5.0
"""Tokens that are expected less often are counted as one."""
LEAST_CHANCE, MOST_OF_ANOTHER = 1e-5, 1e-6
"""A right loop is found wrong with the first chance; another law has to reach only the second."""
NODES, CHAIN = 16, 5
"""Sizes of the trees, and of the chains of verifiers that know no others."""


def run(bench: Bench) -> None:
    """A row of greedy texts beside transformers' `generate`, then one for every verifier."""
    from planner.verifiers import VERIFIERS

    target, draft = (_loaded(bench, role) for role in ("target", "draft"))
    row: Row = {"what": "greedy texts", "attention": target.attention}
    bench.attempt(row, lambda: _greedy(bench, target, draft))
    for name in VERIFIERS:
        bench.check_time(5)
        bench.attempt(
            {"what": f"law of {name}"}, lambda name=name: judged(bench, target, draft, name)
        )


def _loaded(bench: Bench, role: str) -> LanguageModel:
    from planner.cli.models import load_named

    return load_named(
        f"embedded/{role}", device=bench.device.type, dtype="float32", attention="auto"
    )


def _greedy(bench: Bench, target: LanguageModel, draft: LanguageModel) -> Row:
    """Texts of a tree plan that are those of `generate`, in float32."""
    from planner.documents.sampling import Sampling
    from planner.plans.plan import Plan
    from planner.policies import TreeDrafting
    from profiler.times.cost_grid import typical_tree
    from runtime import Decoder
    from runtime.embedded import load_pair, load_prompts

    parents = typical_tree(NODES).parents
    plan = Plan(
        drafting=TreeDrafting(parents=list(map(int, parents))), verifier="topk",
        sampling=Sampling(temperature=0),
    )  # fmt: skip
    decoder = Decoder.from_plan(plan, target, draft)
    module = load_pair()[0].to(bench.device)
    num_prompts, num_tokens = (2, 8) if bench.dry else (8, 64)
    equal, steps = 0, 0
    for prompt in load_prompts("evaluation", num_prompts):
        made = decoder.generate(prompt, max_new_tokens=num_tokens, stop_tokens=[])
        ids = torch.tensor([prompt], device=bench.device)
        other = module.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False,
            max_new_tokens=num_tokens, min_new_tokens=num_tokens,
        )  # fmt: skip
        equal += made.tokens == other[0, len(prompt) :].tolist()
        steps += made.report.measured.num_steps
    return {
        "texts": num_prompts, "equal": equal, "right": equal == num_prompts,
        "tokens_per_step": round(num_prompts * num_tokens / steps, 3),
    }  # fmt: skip


def judged(bench: Bench, target: LanguageModel, draft: LanguageModel, name: str) -> Row:
    """How probable it is that a right loop's first tokens are as far from the target's law as
    these, and that one of the draft's law would have emitted them."""
    from planner.documents.sampling import Sampling
    from planner.verifiers import VERIFIERS
    from profiler.times.cost_grid import typical_tree
    from runtime.embedded import load_prompts
    from runtime.randomness import seeded_source
    from runtime.session import Session

    verifier, sampling = VERIFIERS[name], Sampling(temperature=1)
    prompt = load_prompts("evaluation", 1)[0]
    session = Session(
        target, draft, verifier=verifier, sampling=sampling,
        rng=seeded_source(0, bench.device), timed=False,
    )  # fmt: skip
    session.prefill(prompt)
    most = verifier.max_children
    tree = typical_tree(CHAIN if most == 1 else NODES, most or NODES)
    counts = _first_tokens(bench, session, tree)
    laws = [_next_law(model, prompt) for model in (target, draft)]
    chance, of_draft = (_chance_of(counts, law) for law in laws)
    return {
        "steps": sum(counts.values()), "chance": chance, "chance_of_draft": of_draft,
        "right": chance >= LEAST_CHANCE and (bench.dry or of_draft <= MOST_OF_ANOTHER),
    }  # fmt: skip


def _first_tokens(bench: Bench, session: Session, tree: Tree) -> Counter[int]:
    """The first token that each of many steps emits behind the same text."""
    from planner.policies.fixed import FixedTree

    start, counts = len(session.tokens), Counter[int]()
    for _ in range(NUM_STEPS[bench.dry]):
        bench.check_time()
        counts[session.step(FixedTree(tree)).tokens[0]] += 1
        session.rewind(start)
    return counts


def _next_law(model: LanguageModel, prompt: list[int]) -> np.ndarray:
    """float64 [V]: the model's distribution behind the prompt, from a pass over all of it."""
    ids = torch.tensor(prompt, device=model.device)
    places = torch.arange(len(prompt), device=model.device)
    logits = model.forward(ids, places, model.new_cache(len(prompt)), num_logits=1)
    return logits[0].double().softmax(-1).cpu().numpy()


def _chance_of(counts: Counter[int], law: np.ndarray) -> float:
    """The chance of counts as far from `law` by chi-square."""
    number = sum(counts.values())
    expected = number * law
    often = np.flatnonzero(expected >= LEAST_EXPECTED)
    found = np.array([counts[int(token)] for token in often], float)
    found, wanted = np.append(found, number - found.sum()), np.append(expected[often], 0)
    wanted[-1] = max(number - expected[often].sum(), 1e-9)
    return float(chi2.sf(((found - wanted) ** 2 / wanted).sum(), len(often)))
