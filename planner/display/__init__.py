"""What documents look like in a terminal."""

from .documents import render, show_profile
from .exported import exported
from .head import render_head
from .progress import watched
from .tables import Shown, printed, table
from .words import certificate, drafting_words, percent, summary

__all__ = [
    "Shown",
    "certificate",
    "drafting_words",
    "exported",
    "percent",
    "printed",
    "render",
    "render_head",
    "show_profile",
    "summary",
    "table",
    "watched",
]
