"""The time of a pass that does nothing but read and compute: a roofline, by a data sheet.

A pass of b requests over n tokens each, P tokens of each in the cache, over a model of L layers
whose tokens are multiplied by M numbers, with H heads of d entries, reads and computes

    bytes = s (M + b (P + n) K),     FLOPs = 2 b n M + 4 b n (P + n) L H d

s being the bytes of a number and K those that the cache keeps of a token; it takes

    L layer_ms + max(FLOPs / peak, bytes / bandwidth),

as if the larger of the two hid the other, and as if both went at the printed speed.  Neither is so:
what a machine really does is slower, by how much `planner predict --check` tells where somebody has
measured.  (Williams, Waterman and Patterson, "Roofline", Communications of the ACM 52, 2009.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..documents.errors import PlannerError
from ..documents.given_costs import GivenCosts, GivenCurve, GivenTimes
from ..documents.model_shape import ModelShape
from ..documents.version import WRITTEN_BY
from .data_sheets import BYTES, DataSheet


@dataclass(frozen=True)
class Roofline:
    """A machine that computes in one dtype."""

    sheet: DataSheet
    dtype: str

    def pass_ms(
        self, model: ModelShape, num_tokens: int, *, batch_size: int = 1, context: int = 0
    ) -> float:
        """Milliseconds of one pass over `num_tokens` new tokens of each of `batch_size` requests.

        Raises PlannerError for a dtype that the machine's sheet does not have.
        """
        tokens, seen = batch_size * num_tokens, context + num_tokens
        read = BYTES[self.dtype] * (model.multiplied + batch_size * seen * model.kv_entries)
        attended = 4 * tokens * seen * model.layers * model.heads * model.head_dim
        computed = 2 * tokens * model.multiplied + attended
        seconds = max(
            computed / (1e12 * self.sheet.peak(self.dtype)), read / (1e9 * self.sheet.gb_per_s)
        )
        return model.layers * self.sheet.layer_ms + 1e3 * seconds

    @property
    def words(self) -> str:
        """The machine and its constants."""
        sheet = self.sheet
        return (
            f"{sheet.name} at {sheet.peak(self.dtype):.6g} TFLOP/s ({self.dtype}), "
            f"{sheet.gb_per_s:.6g} GB/s and {sheet.layer_ms:g} ms a layer ({sheet.source})"
        )


@dataclass(frozen=True)
class Places:
    """The batch sizes and contexts that times are predicted for, and the largest tree."""

    batch_sizes: Sequence[int] = (1,)
    contexts: Sequence[int] = (128,)
    max_nodes: int = 256
    overhead_ms: float = 0.0
    """All else that a step takes."""


def predicted_costs(
    target: ModelShape, draft: ModelShape, roofline: Roofline, places: Places
) -> GivenCosts:
    """Costs to plan with, marked as predicted, at every batch size and context.

    Raises PlannerError for models of two vocabularies, and for a dtype that the machine's sheet
    does not have.
    """
    if target.vocab != draft.vocab:
        raise PlannerError(
            f"draft: got a vocabulary of {draft.vocab} tokens ({draft.name}), expected the "
            f"target's {target.vocab} ({target.name}); choose a draft with the same tokenizer"
        )
    counts = list(range(1, places.max_nodes + 1))

    def curve(model: ModelShape, batch_size: int, context: int) -> GivenCurve:
        times = (roofline.pass_ms(model, n, batch_size=batch_size, context=context) for n in counts)
        return GivenCurve(counts=counts, ms=[round(ms, 6) for ms in times])

    overhead = None
    if places.overhead_ms > 0:
        overhead = GivenCurve(counts=[1, max(counts[-1], 2)], ms=[places.overhead_ms] * 2)
    return GivenCosts(
        written_by=WRITTEN_BY,
        source=f"roofline of {roofline.words}, for {_words(target)} and {_words(draft)}",
        predicted=True,
        costs=[
            GivenTimes(
                batch_size=batch_size,
                context=context,
                verify=curve(target, batch_size, context),
                draft=curve(draft, batch_size, context),
                overhead=overhead,
            )
            for batch_size in places.batch_sizes
            for context in places.contexts
        ],
    )


def _words(model: ModelShape) -> str:
    return f"{model.name} ({model.num_parameters / 1e6:.4g} M parameters)"
