"""The text's own n-grams as a law of its next token: one compiled pass over the text a row.

Every token of the text speaks for itself to come again, the louder the more tokens in front of it
are those at the text's end.  With c_m(x) of the n_m places whose last m tokens are the text's last
m being followed by x,

    P_m(x) = (c_m(x) + d P_(m-1)(x)) / (n_m + d),    m = 0, 1, ..., `LONGEST`,

where P_(-1) is even over the vocabulary and d is `DOUBT`: longer contexts have the first word, and
leave to shorter ones what they have too few places for.  A single match of m tokens is so
continued with chance 1 - (2/3)^m or a little more.  No token has probability zero.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LONGEST = 8
"""Tokens of a context, at most: with so many, one place says .96, and more add nothing."""
DOUBT = 2.0
"""d: how many places the shorter contexts' word counts for.  With 2 the likeliest token came about
as often as its probability said, in texts of the embedded target at T=0 and T=0.6."""


def log_ngram_law(
    tokens: np.ndarray, visible: np.ndarray, vocab_size: int, dtype: type = np.float32
) -> np.ndarray:
    """The logarithms of P_`LONGEST` behind each of w texts: float [w, vocab_size], of `dtype`.

    tokens   int64 [n]    from 0 to vocab_size - 1; a text is some of them, in their order
    visible  bool [w, t]  which of the last t tokens each text has, its last one among them; all
                          before those are in every text

    Takes time O(w (n + vocab_size)), and no more memory than it returns but for n + vocab_size.
    """
    logs: np.ndarray = np.empty((len(visible), vocab_size), dtype)
    _fill_logs(logs, np.ascontiguousarray(tokens, np.int64), np.ascontiguousarray(visible))
    return logs


@njit(cache=True)
def _fill_logs(logs: np.ndarray, tokens: np.ndarray, visible: np.ndarray) -> None:
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
        even = _weigh(places, weights) / len(masses)
        for place in range(size):
            masses[text[place]] += weights[matched[place]]
        logs[row] = np.log(even)
        for place in range(size):
            token = text[place]
            if masses[token] > 0:  # else it stood there before
                logs[row, token] = np.log(masses[token] + even)
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
def _weigh(places: np.ndarray, weights: np.ndarray) -> float:
    """The word of a place that m tokens match, in weights[m]; what is left for all tokens alike.

    P_`LONGEST` written out is a sum over contexts: 1 / (n_m + d) for each of the n_m places, times
    d / (n_j + d) for every longer one.
    """
    left = 1.0
    for length in range(LONGEST, -1, -1):
        weights[length] = left / (places[length] + DOUBT)
        left *= DOUBT / (places[length] + DOUBT)
    for length in range(LONGEST):
        weights[length + 1] += weights[length]
    return left
