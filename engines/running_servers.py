"""Servers that somebody else has started: one without speculation, others with chains of a length.

Whoever serves from containers, or on another machine, starts them there, each told to draft so many
tokens in a step, and says where they answer.  So none is started here, and only those lengths are
timed.  A server that turns out to draft otherwise than was said is refused.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling
from planner.policies import Drafting

from .asking import asked, is_healthy
from .program import Answer, Running, ToldByName

EXPECTED = "[K=]URL, as in http://127.0.0.1:8000 and 3=http://127.0.0.1:8001"


def servers_of(words: Sequence[str]) -> dict[int, str]:
    """Addresses by the tokens that the server there drafts in a step, of words `[K=]URL`.

    Raises PlannerError for other words, where one number has two servers, and unless one drafts
    nothing and another something.
    """
    found: dict[int, str] = {}
    for word in words:
        head, is_said, tail = word.partition("=")
        number, url = (head, tail) if is_said and head.isdecimal() else ("0", word)
        try:
            parts = urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is none
            known = False
        if not known:
            raise PlannerError(f"engine-url: got {word!r}, expected {EXPECTED}")
        if int(number) in found:
            raise PlannerError(
                f"engine-url: got two servers that draft {int(number)} tokens a step, expected one"
            )
        found[int(number)] = url.rstrip("/")
    if 0 not in found or len(found) < 2:
        raise PlannerError(
            f"engine-url: got {' '.join(words)}, expected a server without speculation, URL, and "
            "one or more that draft K tokens in a step, K=URL"
        )
    return dict(sorted(found.items()))


class ServedByName(ToldByName):
    """A `ToldByName` that serves over HTTP: started here, or running already (`Files.servers`)."""

    is_served = True
    version_page: ClassVar[tuple[str, str]]
    """The page that says which version answers, and its name for it there."""

    @abstractmethod
    def started(
        self, drafting: Drafting | None, requests: int = 1
    ) -> AbstractContextManager[Running]:
        """One that is started here; see `Program.running`."""

    @abstractmethod
    def answering(self, address: str, *, alone: bool) -> Running:
        """One that runs at this address; `alone`: without speculation, as is said."""

    @property
    def own_lengths(self) -> Sequence[int]:
        """See `Program.own_lengths`."""
        return [length for length in self.files.servers if length]

    @contextmanager
    def running(self, drafting: Drafting | None, requests: int = 1) -> Iterator[Running]:
        """See `Program.running`."""
        servers, length = self.files.servers, 0 if drafting is None else drafting.most_nodes - 1
        if not servers:
            with self.started(drafting, requests) as running:
                yield running
        elif length not in servers:
            raise PlannerError(
                f"engine-url: got servers that draft {', '.join(map(str, servers))} tokens a step, "
                f"expected one that drafts {length}; start it, and give {length}=URL"
            )
        elif not is_healthy(servers[length]):
            raise PlannerError(f"engine-url: got {servers[length]}, which does not say it is ready")
        else:
            yield _AsSaid(
                self.answering(servers[length], alone=not length), servers[length], length
            )

    def version_there(self) -> str:
        """The version that the first of those that run already says it has.  Raises PlannerError
        where none answers there."""
        page, name = self.version_page
        address = next(iter(self.files.servers.values()))
        with asked(f"the server at {address}", f"{address}/{page}") as answer:
            said = json.load(answer)
        return str(said.get(name, "unknown")) if isinstance(said, dict) else "unknown"


@dataclass(frozen=True)
class _AsSaid:
    """A server of which somebody says that it drafts `length` tokens in a step."""

    running: Running
    address: str
    length: int

    def decode(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        requests: int = 1,
        *,
        num_tokens: int,
        seed: int,
    ) -> Answer:
        """See `Running.decode`.  Raises PlannerError, too, for a step of more than was said."""
        found = self.running.decode(prompt, sampling, requests, num_tokens=num_tokens, seed=seed)
        most = self.length * found.num_steps
        if found.num_drafted > most or found.num_accepted > most:
            raise PlannerError(
                f"engine-url: got {self.address}, which drafted "
                f"{max(found.num_drafted, found.num_accepted)} tokens in {found.num_steps} steps, "
                f"expected {self.length} a step at most, as was said"
            )
        return found
