"""`planner profile`: measure this machine and this pair of models."""

from __future__ import annotations

from pathlib import Path

import click

from .options import (
    SEED,
    Number,
    deliver,
    model_options,
    output_option,
    say,
    threads_option,
)


@click.command()
@model_options
@click.option(
    "--prompts", default="embedded/profile", show_default=True, metavar="FILE",
    help="Prompts (.txt or .jsonl) that the target continues to measure acceptance.",
)  # fmt: skip
@click.option("--num-prompts", type=click.IntRange(1), help="Use only the first so many.")
@click.option(
    "--temperature", "temperatures", type=Number(0), multiple=True,
    default=(0.0, 0.6, 1.0), show_default=True, help="Measure acceptance at it; repeatable.",
)  # fmt: skip
@click.option("--top-k", type=click.IntRange(0), default=0, show_default=True)
@click.option("--top-p", type=Number(0, 1, min_open=True), default=1.0, show_default=True)
@click.option(
    "--context", "contexts", type=click.IntRange(1), multiple=True, default=(128, 512),
    show_default=True, help="Tokens in the cache when times are measured; repeatable.",
)  # fmt: skip
@click.option(
    "--max-nodes", type=click.IntRange(2), default=64, show_default=True,
    help="Largest tree to be timed, root included.",
)  # fmt: skip
@click.option(
    "--num-tokens", type=click.IntRange(1), default=128, show_default=True,
    help="Length of the continuation of each prompt.",
)  # fmt: skip
@click.option(
    "--num-ranks", type=click.IntRange(1), default=16, show_default=True,
    help="Children of one node that acceptance is measured for.",
)  # fmt: skip
@click.option(
    "--num-replayed", type=click.IntRange(0), default=64, show_default=True,
    help="Prompts at whose positions whole trees are recorded, for plans whose trees grow.",
)  # fmt: skip
@click.option(
    "--head", "heads", type=click.Path(path_type=Path), multiple=True, metavar="FILE",
    help="Let this head (of planner train-head) score the recorded trees, so that plans can stop "
    "by it; repeatable, one for each temperature.",
)  # fmt: skip
@click.option("--repeats", type=click.IntRange(2), default=20, show_default=True)
@threads_option
@click.option("--seed", type=SEED, default=0, show_default=True)
@output_option("profile (its traces go into a safetensors file beside it)")
def command(
    target: str | None,
    draft: str | None,
    device: str | None,
    dtype: str | None,
    attention: str,
    prompts: str,
    num_prompts: int | None,
    temperatures: tuple[float, ...],
    top_k: int,
    top_p: float,
    contexts: tuple[int, ...],
    max_nodes: int,
    num_tokens: int,
    num_ranks: int,
    num_replayed: int,
    heads: tuple[Path, ...],
    repeats: int,
    threads: int | None,
    seed: int,
    output: Path | None,
) -> None:
    """Measure what verifying, drafting and acceptance cost and yield here.

    Interrupted, it continues where it stopped when the same command is given again.
    """
    import torch

    from profiler import Settings, discard_pieces, measure_profile

    from ..documents.arrays import check_place
    from ..documents.sampling import Sampling
    from .heads import scoring_heads
    from .models import (
        is_embedded,
        load_named,
        load_tokenizer_of,
        pair_names,
    )
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
        contexts=tuple(sorted(set(contexts))),
        max_nodes=max_nodes,
        num_tokens=num_tokens,
        num_ranks=num_ranks,
        num_replayed=num_replayed,
        repeats=repeats,
        seed=seed,
    )
    names = pair_names(target, draft)
    tokenizer = load_tokenizer_of(names[0])
    ids = prompt_ids(prompts, tokenizer, is_embedded(names[0]), num_prompts)
    models = [load_named(name, device=device, dtype=dtype, attention=attention) for name in names]
    scoring = scoring_heads(heads, models[1], Path() if output is None else output.parent)
    try:
        profile = measure_profile(
            models[0], models[1], ids, settings, heads=scoring, output=output, report_line=say
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
