"""Measures what planning needs, with the runtime's own passes, and writes it as a Profile."""

from runtime.pair import Pair

from .journal import discard_pieces
from .measure import ScoringHead, measure_profile
from .profile_settings import QUICK, THOROUGH, Settings

__all__ = [
    "QUICK",
    "THOROUGH",
    "Pair",
    "ScoringHead",
    "Settings",
    "discard_pieces",
    "measure_profile",
]
