"""How policies are compiled that count no references."""

from __future__ import annotations

from numba import njit

uncounted = njit(cache=True, _nrt=False)
"""For functions that read and write single entries of the arrays that they are handed, and make no
array, no view of one, and return none; what they call is of the same kind.

Numba counts references: each array taken out of a named tuple costs two atomic additions, which
were two thirds of the time of a round.  Nothing can outlive these calls, so nothing is counted.
"""
