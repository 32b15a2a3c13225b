"""The settings of a price as arrays, for compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Tables(NamedTuple):
    """The settings as arrays: what a slot is worth and what time costs (see `PriceDrafting`)."""

    knots: np.ndarray
    """float64 [knots]"""
    before: np.ndarray
    """float64 [ranks, knots]"""
    after: np.ndarray
    """float64 [ranks, knots]"""
    ahead: np.ndarray
    """float64 [2, max_children]: at the root, and elsewhere"""
    verify_ms: np.ndarray
    """float64 [num_nodes + 1], by number of nodes"""
    draft_ms: np.ndarray
    """float64 [widest + 1], by number of nodes expanded"""
    draft_root_ms: float
    node_price: float
    lookahead: float
    known: bool
    """Are candidates a function of q, so that the next one may be looked at?"""
