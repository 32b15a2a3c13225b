"""Acceptance traces: one small function per rule, one row each in `TRACERS`.

Rules whose acceptance depends on more than the rank have no vector and so no tracer
(`VerifierTraits.by_rank_alone`).
"""

from __future__ import annotations

from .base import Tracer, Traces, tracer
from .distinct import lookahead, rrsw
from .fixed import trace_topk
from .independent import chain, naive, rrs

__all__ = ["TRACERS", "Tracer", "Traces"]

TRACERS: dict[str, Tracer] = {
    "chain": tracer(chain),
    "naive": tracer(naive),
    "topk": trace_topk,
    "rrs": tracer(rrs),
    "rrsw": tracer(rrsw),
    "lookahead": tracer(lookahead),
}
