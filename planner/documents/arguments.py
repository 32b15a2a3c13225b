"""Are these numbers what they are said to be?  Arguments checked once, at the edge."""

from __future__ import annotations

from typing import Any

import numpy as np

from .document import PlannerError


def probabilities(values: Any, name: str) -> np.ndarray:
    """`values` as a fresh float64 [k]: non-negative entries summing to at most 1, k >= 1.

    Raises PlannerError naming the argument `name`.
    """
    array = _numbers(values, name)
    if array.ndim != 1 or array.size == 0:
        raise PlannerError(
            f"{name}: got an array of shape {array.shape}, expected one dimension, not empty"
        )
    _refuse_negative(array, name)
    total = float(array.sum())
    if total > 1 + _rounding(values, array.size):
        raise PlannerError(
            f"{name}: sums to {total:.9g}, {total - 1:.3g} above 1; expected at most 1 "
            "(unconditional probabilities of one child being the accepted one)"
        )
    return array


def numbers(values: Any, name: str) -> np.ndarray:
    """`values` as an array [..., V], V >= 1, in whatever precision they came; not copied.

    Raises PlannerError.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        array = _numbers(values, name)
    if array.ndim == 0 or array.size == 0:
        raise PlannerError(
            f"{name}: got an array of shape {array.shape}, expected [..., V], V >= 1"
        )
    return array


def distributions(values: Any, name: str) -> np.ndarray:
    """`values` as a fresh float64 [..., V] whose last axis are distributions, V >= 1.

    Sums may differ from 1 by rounding; that difference is divided out.  Raises PlannerError.
    """
    array = _numbers(numbers(values, name), name)
    _refuse_negative(array, name)
    totals = array.sum(axis=-1, keepdims=True)
    errors = np.abs(totals - 1)
    if errors.max() > _rounding(values, array.shape[-1]):
        worst = float(totals.flat[int(errors.argmax())])
        raise PlannerError(
            f"{name}: a distribution sums to {worst:.9g}, {abs(worst - 1):.3g} "
            f"{'above' if worst > 1 else 'below'} 1; expected 1: normalise it first"
        )
    return array / totals


def count(value: Any, name: str, least: int, most: int | None = None) -> int:
    """`value` as an int within least..most.  Raises PlannerError."""
    span = f"at least {least}" if most is None else f"{least}..{most}"
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise PlannerError(f"{name}: got {value!r}, expected a whole number, {span}")
    if value < least or (most is not None and value > most):
        raise PlannerError(f"{name}: got {value}, expected {span}")
    return int(value)


def _numbers(values: Any, name: str) -> np.ndarray:
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise PlannerError(f"{name}: got {values!r:.80}, expected an array of numbers") from None
    if not np.isfinite(array).all():
        raise PlannerError(f"{name}: contains NaN or infinity; expected probabilities")
    return array


def _refuse_negative(array: np.ndarray, name: str) -> None:
    if (array < 0).any():
        raise PlannerError(f"{name}: contains {array.min():.3g}; expected no negative probability")


def _rounding(values: Any, size: int) -> float:
    """How far a sum of `size` probabilities may lie from what it should be.

    They were float32 once, whatever they are now.  Rounding each by up to eps/2 of itself moves
    their sum by up to eps/2; the normaliser they were divided by, a sum of `size` terms, was off by
    about sqrt(size) eps/2 (a random walk of roundings).  Allowed: four times that.
    """
    dtype = np.asarray(values).dtype
    eps = float(np.finfo(np.float32).eps)
    if np.issubdtype(dtype, np.floating):
        eps = max(eps, float(np.finfo(dtype).eps))
    return 2 * eps * float(np.sqrt(size))
