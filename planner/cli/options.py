"""Options that several commands share."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from ..documents.profile import Profile
    from ..documents.sampling import Sampling
    from ..plans.files import AnyDocument

T = TypeVar("T")


class Names(click.Choice[str]):
    """One of the names in a table of a module, which is imported only when they are looked at."""

    def __init__(self, module: str, table: str) -> None:
        self.case_sensitive = True
        self._place = module, table

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        module, table = self._place
        return tuple(getattr(import_module(module), table))


class Number(click.FloatRange):
    """A float within a range.  NaN, which lies in every range, and infinity are refused."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


SEED = click.IntRange(0, 2**63 - 1)
"""Seeds that torch's generators take."""


class File(click.Path):
    """A file's name; none at all, as of a variable that is not set, would mean this folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("got an empty name, expected a file's", param, ctx)
        return super().convert(value, param, ctx)


FILE = File(path_type=Path)


def _noted(context: click.Context, option: click.Parameter, value: Any) -> None:
    context.meta[str(option.name)] = value


setting = partial(click.option, expose_value=False, callback=_noted)
"""An option that is no argument of its command but a field of what `settings` makes."""


def settings(kind: type[T], **others: Any) -> T:
    """A `kind`, a dataclass, of the current command's options by the names of its fields.

    others  fields that are no options, or not as they were typed
    """
    given = click.get_current_context().meta | others
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: given[name] for name in names if name in given})


MODEL_OPTIONS = (
    setting(
        "--target", metavar="ID_OR_DIR",
        help="Target model: hub id, folder, or embedded/target[@SHAPE].",
    ),
    setting(
        "--draft", metavar="ID_OR_DIR",
        help="Draft model: hub id, folder, or embedded/draft[-plain]; or lookup, for none: the "
        "text's own n-grams; or MODEL+lookup, for both.",
    ),
    setting("--device", help="cpu, cuda, cuda:1, ... (default: cuda if present)."),
    setting(
        "--dtype", type=click.Choice(["float32", "bfloat16", "float16", "int8"]),
        help="Precision of both models (default: a plan's own, else float32 on cpu, bfloat16 on "
        "cuda); int8, on cpu: their weights rounded, a scale for each row.",
    ),
    setting(
        "--attention", default="auto", show_default=True, metavar="[auto|tree|sdpa|eager]",
        help="tree: our kernel; sdpa, eager: transformers' own; auto: tree on a GPU that it "
        "serves.",
    ),
    setting(
        "--target-memory", type=Number(0), metavar="GB",
        help="Memory of the device that the target's layers may take; others are read anew in "
        "every pass, from the host's memory, on cpu from the disk (default: a plan's own, else no "
        "limit).",
    ),
    setting(
        "--tensor-parallel", type=click.IntRange(1), metavar="N",
        help="Split the target's weights over so many processes, each on a GPU of its own "
        "(default: a plan's own, or those that torchrun has started, else 1).",
    ),
)  # fmt: skip


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of commands that run models, for `planner.cli.models.NamedPair`."""
    for option in reversed(MODEL_OPTIONS):
        command = option(command)
    return command


SAMPLING_OPTIONS = (
    setting(
        "--top-k", type=click.IntRange(0), default=0, show_default=True,
        help="Keep the so many likeliest tokens; 0 keeps all.",
    ),
    setting(
        "--top-p", type=Number(0, 1, min_open=True), default=1.0, show_default=True,
        help="Keep the likeliest tokens that have so much probability together.",
    ),
    setting(
        "--min-p", type=Number(0, 1), default=0.0, show_default=True,
        help="Keep tokens of at least so much of the likeliest one's probability.",
    ),
    setting(
        "--repetition-penalty", type=Number(0, min_open=True), default=1.0, show_default=True,
        help="Divide positive logits of tokens that the text holds by it, multiply negative ones.",
    ),
    setting(
        "--draft-temperature", type=Number(0, min_open=True),
        help="The draft's own (default: the target's, or 1 where that is 0).",
    ),
)  # fmt: skip


def sampling_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of how logits become distributions, but for the temperature, for `sampling`."""
    for option in reversed(SAMPLING_OPTIONS):
        command = option(command)
    return command


def sampling(temperature: float) -> Sampling:
    """The sampling at that temperature, with the current command's `sampling_options`."""
    from ..documents.sampling import Sampling

    given = click.get_current_context().meta
    return Sampling(
        temperature=temperature,
        top_k=given["top_k"],
        top_p=given["top_p"],
        min_p=given["min_p"],
        repetition_penalty=given["repetition_penalty"],
        draft_temperature=given["draft_temperature"],
    )


threads_option = setting(
    "--threads", type=click.IntRange(1, max(os.cpu_count() or 1, 1)),
    help="CPU threads (default: torch's own).",
)  # fmt: skip


costs_option = click.option(
    "--costs", type=FILE,
    help="Times to plan with in the place of the profile's: a costs document, or another profile.",
)  # fmt: skip


def profile_with(path: Path, costs: Path | None) -> Profile:
    """The profile at `path`; with the costs in another file, where one is named."""
    from ..documents.profile import Profile

    profile = Profile.load(path)
    if costs is None:
        return profile
    from ..estimates.other_costs import with_costs
    from ..plans.files import load_costs

    return with_costs(profile, load_costs(costs))


class Command(click.Command):
    """A command that writes over nothing that it reads."""

    def invoke(self, context: click.Context) -> Any:
        written = {name: context.params.get(name) for name in ("output", "png")}
        read = [value for name, value in context.params.items() if name not in written]
        read.append(Path(context.params.get("prompts") or ""))  # or the name of a set
        for place in filter(None, written.values()):
            for each in chain(*(value if isinstance(value, tuple) else [value] for value in read)):
                there = isinstance(each, Path) and each.exists() and place.exists()
                if there and place.samefile(each):
                    raise click.UsageError(f"{place} is read, and cannot be written over")
        return super().invoke(context)


command = partial(click.command, cls=Command)


def only_with(other: str, *names: str) -> None:
    """Raise UsageError for options that were given and mean nothing without the `other` one.

    names  of the command's parameters
    """
    context = click.get_current_context()
    for each in context.command.params:
        given = context.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
        if given and each.name in names:
            raise click.UsageError(f"{each.opts[0]} goes with {other} only")


def example(line: str) -> str:
    """The end of a command's help: a line to paste."""
    return f"\b\nExample:\n  {line}"


def writable(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Callback of options that name a file to write: checked before the work begins."""
    if path is not None:
        from ..documents.document import check_writable

        check_writable(path)
    return path


def output_option(what: str):  # type: ignore[no-untyped-def]
    """`-o FILE`."""
    return click.option(
        "-o", "--output", type=FILE, callback=writable,
        help=f"Where to write the {what} (default: stdout).",
    )  # fmt: skip


def picture_option(what: str):  # type: ignore[no-untyped-def]
    """`--png FILE`."""
    return click.option("--png", type=FILE, callback=_picture, help=what)


def _picture(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """`writable`, for a file that holds a PNG whatever it is called."""
    if path is not None and path.suffix.lower() not in ("", ".png"):
        raise click.BadParameter(f"got {path}, expected a name ending in .png")
    return writable(context, option, path)


def deliver(document: AnyDocument, output: Path | None) -> None:
    """Write `document` to `output`, or print it."""
    if output is None:
        click.echo(document.to_json(), nl=False)
    else:
        document.save(output)
        say(f"wrote {output}")


def say(line: str) -> None:
    """One line of progress or summary, on stderr."""
    print(line, file=sys.stderr, flush=True)
