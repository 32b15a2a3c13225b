"""The text's own n-grams as a law of its next token: one compiled pass over the text a row.

Every token of the text speaks for itself to come again, the louder the more tokens in front of it
are those at the text's end.  With c_m(x) of the n_m places whose last m tokens are the text's last
m being followed by x,

    P_m(x) = (c_m(x) + d P_(m-1)(x)) / (n_m + d),    m = s, s + 1, ..., `LONGEST`:

longer contexts have the first word, and leave to shorter ones, and to the law P_(s-1) that is
given, what they have too few places for.  With s = 0 a single match of m tokens is continued with
chance 1 - (d / (1 + d))^m or a little more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

LONGEST = 8
"""Tokens of a context, at most: more add next to nothing."""


@dataclass(frozen=True)
class Contexts:
    """The contexts that have a word, and how soon they are believed."""

    shortest: int
    """s: tokens of the shortest one."""
    doubt: float
    """d: how many places the shorter contexts' word counts for."""


ALONE = Contexts(shortest=0, doubt=2.0)
"""Over a law that knows nothing.  The likeliest token came about as often as its probability said,
in texts of the embedded target at T=0 and T=0.6."""
BESIDE = Contexts(shortest=2, doubt=4.0)
"""Over a draft model's.  Of 1 to 4 tokens with doubts of 1 to 8 these raised the embedded draft's
acceptance about the most, at T=0, 0.6 and 1."""


def fill_ngram_law(
    logs: np.ndarray, tokens: np.ndarray, visible: np.ndarray, contexts: Contexts
) -> None:
    """Make the logarithms of P_(s-1) behind each of w texts those of P_`LONGEST`, in place.

    logs     float [w, V]
    tokens   int64 [n]    from 0 to V - 1; a text is some of them, in their order
    visible  bool [w, t]  which of the last t tokens each text has, its last one among them; all
                          before those are in every text

    Takes time O(w (n + V)), and memory O(n + V).
    """
    _fill(
        logs,
        np.ascontiguousarray(tokens, np.int64),
        np.ascontiguousarray(visible),
        contexts.shortest,
        contexts.doubt,
    )


@njit(cache=True)
def _fill(
    logs: np.ndarray, tokens: np.ndarray, visible: np.ndarray, shortest: int, doubt: float
) -> None:
    num_shared = len(tokens) - visible.shape[1]
    text, matched = tokens.copy(), np.empty(len(tokens), np.int64)
    masses = np.zeros(logs.shape[1])
    places, weights = np.empty((2, LONGEST + 1))
    for row in range(len(visible)):
        size = num_shared
        for column in range(visible.shape[1]):
            if visible[row, column]:
                text[size] = tokens[num_shared + column]
                size += 1
        _match(text, size, matched, places)
        left = logs.dtype.type(np.log(_weigh(places, weights, shortest, doubt)))
        for place in range(size):
            masses[text[place]] += weights[matched[place]]
        for token in range(logs.shape[1]):
            logs[row, token] += left
        for place in range(size):
            token = text[place]
            if masses[token] > 0:  # else nothing speaks for it, or it stood there before
                logs[row, token] = np.log(masses[token] + np.exp(np.float64(logs[row, token])))
                masses[token] = 0


@njit(cache=True)
def _match(text: np.ndarray, size: int, matched: np.ndarray, places: np.ndarray) -> None:
    """How many tokens in front of each place are those at the end of the first `size`, and in
    places[m] how many places have m or more."""
    places[:] = 0
    for place in range(size):
        length = 0
        while (
            length < LONGEST
            and length < place
            and text[place - 1 - length] == text[size - 1 - length]
        ):
            length += 1
            places[length] += 1
        matched[place] = length
    places[0] = size


@njit(cache=True)
def _weigh(places: np.ndarray, weights: np.ndarray, shortest: int, doubt: float) -> float:
    """The word of a place that m tokens match, in weights[m]; the share that is left for the law
    that is given.

    P_`LONGEST` written out is a sum over contexts: 1 / (n_m + d) for each of the n_m places, times
    d / (n_j + d) for every longer one.
    """
    left = 1.0
    weights[:] = 0
    for length in range(LONGEST, shortest - 1, -1):
        weights[length] = left / (places[length] + doubt)
        left *= doubt / (places[length] + doubt)
    for length in range(LONGEST):
        weights[length + 1] += weights[length]
    return left
