"""The factor of K-sequential selection at one node: one compiled search on the host."""

from __future__ import annotations

import numpy as np

from ..compiling import compiled

BISECTIONS = 52
"""They place the factor to k / 2^52, which is rounding."""


@compiled
def selection_factor(p: np.ndarray, q: np.ndarray, num_children: int) -> float:
    """The smallest g in 1..k with 1 - (1-b)^k <= g b, where b = sum min(q, p/g) (SpecTr, §4).

    p, q  float64 [V], each summing to 1

    By bisection from above, so that the inequality holds at what is returned.  Both sides are taken
    from 1, as sums of positive parts: where q is p up to rounding, 1 - b from b would be noise.

        1 - g b = sum (p - g q)+  <=  (1-b)^k = (sum (q - p/g)+)^k

    A token is in the first sum if p/q > g and in the second if p/q < g.  Of which of them it is for
    every g that is left is known sooner or later; then it goes into that sum's two totals, and is
    not looked at again.
    """
    low, high = 1.0, float(num_children)
    near = np.arange(len(p))
    num_near = len(p)
    above_p = above_q = below_p = below_q = 0.0
    middle = low  # is it the lowest already?
    for _ in range(BISECTIONS + 1):
        lack = max(above_p - middle * above_q, 0.0)
        excess = max(below_q - below_p / middle, 0.0)
        for i in range(num_near):
            token = near[i]
            lack += max(p[token] - middle * q[token], 0.0)
            excess += max(q[token] - p[token] / middle, 0.0)
        within = lack <= excess**num_children
        if within and middle == low:
            return low
        left = 0
        for i in range(num_near):
            token = near[i]
            difference = p[token] - middle * q[token]
            if within and difference >= 0.0:
                above_p += p[token]
                above_q += q[token]
            elif not within and difference <= 0.0:
                below_p += p[token]
                below_q += q[token]
            else:
                near[left] = token
                left += 1
        num_near = left
        if within:
            high = middle
        else:
            low = middle
        middle = (low + high) / 2
    return high
