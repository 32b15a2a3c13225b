"""A serving engine: what it is asked, whichever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

from planner.documents.document import PlannerError
from planner.documents.engine import EngineFacts
from planner.documents.sampling import Sampling
from planner.policies import Drafting

MOST_TOKENS = 16
"""Drafted by one step, where nobody says how many."""


@dataclass(frozen=True)
class Files:
    """The places of an engine and of what it loads, and what it is started with.

    place    folder of its programs; None: wherever it is found
    target   file or folder, in the engine's own format
    draft    likewise
    options  more words of its command line
    threads  of the processor; None: as many as it takes by itself
    most_tokens  drafted by one step, at most: so far it is timed
    method   its own word for how it drafts, with `draft` or, where that is empty, alone; None: by a
             draft model
    servers  addresses of those that run already, by the tokens that they draft in a step; none: it
             is started here
    """

    target: str
    draft: str
    place: str | None = None
    options: tuple[str, ...] = ()
    threads: int | None = None
    most_tokens: int = MOST_TOKENS
    method: str | None = None
    servers: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: EngineFacts) -> Files:
        """The files that a profile's engine was started with."""
        return cls(
            facts.target, facts.draft, facts.place, tuple(facts.options), facts.threads,
            facts.most_tokens, facts.method, facts.servers,
        )  # fmt: skip


class Answer(NamedTuple):
    """One prompt's continuation by an engine, the reading of the prompt excluded."""

    tokens: list[int]
    num_timed: int
    """Tokens that the rest is of: all but those that come with the prompt."""
    num_steps: int
    """Passes of the target that they took."""
    num_drafted: int
    """0 where the engine does not tell."""
    num_accepted: int
    ms: float
    """Wall time."""
    cpu_ms: float | None = None
    """Time of all of its threads on processors, where the system tells."""


class Running(Protocol):
    """An engine that has its models loaded and one way of drafting set."""

    def decode(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        requests: int = 1,
        *,
        num_tokens: int,
        seed: int,
    ) -> Answer:
        """`num_tokens` tokens behind `prompt`, the text's end ignored.  Raises PlannerError.

        requests  equal ones, asked at once: the answer has the tokens of one, and of the rest the
                  sums
        """


class PassTimes(NamedTuple):
    """Times of a model's passes over n tokens, by the engine's own benchmark."""

    target: dict[int, list[float]]
    """Milliseconds of repeated passes, by n."""
    draft: dict[int, list[float]]


class Program(Protocol):
    """An engine that people serve with: one class and one row in `PROGRAMS`."""

    @property
    def facts(self) -> EngineFacts:
        """The facts of a profile.  Raises PlannerError where the engine is not to be found."""

    @property
    def default(self) -> Drafting:
        """The way it drafts if nobody sets anything."""

    @property
    def batches(self) -> bool:
        """Can it be asked several requests at once?"""

    @property
    def has_benchmark(self) -> bool:
        """Does it time passes?  Otherwise only whole steps tell what they take."""

    @property
    def own_lengths(self) -> Sequence[int]:
        """Lengths of the chains that servers run for already; none: it is started with any."""

    def running(
        self, drafting: Drafting | None, requests: int = 1
    ) -> AbstractContextManager[Running]:
        """The started engine; None: without speculation.  Nothing is left running behind it.

        requests  the most that it will be asked at once; more than one only if it `batches`

        Raises PlannerError with its own last words where it does not start.
        """

    def accepting(self, drafting: Drafting, requests: int = 1) -> AbstractContextManager[Running]:
        """Likewise, accepting all that is drafted, whatever it is: asked only where it
        `has_benchmark`."""

    def passes(self, sizes: Sequence[int], *, context: int, repeats: int) -> PassTimes | None:
        """Times of passes behind `context` tokens; None where it has no benchmark."""

    def words(self, drafting: Drafting | None) -> str:
        """The setting as the engine is told it."""


@dataclass(frozen=True)
class ToldByName(ABC):
    """The parts of a `Program` that is told its setting as values by name."""

    files: Files
    context: int
    """Tokens of a text that it makes room for."""
    default: ClassVar[Drafting]
    batches: ClassVar[bool] = False
    methods: ClassVar[Sequence[str]] = ()
    """Its words for the methods that it can be told to draft by."""
    without_model: ClassVar[Sequence[str]] = ()
    """Those, of them, that need no file."""
    looked_up: ClassVar[Sequence[str]] = ()
    """Others, that copy from the text and know no file."""
    is_served: ClassVar[bool] = False
    """Does it answer over HTTP?"""

    def __post_init__(self) -> None:
        method = self.files.method
        if self.files.servers and not self.is_served:
            raise PlannerError("engine-url: got one, expected none: this engine is no server")
        if method is not None and method not in self.methods:
            known = ", ".join(self.methods) or "none: it drafts by a draft model alone"
            raise PlannerError(f"engine-method: got {method}, expected {known}")
        if method is not None and not self.files.draft and method not in self.without_model:
            raise PlannerError(
                f"engine-draft: got none, expected the model or the heads that {method} drafts with"
            )
        if method in self.looked_up and self.files.draft:
            raise PlannerError(
                f"engine-draft: got {self.files.draft}, expected none: {method} copies from the "
                "text; leave it and --draft away"
            )

    @property
    def has_benchmark(self) -> bool:
        """See `Program.has_benchmark`."""
        return False

    @property
    def own_lengths(self) -> Sequence[int]:
        """See `Program.own_lengths`."""
        return ()

    def accepting(self, drafting: Drafting, requests: int = 1) -> AbstractContextManager[Running]:
        """See `Program.accepting`."""
        raise NotImplementedError(f"{type(self).__name__} accepts what its target does")

    @abstractmethod
    def told(self, drafting: Drafting) -> Mapping[str, object]:
        """The values that tell two settings apart."""

    def passes(self, sizes: Sequence[int], *, context: int, repeats: int) -> PassTimes | None:
        """See `Program.passes`."""
        return None

    def words(self, drafting: Drafting | None) -> str:
        """See `Program.words`."""
        if drafting is None:
            return "no draft"
        return ", ".join(f"{name} {value}" for name, value in self.told(drafting).items())


def check_batches(engine: Program, batch_sizes: Collection[int]) -> None:
    """Raise PlannerError for requests at once where the engine is asked one by one."""
    if max(batch_sizes) > 1 and not engine.batches:
        raise PlannerError(
            f"batch_size: got {', '.join(map(str, sorted(batch_sizes)))}, expected 1 alone: "
            f"{engine.facts.name} is asked one request at a time"
        )
