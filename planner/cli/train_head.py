"""`planner train-head`: train the head that predicts which drafted tokens are accepted."""

from __future__ import annotations

import json
from pathlib import Path

import click

from . import options


@options.command(epilog=options.example("planner train-head --temperature 0.6 -o head.safetensors"))
@options.model_options
@click.option(
    "--prompts", default="embedded/profile", show_default=True, metavar="FILE",
    help="Prompts (.txt or .jsonl) that the target continues.",
)  # fmt: skip
@click.option("--num-prompts", type=click.IntRange(2), help="Use only the first so many.")
@click.option("--temperature", type=options.Number(0), default=1.0, show_default=True)
@options.sampling_options
@options.setting(
    "--num-texts", type=click.IntRange(2), default=512, show_default=True,
    help="Texts in all, in turn behind every prompt; at temperature 0 one a prompt.",
)  # fmt: skip
@options.setting(
    "--num-tokens", type=click.IntRange(1), default=128, show_default=True,
    help="Length of each text.",
)  # fmt: skip
@options.setting(
    "--held-out", type=options.Number(0, 1, min_open=True, max_open=True), default=0.25,
    show_default=True, help="Share of the prompts that the head is tried on instead.",
)  # fmt: skip
@options.setting(
    "--depth", type=click.IntRange(0), default=3, show_default=True, help="Residual blocks."
)
@options.setting(
    "--reject-weight", type=options.Number(0, min_open=True), default=6.0, show_default=True,
    help="Weight of rejections in the loss; acceptances weigh 1.",
)  # fmt: skip
@click.option(
    "--mix", type=options.Number(0, 1, max_open=True), default=0.15, show_default=True,
    help="Share of the target's tokens in the texts that the draft reads.",
)  # fmt: skip
@click.option(
    "--no-mix", is_flag=True,
    help="Read every drafted token behind the target's own text, as in decoding: twice the work.",
)  # fmt: skip
@options.setting("--epochs", type=click.IntRange(1), default=3, show_default=True)
@options.setting(
    "--batch-size", type=click.IntRange(1), default=32, show_default=True, help="Texts a step."
)
@options.setting(
    "--learning-rate", type=options.Number(0, min_open=True),
    help="Default: 5e-5 for a draft of 4096 hidden units; more for fewer units and steps.",
)  # fmt: skip
@options.threads_option
@options.setting("--seed", type=options.SEED, metavar="INTEGER", default=0, show_default=True)
@options.picture_option("Draw loss, calibration and stopping into this file too.")
@click.option(
    "-o", "--output", type=options.FILE, callback=options.writable, required=True,
    help="Where to write the head (safetensors).",
)  # fmt: skip
def command(
    prompts: str,
    num_prompts: int | None,
    temperature: float,
    mix: float,
    no_mix: bool,
    png: Path | None,
    output: Path,
) -> None:
    """Train a head on the draft that predicts whether its tokens will be accepted (SpecDec++).

    Plans that end a chain when a token of it is likely to be rejected use it.  For the embedded
    pairs it does not pay: its chains were slower than the best of one length in all of 18 contests,
    by 4.2 % in the mean (docs/results/growing.md).  Interrupted, it continues where it stopped when
    the same command is given again.
    """
    from profiler import Pair, discard_pieces
    from profiler.head_making import HeadSettings, make_head
    from runtime.heads import file_sha256, save_head

    from ..show.document_text import render
    from .models import NamedPair

    settings = options.settings(
        HeadSettings, sampling=options.sampling(temperature), mix=None if no_mix else mix
    )
    named = options.settings(NamedPair)
    ids = named.prompts(prompts, num_prompts)
    pair = Pair(*named.load())
    try:
        head, card = make_head(pair, ids, settings, output=output, report_line=options.say)
    except KeyboardInterrupt:
        options.say("\nwhat was done is kept: the same command continues from there")
        raise
    save_head(head, card, output)
    discard_pieces(output)
    options.say(f"wrote {output}")
    if png is not None:
        from ..show.figures import save_png
        from ..show.head_figure import head_figure

        save_png(head_figure(card), png)
        options.say(f"wrote {png}")
    options.say(render(card))
    if output.is_file():
        name = {"file": output.name, "sha256": file_sha256(output)}
        options.say(f'\na plan beside it names it by "head": {json.dumps(name)}')
