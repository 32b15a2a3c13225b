"""The papers' tables, figures and theorems: what each says, and what comes of it here.

A row is an entry in the table of its paper's module: what it says, what it needs, and the function
that computes it from a `Ground`.
"""

from __future__ import annotations

from .dyspec_rows import ROWS as DYSPEC
from .row import PaperRow
from .sequoia_rows import ROWS as SEQUOIA
from .specdecpp_rows import ROWS as SPECDECPP
from .spechub_rows import ROWS as SPECHUB

ROWS: tuple[PaperRow, ...] = (*SEQUOIA, *SPECHUB, *DYSPEC, *SPECDECPP)
"""Every row, paper by paper."""
