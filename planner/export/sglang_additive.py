"""The export of target times for SGLang as a sum: a bias, the requests' part, the tokens' part."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from ..estimates.additive_times import AdditiveTimes, Pass, fitted
from .notations import as_json
from .task import Export, Task


class SglangAdditive:
    """The measured t(n) of all batch sizes, as SGLang adds them up."""

    def export(self, task: Task) -> Export:
        passes = {size: measured_passes(task, size) for size in task.batch_sizes}
        times = fitted(passes)
        every = [each for size in passes for each in passes[size]]
        notes = [
            f"passes of {task.timed_program} at context {task.context}, without the drafting, "
            "which would add to bias_seconds; read by the DSPARK algorithm only",
            misfit(times, every),
        ]
        if len(passes) == 1:
            notes.append(
                f"of batch sizes only {task.batch_size} was measured: what a request costs beside "
                "its tokens is not known, and counts as nothing"
            )
        return Export(as_json(asdict(times)), None, notes)


def measured_passes(task: Task, batch_size: int) -> list[Pass]:
    """The passes that were measured at a batch size, between two contexts where the plan's is."""
    verify = task.times(batch_size).verify
    counts = sorted(
        {count for each in task.costs_at(batch_size) for count in each.verify.counts}
        & set(range(verify.first, verify.last + 1))
    )
    return [Pass(batch_size, batch_size * n, verify(n).ms / 1000) for n in counts]


def misfit(times: AdditiveTimes, passes: list[Pass]) -> str:
    """A note: how far the sum is off what was measured."""
    off = np.array([times.seconds(each.num_requests, each.num_tokens) for each in passes])
    off = np.abs(off / [each.seconds for each in passes] - 1)
    worst = passes[int(off.argmax())]
    return (
        f"the sum is off the measured times by {100 * np.sqrt((off**2).mean()):.1f} % (root mean "
        f"square of {len(passes)}), and by {100 * off.max():.1f} % at most, at batch size "
        f"{worst.num_requests} and {worst.num_tokens} tokens"
    )
