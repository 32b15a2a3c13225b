"""Acceptance traces: one small function per rule, one row each in `TRACERS`.

Rules whose acceptance depends on the number of siblings too give a column for each number and rank
(`VerifierTraits.by_rank_alone`).
"""

from __future__ import annotations

from .base import Tracer, Traces, tracer
from .distinct import lookahead, rrsw
from .fixed import trace_topk
from .independent import chain, naive, rrs
from .siblings import kseq, spechub

__all__ = ["TRACERS", "Tracer", "Traces"]

TRACERS: dict[str, Tracer] = {
    "chain": tracer(chain),
    "naive": tracer(naive),
    "topk": trace_topk,
    "rrs": tracer(rrs),
    "kseq": tracer(kseq),
    "rrsw": tracer(rrsw),
    "spechub": tracer(spechub),
    "lookahead": tracer(lookahead),
}
