"""The settings of a measurement, and what becomes of the numbers that nobody named.

A number that was named is kept or refused, never changed.  One that was not is fitted to the
models: to the positions that both serve and to their vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling
from runtime.pair import Served

from .recording import Width
from .times.batches import grid_at
from .times.cost_grid import CostGrid


@dataclass(frozen=True)
class Extent:
    """How much is measured, every number settled."""

    contexts: tuple[int, ...]
    """Tokens in the cache when times are measured, ascending."""
    max_nodes: int
    """Largest tree to be timed, root included."""
    num_tokens: int
    """Length of the target's continuation of each prompt."""
    num_ranks: int
    """Children of one node that acceptance is measured for."""
    repeats: int
    """Sweeps over all times, at each context."""
    num_replayed: int
    """Prompts, the first so many, at whose positions whole trees are recorded; 0: none."""
    whole_paths: bool = False
    """Are trees recorded for verifiers, too, that judge whole paths?  The target reads what they
    reject: each takes three times as long."""


QUICK = Extent(
    contexts=(128,), max_nodes=64, num_tokens=128, num_ranks=16, repeats=20, num_replayed=48
)
"""The default extent: at one context, which plans are made for where none is asked for;
it takes two to three minutes with the embedded models on two quiet cores.  (Plans from 12
sweeps and 32 recorded texts kept their promises less well.)"""
THOROUGH = replace(QUICK, contexts=(128, 512), repeats=40, num_replayed=64, whole_paths=True)
"""More, for plans at other contexts and to compare policies that differ little."""


@dataclass(frozen=True)
class Settings:
    """The wishes for a measurement; None stands for as much of `wanted` as the models allow."""

    samplings: tuple[Sampling, ...]
    contexts: tuple[int, ...] | None = None
    max_nodes: int | None = None
    num_tokens: int | None = None
    num_ranks: int | None = None
    repeats: int | None = None
    num_replayed: int | None = None
    whole_paths: bool | None = None
    batch_sizes: tuple[int, ...] = (1,)
    """Requests that decode together: times are taken for each of these numbers."""
    seed: int = 0
    width: Width = field(default_factory=Width)
    """How much of every recorded tree."""
    wanted: Extent = QUICK


def fitted(settings: Settings, pair: Served, longest_prompt: int) -> Extent:
    """`settings` with every number settled, those not named as large as `pair` allows.

    longest_prompt  tokens of the longest prompt, which the target is to continue

    Raises PlannerError naming the number that was asked for and cannot be had.
    """
    wanted, positions = settings.wanted, pair.max_positions
    named = {
        each.name: number
        for each in fields(Extent)
        if (number := getattr(settings, each.name)) is not None
    }
    fitting = replace(
        wanted,
        max_nodes=_most_nodes(settings, pair),
        num_tokens=max(1, min(wanted.num_tokens, positions - longest_prompt)),
        num_ranks=min(wanted.num_ranks, pair.vocab_size),
    )
    extent = replace(fitting, **named)
    if extent.num_ranks > pair.vocab_size:
        raise PlannerError(
            f"num_ranks: got {extent.num_ranks}, expected at most the vocabulary, {pair.vocab_size}"
        )
    if extent.max_nodes < 2 or extent.repeats < 2:
        raise PlannerError("max_nodes and repeats: expected at least 2 each")
    grid = CostGrid.up_to(extent.max_nodes, pair.vocab_size)
    for size in settings.batch_sizes:
        grid_at(size, extent.max_nodes, pair.vocab_size)
    deepest = grid.depth
    most = positions - deepest
    if settings.contexts is None:
        contexts = sorted({min(context, most) for context in wanted.contexts})
        extent = replace(extent, contexts=tuple(contexts))
    for context in extent.contexts:
        if not 1 <= context <= most:
            raise PlannerError(
                f"context: got {context}, expected at most {most}: the models serve {positions} "
                f"positions and the trees timed are {deepest} levels deep"
            )
    return extent


def shortened(
    prompts: Sequence[Sequence[int]], pair: Served, num_tokens: int | None
) -> list[list[int]]:
    """Prompts that nobody named, made to fit `pair`: their first tokens, those that it knows.

    num_tokens  to follow each, if that was named; None: as many as the longest prompt then has,
                or more

    Prompts of which nothing is left are left out.
    """
    positions = pair.max_positions
    room = positions // 2 if num_tokens is None else positions - num_tokens
    known = ([token for token in prompt if 0 <= token < pair.vocab_size] for prompt in prompts)
    return [prompt[: max(1, room)] for prompt in known if prompt]


def _most_nodes(settings: Settings, pair: Served) -> int:
    """The largest tree, among halves of what is wanted, that finds room behind every context."""
    least = max(settings.contexts or (1,))
    num_nodes = settings.wanted.max_nodes
    while num_nodes > 2 and least + _deepest(num_nodes, pair) > pair.max_positions:
        num_nodes //= 2
    return num_nodes


def _deepest(max_nodes: int, pair: Served) -> int:
    """Levels of the deepest tree that is timed."""
    return CostGrid.up_to(max_nodes, pair.vocab_size).depth
