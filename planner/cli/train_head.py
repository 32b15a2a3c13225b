"""`planner train-head`: train the head that predicts which drafted tokens are accepted."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .options import SEED, Number, model_options, say, threads_option, writable


@click.command()
@model_options
@click.option(
    "--prompts", default="embedded/profile", show_default=True, metavar="FILE",
    help="Prompts (.txt or .jsonl) that the target continues.",
)  # fmt: skip
@click.option("--num-prompts", type=click.IntRange(2), help="Use only the first so many.")
@click.option("--temperature", type=Number(0), default=1.0, show_default=True)
@click.option("--top-k", type=click.IntRange(0), default=0, show_default=True)
@click.option("--top-p", type=Number(0, 1, min_open=True), default=1.0, show_default=True)
@click.option(
    "--num-texts", type=click.IntRange(2), default=512, show_default=True,
    help="Texts in all, in turn behind every prompt; at temperature 0 one a prompt.",
)  # fmt: skip
@click.option(
    "--num-tokens", type=click.IntRange(1), default=128, show_default=True,
    help="Length of each text.",
)  # fmt: skip
@click.option(
    "--held-out", type=Number(0, 1, min_open=True, max_open=True), default=0.25,
    show_default=True, help="Share of the prompts that the head is tried on instead.",
)  # fmt: skip
@click.option(
    "--depth", type=click.IntRange(0), default=3, show_default=True, help="Residual blocks."
)
@click.option(
    "--reject-weight", type=Number(0, min_open=True), default=6.0, show_default=True,
    help="Weight of rejections in the loss; acceptances weigh 1.",
)  # fmt: skip
@click.option(
    "--mix", type=Number(0, 1, max_open=True), default=0.15, show_default=True,
    help="Share of the target's tokens in the texts that the draft reads.",
)  # fmt: skip
@click.option(
    "--no-mix", is_flag=True,
    help="Read every drafted token behind the target's own text, as in decoding: twice the work.",
)  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--batch-size", type=click.IntRange(1), default=32, show_default=True, help="Texts a step."
)
@click.option(
    "--learning-rate", type=Number(0, min_open=True),
    help="Default: 5e-5 for a draft of 4096 hidden units; more for fewer units and steps.",
)  # fmt: skip
@threads_option
@click.option("--seed", type=SEED, metavar="INTEGER", default=0, show_default=True)
@click.option(
    "--png", type=click.Path(path_type=Path), callback=writable,
    help="Draw loss, calibration and stopping into this file too.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), callback=writable, required=True,
    help="Where to write the head (safetensors).",
)  # fmt: skip
def command(
    target: str | None,
    draft: str | None,
    device: str | None,
    dtype: str | None,
    attention: str,
    prompts: str,
    num_prompts: int | None,
    temperature: float,
    top_k: int,
    top_p: float,
    num_texts: int,
    num_tokens: int,
    held_out: float,
    depth: int,
    reject_weight: float,
    mix: float,
    no_mix: bool,
    epochs: int,
    batch_size: int,
    learning_rate: float | None,
    threads: int | None,
    seed: int,
    png: Path | None,
    output: Path,
) -> None:
    """Train a head on the draft that predicts whether its tokens will be accepted (SpecDec++).

    Plans that end a chain when a token of it is likely to be rejected use it.  Interrupted, it
    continues where it stopped when the same command is given again.
    """
    import torch

    from profiler import Pair, discard_pieces
    from profiler.head_making import HeadSettings, make_head
    from runtime.heads import file_sha256, save_head

    from ..documents.sampling import Sampling
    from ..show.document_text import render
    from .models import is_embedded, load_named, load_tokenizer_of, pair_names
    from .texts import prompt_ids

    if threads is not None:
        torch.set_num_threads(threads)
    settings = HeadSettings(
        sampling=Sampling(temperature=temperature, top_k=top_k, top_p=top_p),
        num_texts=num_texts,
        num_tokens=num_tokens,
        held_out=held_out,
        depth=depth,
        reject_weight=reject_weight,
        mix=None if no_mix else mix,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seed=seed,
    )
    names = pair_names(target, draft)
    tokenizer = load_tokenizer_of(names[0])
    ids = prompt_ids(prompts, tokenizer, is_embedded(names[0]), num_prompts)
    pair = Pair(*(load_named(name, device=device, dtype=dtype, attention=attention)
                  for name in names))  # fmt: skip
    try:
        head, card = make_head(pair, ids, settings, output=output, report_line=say)
    except KeyboardInterrupt:
        say("\nwhat was done is kept: the same command continues from there")
        raise
    save_head(head, card, output)
    discard_pieces(output)
    say(f"wrote {output}")
    if png is not None:
        from ..show.figures import head_figure, save_png

        save_png(head_figure(card), png)
        say(f"wrote {png}")
    say(render(card))
    if output.is_file():
        name = {"file": output.name, "sha256": file_sha256(output)}
        say(f'\na plan beside it names it by "head": {json.dumps(name)}')
