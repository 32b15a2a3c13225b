"""The options that say which engine, where it lies and what it loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..documents.errors import PlannerError
from . import options

if TYPE_CHECKING:
    from engines import Program

    from ..documents.engine import EngineFacts

ENGINE_OPTIONS = (
    options.setting(
        "--engine", metavar="NAME", help="Who serves: llamacpp, openvino, hf, vllm, sglang."
    ),
    options.setting(
        "--engine-path", metavar="DIR", help="Folder of its programs (default: looked for on PATH)."
    ),
    options.setting(
        "--engine-url", "engine_urls", multiple=True, metavar="[K=]URL",
        help="A server that runs already and drafts K tokens in a step (left away: none); "
        "repeatable, one without speculation and one for each K, instead of --engine-path.",
    ),
    options.setting(
        "--engine-target", metavar="FILE", help="The target, as it loads it (default: --target)."
    ),
    options.setting(
        "--engine-draft", metavar="FILE", help="The draft, as it loads it (default: --draft)."
    ),
    options.setting(
        "--engine-method", metavar="NAME",
        help="How it drafts, in its own word, where that is not by a draft model: eagle3, mtp, "
        "ngram-simple, ...; acceptance is then what it counts.",
    ),
    options.setting(
        "--engine-option", "engine_words", multiple=True, metavar="WORD",
        help="One more word of its command line; repeatable.",
    ),
)  # fmt: skip


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of commands that ask an engine, for `EngineWishes`."""
    for option in reversed(ENGINE_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class EngineWishes:
    """The engine that the options name, what they leave out as a plan has it."""

    engine: str | None
    engine_path: str | None
    engine_urls: tuple[str, ...]
    engine_target: str | None
    engine_draft: str | None
    engine_method: str | None
    engine_words: tuple[str, ...]
    threads: int | None
    max_nodes: int | None = None

    def __post_init__(self) -> None:
        if self.engine_method == "":
            raise PlannerError("engine-method: got an empty name, expected the engine's word")
        if self.engine_urls and (self.engine_path or self.engine_words or self.max_nodes):
            raise PlannerError(
                "engine-url: got servers that run already, expected no --engine-path, "
                "--engine-option or --max-nodes with them: they were started with their own"
            )

    @property
    def is_meant(self) -> bool:
        """Does anything say how an engine is to be started?"""
        names = (self.engine_path, self.engine_target, self.engine_draft, self.engine_method)
        words = (*names, *self.engine_words, *self.engine_urls)
        return self.engine is not None or any(each is not None for each in words)

    @cached_property
    def servers(self) -> dict[int, str]:
        """Addresses of those that run already, by the tokens that they draft in a step."""
        from engines.running_servers import servers_of

        return servers_of(self.engine_urls) if self.engine_urls else {}

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest chain that is timed."""
        from engines import MOST_TOKENS

        if self.servers:
            return max(self.servers)
        return MOST_TOKENS if self.max_nodes is None else self.max_nodes - 1

    def program(
        self, room: int, models: tuple[str, str], known: EngineFacts | None = None
    ) -> Program:
        """The engine.

        room    tokens that it has to make room for
        models  names of target and draft, where it loads what the profiler does; an empty one of
                the draft for a method that needs none
        known   the engine that the plan was made for

        Raises PlannerError where none is named, for one that nobody knows, and for a draft that
        is no model.
        """
        from engines import PROGRAMS, Files

        from ..documents.origin import looks_up

        if looks_up(models[1]):
            raise PlannerError(
                f"draft: got {models[1]}, expected a model that the engine loads: engines look up "
                "in ways of their own, some of which --engine-method names"
            )
        name = self.engine or (known.name if known else None)
        if name not in PROGRAMS:
            raise PlannerError(
                f"engine: got {name or 'none'}, expected one of {', '.join(PROGRAMS)} (--engine)"
            )
        if known is not None and self.engine_method not in (None, known.method):
            raise PlannerError(
                f"engine-method: got {self.engine_method}, but the plan is for "
                f"{known.method or 'a draft model'}; leave it away"
            )
        if known is not None and known.name == name:
            files = Files.of(known)
        else:
            files = Files(*models, most_tokens=self.most_tokens)
        wishes = {
            "target": self.engine_target, "draft": self.engine_draft, "place": self.engine_path,
            "options": self.engine_words, "threads": self.threads, "method": self.engine_method,
        }  # fmt: skip
        said: dict[str, Any] = {name: value for name, value in wishes.items() if value}
        if self.servers:
            said |= {"servers": self.servers, "place": None, "options": (), "threads": None}
        elif self.engine_path:
            said["servers"] = {}
        return PROGRAMS[name](replace(files, **said), room)
