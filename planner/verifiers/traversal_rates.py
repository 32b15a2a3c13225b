"""Verification from the leaves, compiled: what a node still owes after a child's rejection."""

from __future__ import annotations

from numba import njit


@njit(cache=True, error_model="numpy")
def fill_owed(target, draft, acceptance):  # type: ignore[no-untyped-def]
    """R becomes (a R - D)+ over its sum s, in place; returns a as it becomes, s / (s + 1 - a).

    target, draft  float64 [V]  R and D, each summing to 1
    acceptance     a; 1 stays exactly 1

    R is left undefined where the new a is 0.
    """
    owed = 0.0
    for y in range(len(target)):
        target[y] = max(acceptance * target[y] - draft[y], 0.0)
        owed += target[y]
    if owed > 0.0:
        target /= owed
    elif acceptance == 1.0:
        target[:] = draft  # equal up to rounding: exactly, nothing would have been rejected
        return 1.0
    return owed / (owed + (1.0 - acceptance))
