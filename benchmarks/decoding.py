"""Prompts decoded by an embedded pair as it is: what plans do there, prompt by prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import PlainSerializer, PlainValidator
from tqdm import tqdm

from planner.plans.plan import Plan
from planner.plans.report import Continuation
from profiler.journal import Journal, Piece
from runtime import Decoder
from runtime.decode import Generation, prompt_seed
from runtime.embedded import load_prompts
from runtime.language_model import LanguageModel

from .contests import draft_of, target_of

ByPrompt = Annotated[np.ndarray, PlainValidator(np.array), PlainSerializer(np.ndarray.tolist)]
"""float64 [prompts]."""
TOGETHER = 16
"""Prompts decoded at a time where only tokens are counted."""


@dataclass(frozen=True)
class Ratio:
    """Tokens per step as a ratio of sums over prompts."""

    tokens: np.ndarray
    steps: np.ndarray

    @property
    def value(self) -> float:
        return float(self.tokens.sum() / self.steps.sum())

    @property
    def influence(self) -> np.ndarray:
        """float64 [prompts]: by how much each prompt moves ln(value); they sum to 0."""
        return self.tokens / self.tokens.sum() - self.steps / self.steps.sum()


def in_turns(
    decoders: Mapping[str, Decoder], prompts: Sequence[Sequence[int]], num_tokens: int
) -> dict[str, list[Continuation]]:
    """The continuations that each decoder made of every prompt, by its name, in turns."""
    found: dict[str, list[Continuation]] = {name: [] for name in decoders}
    rng = np.random.default_rng(0)
    for each in decoders.values():
        each.generate(prompts[0], max_new_tokens=8)
    for number, prompt in enumerate(tqdm(prompts, leave=False)):
        for name in rng.permutation(list(decoders)):
            made = decoders[name].generate(
                prompt, max_new_tokens=num_tokens, seed=prompt_seed(0, number), stop_tokens=[]
            )
            found[name] += made.report.continuations
    return found


def log_error(influence: np.ndarray) -> float:
    """Standard error of the logarithm of a ratio, prompts being the samples."""
    return float(np.sqrt((influence**2).sum() * len(influence) / (len(influence) - 1)))


@dataclass(frozen=True)
class Steps:
    """The steps of one plan, and what they took."""

    steps: ByPrompt
    passes: ByPrompt
    """Passes of the draft."""
    nodes: ByPrompt
    """Verified, roots included."""

    @property
    def passes_per_step(self) -> float:
        return float(self.passes.sum() / self.steps.sum())

    @property
    def nodes_per_step(self) -> float:
        return float(self.nodes.sum() / self.steps.sum())


@dataclass(frozen=True)
class CountedSteps(Steps):
    """The steps of one plan, and what came out."""

    tokens: ByPrompt

    @property
    def ratio(self) -> Ratio:
        return Ratio(self.tokens, self.steps)


@dataclass(frozen=True)
class Counting:
    """Prompts to be decoded for their tokens per step."""

    num_tokens: int
    """Decoded a prompt."""
    seed: int
    folder: Path
    """Heads lie there; what is decoded is kept there."""
    num_prompts: int = 64
    prompts: str = "evaluation"


def counted(pair: str, plan: Plan, counting: Counting) -> CountedSteps:
    """The steps of `plan` on these prompts, taken by the real loop."""
    plan = plan.model_copy(update={"predicted": None})
    prompts = load_prompts(counting.prompts, counting.num_prompts)
    what = json.dumps([pair, plan.to_json(), asdict(counting)], default=str)
    name = sha256(what.encode()).hexdigest()[:16]

    def measured() -> Piece:
        decoder = decoder_of(plan, target_of(), draft_of(pair), counting.folder)
        return counts(decoded(decoder, prompts, counting.num_tokens, counting.seed))

    return CountedSteps(**Journal(counting.folder / "decoded", {}).piece(name, measured))


def decoder_of(plan: Plan, target: LanguageModel, draft: LanguageModel, folder: Path) -> Decoder:
    """The plan's decoder; its head lies in `folder`."""
    path = folder / f"{plan.fingerprint()[:16]}.json"  # one each: other processes save theirs
    plan.save(path)
    return Decoder.from_plan(path, target, draft, timed=False)


def decoded(
    decoder: Decoder, prompts: Sequence[Sequence[int]], num_tokens: int, seed: int
) -> list[Generation]:
    """Every prompt's continuation; some are decoded together, each as it is alone."""
    return decoder.generate_batch(prompts, max_new_tokens=num_tokens, seed=seed, max_rows=TOGETHER)


def counts(texts: Sequence[Generation]) -> Piece:
    """The fields of `CountedSteps`."""
    measured = [text.report.measured for text in texts]
    return {
        "steps": np.array([float(each.num_steps) for each in measured]),
        "passes": np.array([float(each.num_draft_passes) for each in measured]),
        "nodes": np.array([float(each.num_drafted + each.num_steps) for each in measured]),
        "tokens": np.array([float(each.num_tokens) for each in measured]),
    }
