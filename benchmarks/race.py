"""Times of the steps of several plans that decode the same texts side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from time import perf_counter

import numpy as np

from runtime import VERIFIERS, Decoder, Session
from runtime.randomness import seeded_source

DISTURBED = 1.5
"""A step that took so many times the median of its kind was disturbed from outside."""
WARM_UP_TOKENS = 16


@dataclass(frozen=True)
class StepTime:
    """One step."""

    passes: int
    """Of the draft."""
    nodes: int
    """Verified, root included."""
    ms: float


@dataclass(frozen=True)
class Lap:
    """Counts and times of one plan's steps: float64 [prompts] each."""

    steps: np.ndarray
    passes: np.ndarray
    """Of the draft."""
    nodes: np.ndarray
    """Verified, roots included."""
    ms: np.ndarray
    """Of all steps; the shortest where a prompt was decoded repeatedly: what disturbs only ever
    adds to it."""
    pass_ms: float
    """What one more draft pass adds to a step, others being equal (least squares over all steps; 0
    where all have as many)."""
    node_ms: float
    """The same for one more node."""


class Race:
    """Several plans decoding the same prompts, a step of each in turn, in an order of its own every
    time: what slows the machine for a second slows all of them alike.

    decoders  of the plans
    prompts   each decoded for `num_tokens` by every one of them; once more when asked for again,
              with the same steps
    """

    def __init__(
        self, decoders: Sequence[Decoder], prompts: Sequence[Sequence[int]], num_tokens: int
    ) -> None:
        self._decoders, self._prompts, self._num_tokens = decoders, prompts, num_tokens
        self._taken: list[list[list[list[StepTime]]]] = [[[] for _ in prompts] for _ in decoders]
        self._order = np.random.default_rng(0)
        for each in decoders:
            each.generate(prompts[-1], max_new_tokens=WARM_UP_TOKENS)  # compiles

    def decode(self, index: int) -> None:
        """One prompt, by all."""
        texts = [
            _Text(decoder, self._prompts[index], self._num_tokens, index)
            for decoder in self._decoders
        ]
        running = list(range(len(texts)))
        while running:
            for place in self._order.permutation(running):
                texts[place].step()
            running = [place for place in running if not texts[place].ended]
        for taken, text in zip(self._taken, texts, strict=True):
            taken[index].append(text.times)

    def laps(self) -> list[Lap]:
        """The lap of each of the decoders, all prompts having been decoded as often."""
        return [_lap_of(taken) for taken in self._taken]


def undisturbed(texts: Sequence[Sequence[StepTime]]) -> list[list[float]]:
    """Milliseconds of the steps of each text of one plan, where `DISTURBED` times the median of all
    that have as many draft passes and nodes, or more, counts as the median."""
    times: dict[tuple[int, int], list[float]] = defaultdict(list)
    for step in chain(*texts):
        times[step.passes, step.nodes].append(step.ms)
    usual = {kind: float(np.median(each)) for kind, each in times.items()}

    def counted(step: StepTime) -> float:
        median = usual[step.passes, step.nodes]
        return step.ms if step.ms < DISTURBED * median else median

    return [[counted(step) for step in text] for text in texts]


def slopes(steps: Sequence[StepTime], ms: Sequence[float]) -> tuple[float, float]:
    """Milliseconds that a draft pass and that a node adds to a step of `ms`, by least squares."""
    table = np.array([(step.passes, step.nodes) for step in steps], float)
    times = np.array(ms)
    found = np.linalg.lstsq(table - table.mean(axis=0), times - times.mean(), rcond=None)[0]
    return float(found[0]), float(found[1])


def _lap_of(taken: Sequence[Sequence[Sequence[StepTime]]]) -> Lap:
    """taken  [prompts, rounds, steps]"""
    texts = [text for rounds in taken for text in rounds]
    times = undisturbed(texts)
    left = iter(times)
    shortest = [min(sum(next(left)) for _ in rounds) for rounds in taken]
    first = [rounds[0] for rounds in taken]
    pass_ms, node_ms = slopes(list(chain(*texts)), list(chain(*times)))
    return Lap(
        np.array([len(text) for text in first], float),
        np.array([sum(step.passes for step in text) for text in first], float),
        np.array([sum(step.nodes for step in text) for text in first], float),
        np.array(shortest), pass_ms, node_ms,
    )  # fmt: skip


class _Text:
    """One prompt under way."""

    def __init__(self, decoder: Decoder, prompt: Sequence[int], num_tokens: int, seed: int) -> None:
        self.times: list[StepTime] = []
        self._left, self._stop = num_tokens, set(decoder.target.stop_tokens)
        self._policy = decoder.plan.policy()
        self._session = Session(
            decoder.target, decoder.draft,
            verifier=VERIFIERS[decoder.plan.verifier],
            sampling=decoder.plan.sampling,
            rng=seeded_source(seed, decoder.target.device),
            capacity=len(prompt) + num_tokens + self._policy.num_nodes,
            score=decoder.score,
            timed=False,
        )  # fmt: skip
        self._session.prefill(prompt)

    @property
    def ended(self) -> bool:
        return self._left < 1

    def step(self) -> None:
        start = perf_counter()
        done = self._session.step(self._policy, max_tokens=self._left)
        ms = 1e3 * (perf_counter() - start)
        self.times.append(StepTime(len(done.widths), done.num_nodes, ms))
        self._left -= len(done.tokens)
        if self._stop.intersection(done.tokens):
            self._left = 0
