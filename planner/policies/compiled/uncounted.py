"""How policies are compiled that count no references."""

from __future__ import annotations

from numba.core import cpu

from ...compiling import compiled

KNOWN = getattr(cpu, "CPUTargetOptions", None)
"""Numba's options.  Not to count is a private one: a release without it counts, and is slower."""

uncounted = compiled(**({"_nrt": False} if hasattr(KNOWN, "_nrt") else {}))
"""Compiles functions that read and write single entries of the arrays that they are handed, and
make no array, no view of one, and return none; what they call is of the same kind.

Numba counts references: each array taken out of a named tuple costs two atomic additions, which
were two thirds of the time of a round.  Nothing can outlive these calls, so nothing is counted.
"""
