"""One rejection over a whole vocabulary, compiled: what the loops over ranks share.

R and D are kept without being scaled, each with the factor that makes it sum to what it should.
"""

from __future__ import annotations

from ..compiling import compiled

BLOCK = 64
"""Tokens whose weights are summed up together, so that most of them need not be gone through one
by one when one is drawn."""


@compiled(nogil=True, fastmath={"reassoc"}, error_model="numpy")
def fill_excess(target, of_target, draft, of_draft, excess, sums):  # type: ignore[no-untyped-def]
    """`target` becomes (R - D)+, `excess` (D - R)+, and `sums` its sums by block; returns the sums
    of min(R, D) and of (R - D)+."""
    both = lack = 0.0
    for block in range(len(sums)):
        total = 0.0
        for y in range(block * BLOCK, min(block * BLOCK + BLOCK, len(target))):
            r, d = target[y] * of_target, draft[y] * of_draft
            least = r if r < d else d
            both += least
            lack += r - least
            target[y] = r - least
            excess[y] = d - least
            total += d - least
        sums[block] = total
    return both, lack


@compiled(nogil=True, fastmath={"reassoc"})
def fill_sums(weights, sums):  # type: ignore[no-untyped-def]
    """`sums` become those of the weights by block."""
    for block in range(len(sums)):
        total = 0.0
        for y in range(block * BLOCK, min(block * BLOCK + BLOCK, len(weights))):
            total += weights[y]
        sums[block] = total


@compiled(nogil=True)
def drawn_at(weights, sums, uniform):  # type: ignore[no-untyped-def]
    """The token at `uniform` (0..1) of the law proportional to `weights`, whose sums by block are
    given: one of some weight, or the last one where there is none."""
    left, block = uniform * sums.sum(), 0
    while block + 1 < len(sums) and left >= sums[block]:
        left -= sums[block]
        block += 1
    for y in range(block * BLOCK, len(weights)):
        left -= weights[y]
        if left < 0.0:
            return y
    last = len(weights) - 1  # behind all for rounding alone
    while last > 0 and weights[last] == 0.0:
        last -= 1
    return last if weights[last] > 0.0 else len(weights) - 1


@compiled(nogil=True, fastmath={"reassoc"})
def fill_if_empty(draft, tried):  # type: ignore[no-untyped-def]
    """The factor that makes D sum to 1; where nothing is left of it, it becomes even over what was
    not tried."""
    total = 0.0
    for y in range(len(draft)):
        total += draft[y]
    if total > 0.0:
        return 1.0 / total
    for y in range(len(draft)):
        draft[y] = 0.0 if tried[y] else 1.0
    return 1.0 / max(draft.sum(), 1.0)
