"""`planner import`: an engine's own setting as a plan."""

from __future__ import annotations

from pathlib import Path

import click

from . import options


class WithSetting(click.Command):
    """A command of which an argument may be flags of another program, in one pair of quotes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Words that begin as options do are none of ours if they hold a space, or are
        `--name=value` of a name that we do not have."""
        own = {name for each in self.params for name in each.opts}

        def theirs(word: str) -> bool:
            name, equals, _ = word.partition("=")
            return (
                word.startswith("-") and name not in own and bool(equals or len(word.split()) > 1)
            )

        return super().parse_args(ctx, [f" {word}" if theirs(word) else word for word in args])


@options.command(
    cls=WithSetting,
    epilog=options.example(
        "planner import --from vllm '{\"num_speculative_tokens\": 5}' -o vllm.json"
    ),
)
@click.argument("setting")
@click.option(
    "--from", "engine", required=True, type=options.Names("planner.export", "READERS"),
    help="Whose setting it is.",
)  # fmt: skip
@click.option(
    "--temperature", type=options.Number(0), default=0.6, show_default=True,
    help="At which it serves; 0 is greedy.",
)  # fmt: skip
@options.sampling_options
@click.option(
    "--batch-size", type=click.IntRange(1), default=1, show_default=True,
    help="Where lengths are set by batch size, the one to take.",
)  # fmt: skip
@options.output_option("plan")
def command(
    setting: str, engine: str, temperature: float, batch_size: int, output: Path | None
) -> None:
    """Read an engine's SETTING into a plan: what it drafts, and how it accepts.

    SETTING is a file, or the setting itself in quotes: JSON, or flags of a command line.  Settings
    that are not about speculation are ignored.  Nothing is predicted of the plan; see planner
    compare.
    """
    from ..export import read

    sampling = options.sampling(temperature)
    result = read(engine, setting, sampling, batch_size=batch_size)

    from ..show.words import summary

    options.deliver(result.plan, output)
    options.say(summary(result.plan))
    for note in result.notes:
        options.say(f"note: {note}")
