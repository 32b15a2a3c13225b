"""One global price of time, and what is worth it: when to draft on, widen, and verify.

In the long run tokens per millisecond are E[tokens of a step] / E[time of a step].  Whoever takes
the most of  E[tokens] - price * E[time]  at every step, the price being that very ratio, has the
most of it (renewal reward).  So every decision of a step is priced with the same number:

    a slot is tried with chance s (its parent and no earlier sibling is accepted), and its candidate
    is accepted with chance s a before it is drawn; once drawn, s is split as in `slots`: s c for
    what lies below it, s (1 - c) for what lies beside it.
    a draft pass over the w likeliest nodes f_1 >= f_2 >= ... not expanded yet is made if
        sum of W(f_i) - price * draft_ms(w)  is above 0 for some w, for the w of which it is most;
        W(f) = lookahead * sum over ranks r of (f ahead(r) - node_price)+
    a slot is filled while there is hope to draft below it if  s a >= node_price;
    in the end the m likeliest slots are filled for the m of which
        sum of their s a  -  price * (verify_ms(n + m) - verify_ms(n))  is most: an exact scan, so
    that a step of the curve is jumped over if it pays, again and again until nothing does.  (There
    is one slot below a node: on siblings behind the next one nobody counts.)

Special cases: with verify_ms of constant slope t' and a the same everywhere, slots are filled while
s exceeds price * t' / a, which is DySpec's threshold; in a chain a token is drafted while its
chance exceeds price * (draft_ms + t'), which is SpecDec++'s.

The chances come from tables fitted to recorded trees.  `a` of a slot is looked up by the collision
probability of what is left of q, the expected drawn value of the next candidate: it follows from q
and the siblings revealed.  `c` of a revealed token is looked up by its drawn value.  Where the
candidates are a function of q, the next one's drawn value is known, and `a` is its `c`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from ..documents.document import Milliseconds
from .compiled.price_tables import Tables
from .policy import COLLISION, FEATURES, Policy
from .slot_policy import SlotPolicy, SlotSettings

Chance = Annotated[float, Field(ge=0, le=1)]

STEPS_OF_THE_PLAN = 32.0
"""How many steps of a text the planned price counts for when it is updated by what was measured."""


class PriceDrafting(SlotSettings):
    """Draft, widen and verify what is worth its time at one price.

    Tables by rank (the last row serves all later ranks) and knot, linear between knots.
    """

    kind: Literal["price"] = "price"
    price_per_ms: float = Field(gt=0, description="tokens that a millisecond is worth")
    node_price: float = Field(
        ge=0, lt=1, description="chance of acceptance from which a slot is filled while drafting"
    )
    lookahead: float = Field(
        gt=0, description="what a draft pass brings in the end, over what its own children do"
    )
    draft_root_ms: float = Field(gt=0)
    draft_ms: list[Milliseconds] = Field(
        min_length=1, description="a later draft pass, by nodes expanded, from 1; no more at once"
    )
    verify_ms: list[Milliseconds] = Field(
        description="verification and overhead, by number of nodes, from 1"
    )
    knots: list[float] = Field(min_length=2)
    before: list[list[Chance]] = Field(
        min_length=1,
        description="P(accepted | tried) before the draw, by the collision of what is left of q",
    )
    after: list[list[Chance]] = Field(
        min_length=1, description="P(accepted | tried) once drawn, by the drawn probability"
    )
    ahead: list[list[Chance]] = Field(
        description="P(accepted | the parent is) by rank, all else unknown: at the root, elsewhere"
    )
    online: bool = Field(default=False, description="follow the measured tokens per millisecond")

    @model_validator(mode="after")
    def _tables_of_one_size(self) -> PriceDrafting:
        if any(b <= a for a, b in zip(self.knots, self.knots[1:], strict=False)):
            raise ValueError("knots in strictly increasing order")
        if any(len(row) != len(self.knots) for row in (*self.before, *self.after)):
            raise ValueError(f"rows of before and after of {len(self.knots)} entries, as knots")
        if len(self.verify_ms) < self.num_nodes:
            raise ValueError(
                f"verify_ms of at least num_nodes = {self.num_nodes} entries, "
                f"not {len(self.verify_ms)}"
            )
        if [len(row) for row in self.ahead] != [self.max_children] * 2:
            raise ValueError(f"ahead of 2 rows of max_children = {self.max_children} entries")
        return self

    @property
    def learns(self) -> bool:
        return self.online

    def words(self) -> str:
        what = "chains" if self.max_children == 1 else "trees"
        return f"{what} grown at {self.price_per_ms:.3g} tokens per ms, {self.limits_in_words}"

    def policy(self, *, deterministic: bool) -> Policy:
        return Price(self, deterministic=deterministic)


def tables_of(settings: PriceDrafting, *, deterministic: bool) -> Tables:
    """The settings as arrays."""
    return Tables(
        knots=np.array(settings.knots),
        before=np.array(settings.before),
        after=np.array(settings.after),
        ahead=np.array(settings.ahead),
        verify_ms=np.array([0.0, *settings.verify_ms[: settings.num_nodes]]),
        draft_ms=np.array([0.0, *settings.draft_ms]),
        draft_root_ms=settings.draft_root_ms,
        node_price=settings.node_price,
        lookahead=settings.lookahead,
        known=deterministic,
    )


class Price(SlotPolicy):
    """Tokens against time, both at the long-run rate."""

    columns = (FEATURES[COLLISION],)

    def __init__(self, settings: PriceDrafting, *, deterministic: bool) -> None:
        from .compiled.price_kernel import advanced

        tables = tuple(tables_of(settings, deterministic=deterministic))
        super().__init__(settings, advanced, tables, settings.price_per_ms)
        self._planned = settings.price_per_ms
        self._online = settings.online
        self._tokens = self._time = 0.0

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        if not self._online:
            return
        self._tokens += len(path) + 1
        self._time += step_ms
        planned_ms = STEPS_OF_THE_PLAN / self._planned
        price = (STEPS_OF_THE_PLAN + self._tokens) / (planned_ms + self._time)
        self._arguments = self._arguments[0], price
        self._first_answers.clear()
