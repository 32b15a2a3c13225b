"""The command line: thin commands over the library.  Heavy imports stay inside the commands."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn

import click

from ..documents.errors import PlannerError
from ..documents.version import VERSION
from .extras import missing_package, refused_import

COMMANDS = (
    "profile", "solve", "show", "report", "decode", "check", "export", "import", "compare", "grade",
    "sweep", "predict", "train-head", "reproduce", "schema", "doctor",
)  # fmt: skip

OBJECTS = 10_000
"""So many more than were freed are made before garbage is looked for; usually 700."""


class Commands(click.Group):
    """Commands by name, each in the module of that name, imported when it is called for.

    Bad input, a full disk and a package that is not installed become one line on stderr and exit
    code 1, an interruption 130.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A mistyped command is told with those that it may have been meant for."""
        try:
            return super().resolve_command(context, words)
        except click.UsageError as error:
            near = get_close_matches(words[0], COMMANDS)
            if not near:
                raise
            meant = f"{error.message} Did you mean {' or '.join(near)}?"
            raise click.UsageError(meant, context) from None

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        """`--help` and `--version` are answered here, before any command."""
        try:
            return super().make_context(*arguments, **settings)
        except OSError as error:
            _give_up(error)

    def invoke(self, context: click.Context) -> Any:
        try:
            with _rarely_looking_for_garbage():
                result = super().invoke(context)
            if sys.stdout is not None:  # as it is where the shell closed it
                sys.stdout.flush()
            return result
        except PlannerError as error:
            print(f"planner: {error}", file=sys.stderr)
            context.exit(1)
        except ValueError as error:
            if type(error).__name__ == "ValidationError":  # of pydantic, which takes long to import
                from ..documents.document import unheld

                said: str | None = unheld(error)  # type: ignore[arg-type]
            else:
                said = refused_import(error)
            if said is None:
                raise
            print(f"planner: {said}", file=sys.stderr)
            context.exit(1)
        except (ImportError, OSError) as error:  # OSError: also a library that does not load
            missing = missing_package(error)
            if missing is not None:
                print(f"planner: {missing}", file=sys.stderr)
                context.exit(1)
            if isinstance(error, ImportError):
                raise
            _give_up(error)
        except KeyboardInterrupt:
            print("planner: interrupted", file=sys.stderr)
            context.exit(130)


@click.command(cls=Commands)
@click.version_option(VERSION, prog_name="planner")
def main() -> None:
    """Plan tree-based speculative decoding for this machine, and carry the plan out.

    \b
    planner profile -o profile.json            measure the machine and the pair of models
    planner solve profile.json -o plan.json    choose the fastest tree
    planner decode plan.json --prompt "def "   decode with it, losslessly

    Without --target and --draft the small model pair that ships with the planner is used.
    """


@contextmanager
def _rarely_looking_for_garbage() -> Iterator[None]:
    """Garbage is looked for less often: importing torch and transformers makes much that stays,
    and all of it would be looked through again and again."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _give_up(error: OSError) -> NoReturn:
    """One line on what could not be read or written, and exit code 1."""
    if error.errno == errno.EPIPE:  # whoever read our output has seen enough
        raise error
    where = "cannot write the output"
    if error.filename is None:
        _drop_output()
    else:
        where = f"{error.filename}: cannot be read or written"
    print(f"planner: {where}: {error.strerror}", file=sys.stderr)
    raise SystemExit(1)


def _drop_output() -> None:
    """Send what is still buffered for stdout nowhere, so that exiting does not fail on it again."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
