"""Rules for trees that grow while they are drafted: what decoding does and planning simulates.

Each rule's module is imported when the rule is made: numba takes its time, and nobody needs it for
a plan of one tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..documents.document import PlannerError
from .policy import FEATURES, Grower, Request
from .settings import GrownDrafting

__all__ = ["FEATURES", "GROWERS", "Grower", "Request", "grower_of"]


def grower_of(drafting: GrownDrafting, *, deterministic: bool) -> Grower:
    """The rule that carries out `drafting`.

    deterministic  are candidates a function of the draft's distribution, so that nothing is lost
                   by looking at those that are not revealed?

    Raises PlannerError for an unknown kind.
    """
    make = GROWERS.get(drafting.kind)
    if make is None:
        raise PlannerError(
            f"drafting.kind: got {drafting.kind!r}, expected one of {', '.join(GROWERS)}"
        )
    return make(drafting, deterministic)


def _greedy(drafting: Any, deterministic: bool) -> Grower:
    from .greedy import Greedy

    return Greedy(drafting)


def _threshold(drafting: Any, deterministic: bool) -> Grower:
    from .threshold import Threshold

    return Threshold(drafting)


def _stopping(drafting: Any, deterministic: bool) -> Grower:
    from .stopping import Stopping

    return Stopping(drafting)


def _dynamic(drafting: Any, deterministic: bool) -> Grower:
    from .stopping import Dynamic

    return Dynamic(drafting)


def _confident(drafting: Any, deterministic: bool) -> Grower:
    from .stopping import Confident

    return Confident(drafting)


def _price(drafting: Any, deterministic: bool) -> Grower:
    from .price import Price

    return Price(drafting, deterministic=deterministic)


GROWERS: dict[str, Callable[[Any, bool], Grower]] = {
    "dyspec-greedy": _greedy,
    "dyspec-threshold": _threshold,
    "stopping": _stopping,
    "dynamic": _dynamic,
    "confident": _confident,
    "price": _price,
}
"""How the rule of each kind of drafting is made: (settings, deterministic candidates?)."""
