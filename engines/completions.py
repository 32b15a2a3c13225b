"""Servers that speak OpenAI's `/v1/completions`: asked with token ids, read as a stream.

Time is counted from the first chunk, which the reading of the prompt ends with, to the last one;
steps are counted on the page of metrics before and behind a request, or several at once.  So nobody
else may ask the same server meanwhile.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from planner.documents.document import PlannerError
from planner.documents.engine import EngineFacts
from planner.documents.sampling import Sampling

from .asking import asked, at_once, is_healthy
from .metrics_page import Counted, CounterNames, counted
from .process import free_port, program, served
from .program import Answer, Files
from .running_servers import ServedByName

VERSION_S = 120.0
ROOM = 8
"""Texts that a server's cache holds, at least: it would fill the GPU's memory, but others run
beside it."""
CHOSEN = ("--host", "--port")
"""Options that nobody else may give."""


def command_of(name: str, files: Files) -> str:
    """Path of the program, which is called as its package is.  Raises PlannerError without one."""
    return program(name, files.place, f"pip install {name}, or give its folder with --engine-path")


def cache_room(context: int, requests: int) -> int:
    """Tokens that a server's cache is to hold, where no text has more than `context`."""
    return max(ROOM, 2 * requests) * max(context, 64)


def chain_facts(engine: ServedByName, name: str, *, version_word: str) -> EngineFacts:
    """The facts of an engine that drafts chains of one length, greedily, and accepts a token where
    the target's own draw is the same.

    version_word  what its program is to be told so that it says its version

    Raises PlannerError for models that it cannot load, and for options that are chosen here.
    """
    files = engine.files
    for role, model in (("target", files.target), ("draft", files.draft)):
        if model.startswith("embedded/") and not files.servers:
            raise PlannerError(
                f"engine-{role}: got {model}, expected a folder or a name that {name} can load"
            )
    for option in files.options:
        if option.split("=")[0] in CHOSEN:
            raise PlannerError(f"engine-option: got {option}, which is chosen when it is started")
    return EngineFacts(
        name=name,
        version=engine.version_there()
        if files.servers
        else _version(name, [command_of(name, files), version_word]),
        verifier="topk",
        solvers=["chain"],
        most_tokens=files.most_tokens,
        method=files.method,
        target=files.target,
        draft=files.draft,
        place=files.place,
        servers=dict(files.servers),
        options=list(files.options),
    )


def _version(name: str, command: Sequence[str]) -> str:
    try:
        said = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=VERSION_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlannerError(f"engine: {name} does not say its version: {error}") from None
    found = re.search(r"\d+\.\d+\S*", said.stdout)
    return found[0] if found else "unknown"


@contextmanager
def streaming(
    name: str, command: Sequence[str], options: Sequence[str], counters: CounterNames | None
) -> Iterator[StreamedServer]:
    """The server that `command` starts, on a port of its own.

    options   the last words of the command: what stands there again holds
    counters  None: it does not speculate
    """
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--port", str(port)]
    with served([*command, *where, *options], lambda: is_healthy(address)):
        yield StreamedServer(name, address, counters)


class _Chunk(NamedTuple):
    """Tokens that arrived together, and when, in seconds."""

    arrived: float
    tokens: list[int]


@dataclass(frozen=True)
class StreamedServer:
    """A started server."""

    name: str
    address: str
    counters: CounterNames | None
    alone: bool = False
    """Without speculation, as somebody says: steps that it counts all the same show it."""

    def decode(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        requests: int = 1,
        *,
        num_tokens: int,
        seed: int,
    ) -> Answer:
        wanted = {
            "prompt": list(prompt),
            "max_tokens": num_tokens,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k or -1,
            "top_p": sampling.top_p,
            "min_p": 0.0 if sampling.is_greedy else sampling.min_p,
            "repetition_penalty": 1.0,  # a model's own settings would stand in for what is not said
            "ignore_eos": True,
            "seed": seed,
            "stream": True,
            "return_token_ids": True,
        }
        names = self.counters
        before = names and counted(self.name, self.address, names, started=False)
        texts = at_once(partial(self._chunks, wanted, num_tokens), requests)
        timed = sum(len(chunk.tokens) for text in texts for chunk in text[1:])
        num_steps, num_drafted = timed, 0
        if names and before:
            done = counted(self.name, self.address, names, started=not self.alone).since(before)
            behind = requests * (num_tokens - 1)
            if self.alone and not done.steps:
                done = Counted(behind, 0, 0)
            undrafted = behind - done.steps - done.accepted if names.accepted else 0
            steps = done.steps + max(0, undrafted)
            if not 0 < steps <= behind:
                raise PlannerError(
                    f"engine: {self.name} counted {steps} steps for {behind} tokens; is somebody "
                    "else asking the same server?"
                )
            share = timed / behind  # 1, but where the first chunk holds more than the first token
            num_steps, num_drafted = max(1, round(steps * share)), round(done.drafted * share)
        return Answer(
            tokens=[token for chunk in texts[0] for token in chunk.tokens],
            num_timed=timed,
            num_steps=num_steps,
            num_drafted=num_drafted,
            num_accepted=timed - num_steps,
            ms=sum(1e3 * (text[-1].arrived - text[0].arrived) for text in texts),
        )

    def _chunks(self, wanted: Mapping[str, Any], num_tokens: int) -> list[_Chunk]:
        """Two chunks or more, `num_tokens` tokens in all."""
        with asked(self.name, f"{self.address}/v1/completions", wanted) as stream:
            events = (
                (perf_counter(), json.loads(line[len(b"data: ") :]))
                for line in stream
                if line.startswith(b"data: {")
            )
            chunks = [_Chunk(arrived, self._tokens(event)) for arrived, event in events]
        chunks = [chunk for chunk in chunks if chunk.tokens]
        found = sum(len(chunk.tokens) for chunk in chunks)
        if found != num_tokens:
            raise PlannerError(
                f"engine: {self.name} stopped answering after {found} of {num_tokens} tokens"
            )
        if len(chunks) < 2:
            raise PlannerError(
                f"engine: {self.name} answered in one piece, expected a stream, step by step"
            )
        return chunks

    def _tokens(self, event: Mapping[str, Any]) -> list[int]:
        """The token ids of one event, none where it holds other things."""
        if "error" in event:
            said = json.dumps(event["error"])[:300]
            raise PlannerError(f"engine: {self.name} stopped answering: {said}")
        try:
            return [int(token) for choice in event["choices"] for token in choice["token_ids"]]
        except (KeyError, TypeError, ValueError):
            raise PlannerError(
                f"engine: {self.name} answered without token ids; expected `token_ids` in every "
                "chunk, as vLLM 0.33 and SGLang 0.5.23 give them"
            ) from None
