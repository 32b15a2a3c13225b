"""Times of requests that decode together, read off those of one request with as many rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.documents.times import Costs, Curve

QUARTILES = ("low_ms", "median_ms", "high_ms")


def at_batch(costs: Costs, batch_size: int) -> Costs:
    """The costs of a step that `batch_size` requests take together; `costs` itself for 1.

    A pass over n nodes of each stands for one over batch_size × n nodes of one request, so that
    reading every request's own cache is left out; all that lies between passes, which this runtime
    does request by request, is taken so many times.  Of policies whose trees grow nothing is said.

    costs       at batch size 1
    batch_size  one of `batch_sizes(costs.draft.counts, costs.verify.counts)`
    """
    if batch_size == 1:
        return costs
    verify, draft = costs.verify, costs.draft
    many = verify.counts.index(batch_size), draft.counts.index(batch_size)
    later = _values(draft)[:, [many[1]]]  # the first pass does all of that, and reads more
    first = np.maximum(_values(costs.draft_root) + later - _values(draft)[:, [0]], later)
    alone = {
        "target_step": (costs.target_step, verify, many[0]),
        "draft_step": (costs.draft_step, draft, many[1]),
    }
    return costs.model_copy(
        update={
            "batch_size": batch_size,
            "by_rows": True,
            "verify": _every(verify, batch_size),
            "draft_root": _curve(costs.draft_root, first),
            "draft": _every(draft, batch_size),
            "overhead": {
                name: _curve(each, batch_size * _values(each))
                for name, each in costs.overhead.items()
            },
            "growing": None,
            "chains": None,
            "scored": {},
            **{
                name: _curve(step, _values(passes)[:, [place]] + batch_size * _beside(step, passes))
                for name, (step, passes, place) in alone.items()
            },
        }
    )


def batch_sizes(widths: Sequence[int], num_nodes: Sequence[int]) -> list[int]:
    """Batch sizes whose first draft pass was timed, and a tree of two nodes for each request.

    widths     of draft passes that are timed, as in `CostGrid`
    num_nodes  of trees that are timed
    """
    return [size for size in widths if size in num_nodes and 2 * size in num_nodes]


def _beside(step: Curve, passes: Curve) -> np.ndarray:
    """Milliseconds of a lone step beside its pass: float64 [3, 1], never below zero."""
    beside: np.ndarray = _values(step)[:, :1] - _values(passes)[:, :1]
    return np.maximum(beside, 0)


def _every(curve: Curve, batch_size: int) -> Curve:
    """The times at multiples of the batch size, by what each request has of them."""
    kept = [place for place, count in enumerate(curve.counts) if count % batch_size == 0]
    counts = [curve.counts[place] // batch_size for place in kept]
    return _curve(curve.model_copy(update={"counts": counts}), _values(curve)[:, kept])


def _values(curve: Curve) -> np.ndarray:
    """float64 [3, counts]: `QUARTILES`."""
    return np.array([getattr(curve, name) for name in QUARTILES])


def _curve(like: Curve, values: np.ndarray) -> Curve:
    """A curve at the counts of `like`; quartiles are put back into order, which sums may change."""
    ordered = np.sort(values, axis=0).round(5).tolist()
    return like.model_copy(update=dict(zip(QUARTILES, ordered, strict=True)))
