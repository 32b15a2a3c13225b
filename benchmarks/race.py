"""Times of the steps of several plans that decode the same texts side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from time import perf_counter

import numpy as np

from runtime import VERIFIERS, Decoder, Session
from runtime.randomness import seeded_source

from .decoding import ByPrompt, Steps

DISTURBED = 1.5
"""A step that took so many times the median of its kind was disturbed from outside."""
WARM_UP_TOKENS = 16


@dataclass(frozen=True)
class StepTime:
    """One step."""

    passes: int
    """Passes of the draft."""
    nodes: int
    """Verified, root included."""
    ms: float


@dataclass(frozen=True)
class Lap(Steps):
    """The steps of one plan, and their times."""

    ms: ByPrompt
    """The times of all steps; the shortest where a prompt was decoded repeatedly: what disturbs
    only ever adds to it."""
    pass_ms: float
    """The time that one more draft pass adds to a step, others being equal (least squares over all
    steps; 0 where all have as many)."""
    node_ms: float
    """The same for one more node."""

    @property
    def step_ms(self) -> float:
        """Mean time of a step."""
        return float(self.ms.sum() / self.steps.sum())

    def step_on(self, texts: Steps) -> float:
        """Mean time of a step on other texts, where it takes other passes and nodes."""
        passes = texts.passes_per_step - self.passes_per_step
        nodes = texts.nodes_per_step - self.nodes_per_step
        return self.step_ms + self.pass_ms * passes + self.node_ms * nodes

    @property
    def influence(self) -> np.ndarray:
        """float64 [prompts]: by how much each moves ln(step_ms), its draft passes and nodes being
        what they are; they sum to 0."""
        rest = self.ms - self.pass_ms * self.passes - self.node_ms * self.nodes
        return (rest - self.steps * rest.sum() / self.steps.sum()) / self.ms.sum()


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
        taken: list[list[StepTime]] = [[] for _ in self._decoders]
        running = {
            place: _steps_of(decoder, self._prompts[index], self._num_tokens, index)
            for place, decoder in enumerate(self._decoders)
        }
        while running:
            for place in self._order.permutation(list(running)):
                step = next(running[place], None)
                if step is None:
                    del running[place]
                else:
                    taken[place].append(step)
        for rounds, steps in zip(self._taken, taken, strict=True):
            rounds[index].append(steps)

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
        np.array(shortest),
        pass_ms,
        node_ms,
    )


def _steps_of(
    decoder: Decoder, prompt: Sequence[int], num_tokens: int, seed: int
) -> Iterator[StepTime]:
    """The steps of one text, each taken when it is asked for."""
    policy, stop = decoder.plan.policy(), set(decoder.target.stop_tokens)
    session = Session(
        decoder.target, decoder.draft,
        verifier=VERIFIERS[decoder.plan.verifier],
        sampling=decoder.plan.sampling,
        rng=seeded_source(seed, decoder.target.device),
        capacity=len(prompt) + num_tokens + policy.num_nodes,
        score=decoder.score,
        timed=False,
    )  # fmt: skip
    session.prefill(prompt)
    left = num_tokens
    while left > 0:
        start = perf_counter()
        done = session.step(policy, max_tokens=left)
        yield StepTime(len(done.widths), done.num_nodes, 1e3 * (perf_counter() - start))
        left = 0 if stop.intersection(done.tokens) else left - len(done.tokens)
