"""Against whom?  The decode loop beside transformers' `generate`, alone and assisted, in turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .bench import Bench, Skipped
from .pipeline import DRAFT, TARGET, profile_of
from .results import Row

if TYPE_CHECKING:
    from engines.program import Running
    from planner.documents.profile import Profile

TEMPERATURES = (0.0, 0.6)
ASSISTED = ((5, 0.0), (8, 0.4), (20, 0.4))
"""Lengths of chains, and confidences below which they end; the last is transformers' default."""
NUM_PROMPTS, NUM_TOKENS = 4, 64


def run(bench: Bench) -> None:
    """A row for every loop and temperature, planned from what the pipeline has measured."""
    place = profile_of(bench.results.path)
    if bench.dry or not place.exists():
        raise Skipped("it takes the profile that the pipeline measures on a GPU")
    from planner.documents.profile import Profile

    profile = Profile.load(place)
    models = _loaded("tree"), _loaded("sdpa")
    for temperature in TEMPERATURES:
        bench.check_time(20)
        for row in decoded(profile, temperature, *models):
            bench.add(row)


def _loaded(attention: str) -> list[Any]:
    from planner.cli.models import load_named

    return [
        load_named(name, device="cuda", dtype="bfloat16", attention=attention)
        for name in (TARGET, DRAFT)
    ]


def decoded(profile: Profile, temperature: float, own: list[Any], plain: list[Any]) -> list[Row]:
    """A row each: the target alone and the plan by this project, the same by transformers."""
    from benchmarks.loops import OwnLoop, ms_per_token
    from engines.assisted_generation import AssistedText
    from engines.timing import Turns
    from planner.documents.sampling import Sampling
    from planner.export.hugging_face import settings_of
    from planner.optimizer import solve
    from planner.policies import DynamicDrafting
    from runtime import Decoder
    from runtime.decode import NO_DRAFT
    from runtime.embedded import load_prompts

    plan = solve(profile, temperature=temperature)
    alone = plan.model_copy(update={"drafting": NO_DRAFT, "predicted": None})
    modules = [model.module for model in plain]
    running: dict[str, Running] = {
        "no draft": OwnLoop(Decoder.from_plan(alone, own[0], timed=False)),
        f"{plan.drafting.words()}, {plan.verifier}": OwnLoop(
            Decoder.from_plan(plan, *own, timed=False)
        ),
        "generate": AssistedText(modules[0], modules[1], None),
    }
    for length, sure in ASSISTED:
        drafting = DynamicDrafting(max_depth=length, num_tokens=length, confidence=sure)
        text = AssistedText(modules[0], modules[1], settings_of(drafting))
        running[f"assisted, {drafting.words()}"] = text
    turns = Turns(
        load_prompts("evaluation", NUM_PROMPTS), Sampling(temperature=temperature), NUM_TOKENS, 0
    )
    turns.warm(running)
    answers = turns.decoded(running)
    texts = {name: [each.tokens for each in found] for name, found in answers.items()}
    return [
        {
            "what": name, "temperature": temperature, "ms_per_token": round(ms_per_token(found), 3),
            "tokens_per_step": round(
                sum(each.num_timed for each in found) / sum(each.num_steps for each in found), 3
            ),
            "same_texts": sum(map(list.__eq__, texts[name], texts["no draft"])),
            "predicted": plan.predicted.speedup.value
            if plan.predicted is not None and place == 1 else None,
        }
        for place, (name, found) in enumerate(answers.items())
    ]  # fmt: skip
