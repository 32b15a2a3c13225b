"""The serving engine that a profile's times are of."""

from __future__ import annotations

from pydantic import Field

from .document import Part
from .sampling import Sampling


class EngineFacts(Part):
    """The program that serves: how it drafts and accepts, and what it was started with."""

    name: str = Field(description="as `planner profile --engine` and `planner export --to` call it")
    version: str = Field(description="as it says itself")
    verifier: str = Field(description="that it accepts drafted tokens by, where the target samples")
    greedy_only: bool = Field(
        default=False, description="does it follow the target's distribution only where greedy?"
    )
    solvers: list[str] = Field(min_length=1, description="whose plans it can carry out")
    most_tokens: int = Field(ge=1, description="drafted by one step, at most: what was timed")
    confidence_of: Sampling | None = Field(
        default=None,
        description="of the draft's distribution that ends a chain; null: the one it drafts from",
    )
    method: str | None = Field(
        default=None,
        pattern=r"^[\w-]+$",
        exclude_if=lambda method: method is None,
        description="its own word for how it drafts, where acceptance is what it counted; null: by "
        "a draft model, whose acceptance was measured apart from it",
    )
    target: str = Field(description="its file or folder of the target")
    draft: str = Field(description="its file or folder of the draft; empty: it needs none")
    place: str | None = Field(
        default=None, description="folder of its programs; null: found by itself"
    )
    servers: dict[int, str] = Field(
        default={},
        exclude_if=lambda servers: not servers,
        description="addresses of those that ran already, by the tokens that each drafts in a "
        "step; none: it was started for this",
    )
    options: list[str] = Field(default=[], description="that it was started with besides")
    threads: int | None = Field(default=None, ge=1, description="null: as many as it takes")

    @property
    def flags(self) -> list[str]:
        """The words of `planner profile` that ask for the same engine, started alike."""
        named = {
            "engine-path": self.place,
            "engine-target": self.target,
            "engine-draft": self.draft,
            "engine-method": self.method,
            "threads": self.threads,
        }
        if not self.servers:
            named["max-nodes"] = self.most_tokens + 1
        words = [f"--engine={self.name}"]
        words += [f"--{name}={value}" for name, value in named.items() if value]
        words += [f"--engine-option={word}" for word in self.options]
        return words + [
            f"--engine-url={length}={url}" if length else f"--engine-url={url}"
            for length, url in self.servers.items()
        ]
