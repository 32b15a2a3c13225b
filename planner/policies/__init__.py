"""Drafting policies: what is drafted next, one file a policy.

`Drafting` is the one place where a policy is named: its settings are one member of that union.
Importing this needs neither numba nor scipy; a policy's compiled part is imported when it is made.
"""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from .confident import ConfidentDrafting
from .dynamic import DynamicDrafting
from .fixed import TreeDrafting
from .greedy import GreedyDrafting
from .policy import FEATURES, Policy, PolicySettings, Request
from .price import PriceDrafting
from .stopping import StoppingDrafting
from .threshold import ThresholdDrafting

Drafting = Annotated[
    TreeDrafting
    | GreedyDrafting
    | ThresholdDrafting
    | StoppingDrafting
    | DynamicDrafting
    | ConfidentDrafting
    | PriceDrafting,
    Field(discriminator="kind"),
]
"""The settings of one policy, which a plan holds under `drafting`."""

POLICIES: dict[str, type[PolicySettings]] = {
    settings.model_fields["kind"].default: settings for settings in get_args(get_args(Drafting)[0])
}
"""The settings of every policy, by kind."""

__all__ = [
    "FEATURES",
    "POLICIES",
    "ConfidentDrafting",
    "Drafting",
    "DynamicDrafting",
    "GreedyDrafting",
    "Policy",
    "PolicySettings",
    "PriceDrafting",
    "Request",
    "StoppingDrafting",
    "ThresholdDrafting",
    "TreeDrafting",
]
