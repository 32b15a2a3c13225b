"""Chains that end when the next token is unlikely to be accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp

import numpy as np

from .policy import (
    ENTROPY,
    FEATURES,
    MAX_PROBABILITY,
    SCORE,
    Request,
)
from .settings import ConfidentDrafting, DynamicDrafting, StoppingDrafting


class _Chain:
    """One child below the last node as long as `_continues`; all else is the rules'."""

    max_children = 1

    def __init__(self, max_depth: int) -> None:
        self.num_nodes = max_depth + 1
        self._limit = max_depth
        self._max_depth = 0
        self._depth = 0
        self._continues = True

    def start(self, max_depth: int) -> None:
        self._max_depth = min(self._limit, max_depth)
        self._depth = 0
        self._continues = True

    def grow(self) -> Sequence[Request]:
        if not self._continues or self._depth == self._max_depth:
            return []
        last = self._depth
        self._depth += 1
        return [(last, 1)]

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        pass


class Stopping(_Chain):
    """Stop once 1 - (product of P(accepted) over the tokens) exceeds the threshold (SpecDec++).

    A draft pass over a token gives the head's word on that token, and the distribution from which
    the next one is drawn.  The head's word comes a pass later than the other scores, which are of
    that distribution.  What a pass has been spent on is drafted: the token that is drawn from the
    distribution joins the chain before the rule is asked, as in the paper's Algorithm 1.
    """

    def __init__(self, settings: StoppingDrafting) -> None:
        super().__init__(settings.max_depth)
        self.columns = COLUMNS[settings.score]
        self._factor = FACTORS[settings.score]
        self._least = 1 - settings.threshold
        self._all_accepted = 1.0

    def start(self, max_depth: int) -> None:
        super().start(max_depth)
        self._all_accepted = 1.0

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        self._all_accepted *= self._factor(nodes[0], float(drawn[0, 0]), features[0])
        self._continues = self._all_accepted >= self._least


Factor = Callable[[int, float, np.ndarray], float]
"""(node, drawn value of its revealed child, features [F] at the node) -> P(accepted) of a token."""


def _of_head(node: int, drawn: float, features: np.ndarray) -> float:
    return float(features[SCORE]) if node > 0 else 1.0


def _of_confidence(node: int, drawn: float, features: np.ndarray) -> float:
    return float(features[MAX_PROBABILITY])


def _of_entropy(node: int, drawn: float, features: np.ndarray) -> float:
    return exp(-float(features[ENTROPY]))


def _of_probability(node: int, drawn: float, features: np.ndarray) -> float:
    return drawn


FACTORS: dict[str, Factor] = {
    "head": _of_head,
    "confidence": _of_confidence,
    "entropy": _of_entropy,
    "probability": _of_probability,
}
COLUMNS: dict[str, tuple[str, ...]] = {
    "head": (FEATURES[SCORE],),
    "confidence": (FEATURES[MAX_PROBABILITY],),
    "entropy": (FEATURES[ENTROPY],),
    "probability": (),
}


class Confident:
    """The next token is drafted if the draft's distribution has an entry of at least `confidence`,
    as llama.cpp's `p-min` does it: the pass that says no is spent, and nothing is drafted with it.
    """

    columns: tuple[str, ...] = (FEATURES[MAX_PROBABILITY],)
    max_children = 1

    def __init__(self, settings: ConfidentDrafting) -> None:
        self.num_nodes = settings.max_depth + 1
        self._limit = settings.max_depth
        self._least = settings.confidence
        self._max_depth = 0
        self._expanded = 0
        self._sure = True

    def start(self, max_depth: int) -> None:
        self._max_depth = min(self._limit, max_depth)
        self._expanded = 0
        self._sure = True

    def grow(self) -> Sequence[Request]:
        last = self._expanded
        if not self._sure or last > self._max_depth:
            return []
        child = [(last - 1, 1)] if last > 0 else []
        if last == self._max_depth:
            self._expanded += 1
            return child
        return [*child, (last, 0)]

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        self._expanded += 1
        self._sure = float(features[0, MAX_PROBABILITY]) >= self._least

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        pass


class Dynamic(_Chain):
    """Hugging Face's assisted generation: so many tokens, ended after one of little probability.

    As in transformers 5.23's candidate generator and its confidence criterion: the token that
    falls short of the confidence is drafted still.  `heuristic`: two tokens more after a step all
    of whose tokens were accepted, one less otherwise.  `adaptive` (there, where scikit-learn is
    installed): after each step the confidence is set to the threshold of least
    (false positive rate) + 3 (false negative rate) over all tokens of the text so far that were
    accepted or rejected, once they are more than five and of both sorts.
    """

    columns: tuple[str, ...] = ()

    def __init__(self, settings: DynamicDrafting) -> None:
        super().__init__(settings.max_depth)
        self._wanted = settings.num_tokens
        self._heuristic = settings.schedule == "heuristic"
        self._confidence = settings.confidence
        self._adaptive = settings.adaptive and settings.confidence > 0
        self._chain: list[float] = []
        self._probabilities: list[float] = []
        self._accepted: list[bool] = []

    def start(self, max_depth: int) -> None:
        super().start(min(self._wanted, max_depth))
        self._chain = []

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        self._chain.append(float(drawn[0, 0]))
        self._continues = self._chain[-1] >= self._confidence

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        num_drafted, num_accepted = len(self._chain), len(path)
        if self._heuristic:
            all_accepted = num_accepted == num_drafted
            self._wanted = self._wanted + 2 if all_accepted else max(1, self._wanted - 1)
        if self._adaptive:
            judged = min(num_accepted + 1, num_drafted)
            self._probabilities += self._chain[:judged]
            self._accepted += [place < num_accepted for place in range(judged)]
            if len(self._accepted) > 5 and len(set(self._accepted)) == 2:
                self._confidence = best_confidence(self._probabilities, self._accepted)


def best_confidence(probabilities: Sequence[float], accepted: Sequence[bool]) -> float:
    """The threshold c for which "probability >= c" tells accepted tokens from rejected ones best.

    probabilities  [tokens]
    accepted       [tokens], of both sorts

    Returns the largest c of least (share of the rejected that pass) + 3 (share of the accepted
    that do not), among the probabilities and infinity (nothing passes).
    """
    order = np.argsort(probabilities)[::-1]
    values = np.asarray(probabilities, np.float64)[order]
    right = np.asarray(accepted, bool)[order]
    last = np.append(np.flatnonzero(np.diff(values)), len(values) - 1)
    passed = np.append(0, right.cumsum()[last]) / right.sum()
    wrong = np.append(0, (~right).cumsum()[last]) / (~right).sum()
    thresholds = np.append(np.inf, values[last])
    return float(thresholds[np.argmin(wrong + 3 * (1 - passed))])
