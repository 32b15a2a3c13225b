"""Measures what planning needs, with the runtime's own passes, and writes it as a Profile."""

from .journal import discard_pieces
from .measure import ScoringHead, Settings, measure_profile

__all__ = ["ScoringHead", "Settings", "discard_pieces", "measure_profile"]
