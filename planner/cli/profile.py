"""`planner profile`: measure this machine and this pair of models."""

from __future__ import annotations

from pathlib import Path

import click

from .options import SEED, Number, deliver, model_options, output_option, say, threads_option


@click.command()
@model_options
@click.option(
    "--prompts", metavar="FILE",
    help="Prompts (.txt or .jsonl) that the target continues to measure acceptance (default: "
    "embedded/profile, shortened to what the models take).",
)  # fmt: skip
@click.option("--num-prompts", type=click.IntRange(1), help="Use only the first so many.")
@click.option(
    "--temperature", "temperatures", type=Number(0), multiple=True,
    default=(0.0, 0.6, 1.0), show_default=True, help="Measure acceptance at it; repeatable.",
)  # fmt: skip
@click.option("--top-k", type=click.IntRange(0), default=0, show_default=True)
@click.option("--top-p", type=Number(0, 1, min_open=True), default=1.0, show_default=True)
@click.option(
    "--thorough", is_flag=True,
    help="Measure more of what is not named: times at two contexts and in twice as many sweeps, "
    "trees at more prompts.",
)  # fmt: skip
@click.option(
    "--context", "contexts", type=click.IntRange(1), multiple=True,
    help="Tokens in the cache when times are measured; repeatable (default: 128; thorough: 128 "
    "and 512; less where the models serve less).",
)  # fmt: skip
@click.option(
    "--max-nodes", type=click.IntRange(2),
    help="Largest tree to be timed, root included (default: 64, or as many as find room).",
)  # fmt: skip
@click.option(
    "--num-tokens", type=click.IntRange(1),
    help="Length of the continuation of each prompt (default: 128, or as much as finds room).",
)  # fmt: skip
@click.option(
    "--num-ranks", type=click.IntRange(1),
    help="Children of one node that acceptance is measured for (default: 16, or the vocabulary).",
)  # fmt: skip
@click.option(
    "--num-replayed", type=click.IntRange(0),
    help="Prompts at whose positions whole trees are recorded, for plans whose trees grow "
    "(default: 48; thorough: 64).",
)  # fmt: skip
@click.option(
    "--head", "heads", type=click.Path(path_type=Path), multiple=True, metavar="FILE",
    help="Let this head (of planner train-head) score the recorded trees, so that plans can stop "
    "by it; repeatable, one for each temperature.",
)  # fmt: skip
@click.option(
    "--repeats", type=click.IntRange(2),
    help="Sweeps over all times (default: 20; thorough: 40).",
)  # fmt: skip
@threads_option
@click.option("--seed", type=SEED, default=0, show_default=True)
@output_option("profile (its traces go into a safetensors file beside it)")
def command(
    target: str | None,
    draft: str | None,
    device: str | None,
    dtype: str | None,
    attention: str,
    prompts: str | None,
    num_prompts: int | None,
    temperatures: tuple[float, ...],
    top_k: int,
    top_p: float,
    thorough: bool,
    contexts: tuple[int, ...],
    max_nodes: int | None,
    num_tokens: int | None,
    num_ranks: int | None,
    num_replayed: int | None,
    heads: tuple[Path, ...],
    repeats: int | None,
    threads: int | None,
    seed: int,
    output: Path | None,
) -> None:
    """Measure what verifying, drafting and acceptance cost and yield here.

    What is not named is fitted to the models; what is named is kept, or refused.

    Interrupted, it continues where it stopped when the same command is given again.
    """
    import torch

    from profiler import QUICK, THOROUGH, Pair, Settings, discard_pieces, measure_profile
    from profiler.profile_settings import shortened

    from ..documents.arrays import check_place
    from ..documents.sampling import Sampling
    from .models import is_embedded, load_named, load_tokenizer_of, pair_names
    from .named_heads import scoring_heads
    from .texts import prompt_ids

    if output is not None:
        check_place(output)
    if threads is not None:
        torch.set_num_threads(threads)
    settings = Settings(
        samplings=tuple(
            Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
            for temperature in dict.fromkeys(temperatures)
        ),
        contexts=tuple(sorted(set(contexts))) or None,
        max_nodes=max_nodes,
        num_tokens=num_tokens,
        num_ranks=num_ranks,
        num_replayed=num_replayed,
        repeats=repeats,
        seed=seed,
        wanted=THOROUGH if thorough else QUICK,
    )
    names = pair_names(target, draft)
    tokenizer = load_tokenizer_of(names[0])
    embedded = is_embedded(names[0])
    ids = prompt_ids(prompts or "embedded/profile", tokenizer, embedded, num_prompts)
    pair = Pair(*(load_named(name, device=device, dtype=dtype, attention=attention)
                  for name in names))  # fmt: skip
    if prompts is None:
        ids = shortened(ids, pair, num_tokens)
    scoring = scoring_heads(heads, pair.draft, Path() if output is None else output.parent)
    try:
        profile = measure_profile(
            pair, ids, settings, heads=scoring, output=output, report_line=say
        )
    except KeyboardInterrupt:
        if output is not None:
            say("\nwhat was measured is kept: the same command continues from there")
        raise
    if output is None:
        say("the acceptance traces go beside a file only: give -o FILE to keep them")
        profile = profile.without_arrays()
    deliver(profile, output)
    if output is not None:
        discard_pieces(output)
