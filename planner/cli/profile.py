"""`planner profile`: measure this machine and this pair of models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options
from .engine_options import EngineWishes, engine_options

if TYPE_CHECKING:
    from engines.acceptance_sources import CountedByEngine
    from profiler import Pair, ScoringHead
    from runtime.language_model import LanguageModel

    from ..documents.sampling import Sampling
    from .models import NamedPair


TEMPERATURES = (0.0, 0.6, 1.0)
ENGINE_ROOM = 256
"""Tokens behind the longest prompt that an engine makes room for, at least."""
OF_THIS_RUNTIME = (
    "thorough", "contexts", "num_ranks", "num_replayed", "num_expanded", "heads", "repeats",
)  # fmt: skip
"""Parameters that mean nothing to an engine: it drafts chains, and is timed in its own way."""
OF_MODELS_HERE = ("device", "dtype", "attention", "target_memory", "tensor_parallel")
"""Parameters that mean nothing where only the engine loads the models."""


@options.command(epilog=options.example("planner profile --temperature 0.6 -o profile.json"))
@options.model_options
@click.option(
    "--prompts", metavar="FILE",
    help="Prompts (.txt or .jsonl) that the target continues to measure acceptance (default: "
    "embedded/profile, shortened to what the models take).",
)  # fmt: skip
@click.option("--num-prompts", type=click.IntRange(1), help="Use only the first so many.")
@click.option(
    "--temperature", "temperatures", type=options.Number(0), multiple=True,
    help="Measure acceptance at it; repeatable (default: 0, 0.6 and 1).",
)  # fmt: skip
@options.sampling_options
@click.option(
    "--thorough", is_flag=True,
    help="Measure more of what is not named: times at two contexts and in twice as many sweeps, "
    "trees at more prompts and for traversal.",
)  # fmt: skip
@click.option(
    "--context", "contexts", type=click.IntRange(1), multiple=True,
    help="Tokens in the cache when times are measured; repeatable (default: 128; thorough: 128 "
    "and 512; less where the models serve less).",
)  # fmt: skip
@click.option(
    "--batch-size", "batch_sizes", type=click.IntRange(1), multiple=True,
    help="Time also so many requests that decode together; repeatable. The trees of each are as "
    "much smaller than those of one request; engines are asked so many at once.",
)  # fmt: skip
@options.setting(
    "--max-nodes", type=click.IntRange(2),
    help="Largest tree to be timed, root included (default: 64, or as many as find room).",
)  # fmt: skip
@options.setting(
    "--num-tokens", type=click.IntRange(1),
    help="Length of the continuation of each prompt (default: 128, or as much as finds room).",
)  # fmt: skip
@options.setting(
    "--num-ranks", type=click.IntRange(1),
    help="Children of one node that acceptance is measured for (default: 16, or the vocabulary).",
)  # fmt: skip
@options.setting(
    "--num-replayed", type=click.IntRange(0),
    help="Prompts at whose positions whole trees are recorded, for plans whose trees grow "
    "(default: 48; thorough: 64).",
)  # fmt: skip
@click.option(
    "--num-expanded", type=click.IntRange(1, 127),
    help="Nodes of each recorded tree below which the draft was asked (default: 41): of larger "
    "trees, the part that stands beside the text goes by these.",
)  # fmt: skip
@click.option(
    "--head", "heads", type=options.FILE, multiple=True, metavar="FILE",
    help="Let this head (of planner train-head) score the recorded trees, so that plans can stop "
    "by it; repeatable, one for each temperature.",
)  # fmt: skip
@options.setting(
    "--repeats", type=click.IntRange(2),
    help="Sweeps over all times (default: 20; thorough: 40; a quarter where steps of the target "
    "take more than 200 ms).",
)  # fmt: skip
@engine_options
@options.threads_option
@options.setting("--seed", type=options.SEED, default=0, show_default=True)
@options.output_option("profile (its traces go into a safetensors file beside it)")
def command(
    prompts: str | None,
    num_prompts: int | None,
    temperatures: tuple[float, ...],
    thorough: bool,
    contexts: tuple[int, ...],
    batch_sizes: tuple[int, ...],
    num_expanded: int | None,
    heads: tuple[Path, ...],
    output: Path | None,
) -> None:
    """Measure what verifying, drafting and acceptance cost and yield here.

    With --engine the times are those of a program that serves, which is started and asked; the
    acceptance is that of --target and --draft under its way of drafting.  With --engine-method too,
    it is what the engine counts, and only the engine loads the models.

    Settings that are not named are fitted to the models; named ones are kept, or refused.

    Interrupted, it continues where it stopped when the same command is given again.
    """
    from profiler import QUICK, THOROUGH, Pair, Settings, discard_pieces, measure_profile
    from profiler.profile_settings import shortened
    from profiler.recording import Width

    from ..documents.arrays import check_place
    from ..documents.sampling import Sampling
    from ..documents.surroundings import beside_words
    from .models import NamedPair

    wishes = options.settings(EngineWishes)
    if wishes.is_meant and wishes.engine is None:
        raise click.UsageError("--engine-... say how to start an engine: name it with --engine")
    if wishes.engine is not None:
        options.only_with("this runtime's own times (no --engine)", *OF_THIS_RUNTIME)
    if wishes.engine_method is not None:
        options.only_with("models that are loaded here (no --engine-method)", *OF_MODELS_HERE)
    if output is not None:
        check_place(output)
    settings = options.settings(
        Settings,
        samplings=tuple(
            options.sampling(temperature)
            for temperature in dict.fromkeys(temperatures or TEMPERATURES)
        ),
        contexts=tuple(sorted(set(contexts))) or None,
        batch_sizes=tuple(sorted(set(batch_sizes))) or (1,),
        width=Width() if num_expanded is None else Width(num_expanded=num_expanded),
        wanted=THOROUGH if thorough else QUICK,
    )
    named = options.settings(NamedPair)
    ids = named.prompts(prompts or "embedded/profile", num_prompts)
    pair, names = _models(named, wishes)
    if prompts is None:
        ids = shortened(ids, pair, settings.num_tokens)
    if isinstance(pair, Pair) and wishes.engine is None:
        scoring = _scoring_heads(heads, pair.draft, Path() if output is None else output.parent)
        measure = partial(measure_profile, pair, ids, settings, heads=scoring)
    else:
        from engines.measuring import measure_engine_profile
        from engines.timing import longest_text

        behind = max(ENGINE_ROOM, longest_text(wishes.most_tokens))
        room = min(pair.max_positions, max(map(len, ids)) + behind)
        engine = wishes.program(room, names)
        if engine.facts.greedy_only and not temperatures:
            settings = replace(settings, samplings=(Sampling(temperature=0.0),))
        measure = partial(measure_engine_profile, pair, ids, settings, engine=engine)
    try:
        profile = measure(output=output, report_line=options.say)
    except KeyboardInterrupt:
        if output is not None:
            options.say("\nwhat was measured is kept: the same command continues from there")
        raise
    if output is None and profile.arrays is not None:
        options.say("the acceptance traces go beside a file only: give -o FILE to keep them")
        profile = profile.without_arrays()
    options.deliver(profile, output)
    lines = [beside_words(profile.surroundings)]
    if isinstance(pair, Pair) and wishes.engine is None:
        lines.append(own_sampling(pair.target, settings.samplings))
    for line in filter(None, lines):
        options.say(line)
    if output is not None:
        discard_pieces(output)


def _models(
    named: NamedPair, wishes: EngineWishes
) -> tuple[Pair | CountedByEngine, tuple[str, str]]:
    """The models, loaded unless the engine alone is to do that, and their names for it."""
    from profiler import Pair

    if wishes.engine_method is None:
        return Pair(*named.load()), named.names
    from ..documents.document import PlannerError
    from .configs import counted_pair

    if named.target is None:
        raise PlannerError(
            "target: got none, expected the folder or hub id of the model that the engine serves"
        )
    target, draft = named.names[0], named.draft or ""
    counted = counted_pair(target, draft or wishes.engine_draft or wishes.engine_method)
    return counted, (target, draft)


def own_sampling(target: LanguageModel, measured: Sequence[Sampling]) -> str:
    """A line on the sampling that the target's makers recommend, if it was not measured."""
    from runtime import sampling_of

    from ..documents.document import PlannerError

    config = getattr(target, "generation_config", None)
    if config is None or not config.do_sample:
        return ""
    try:
        own = sampling_of(config)
    except PlannerError as error:
        return f"note: the target's own sampling cannot be planned for: {error}"
    if own in measured:
        return ""
    return f"note: the target's own settings sample at {own}; to plan for it: {own.flags}"


def _scoring_heads(
    paths: Sequence[Path], draft: LanguageModel, folder: Path
) -> dict[Sampling, ScoringHead]:
    """The heads in these files, ready on the device of `draft`, by what they were trained for.

    folder  of the document that will name them
    """
    from profiler import ScoringHead
    from runtime.heads import file_sha256, load_card, load_head

    from ..documents.document import PlannerError
    from ..documents.head_card import HeadFile

    found: dict[Sampling, ScoringHead] = {}
    for path in paths:
        sampling = load_card(path).sampling
        if sampling in found:
            raise PlannerError(
                f"--head: got {found[sampling].file.file} and {path}, both trained for {sampling}; "
                "expected one for each temperature"
            )
        head = load_head(path, draft.info).to(draft.device)
        file = HeadFile(file=os.path.relpath(path, folder), sha256=file_sha256(path))
        found[sampling] = ScoringHead(head, file)
    return found
