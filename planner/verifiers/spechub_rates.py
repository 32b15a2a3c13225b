"""How often does SpecHub accept each of its two children?  (Sun et al. 2024, section 4, mended.)

The draft's most probable token a, the hub, is in every pair: x1 ~ q; if x1 is not a, then x2 = a,
else x2 ~ q without a.  So Q(x, a) = q(x) and Q(a, x) = q(a) q(x) / (sum of q without a).

    of (x, a):  x is accepted on  f(x) = min(p(x), q(x))
    of (a, x):  x is accepted on  s(x) = min(p(x) - f(x), Q(a, x))
    what is left of the pairs (a, x) gives  A1 = min(p(a), sum of Q(a, x) - s(x))  to a,
    what is left of the pairs (x, a) gives  A2 = p(a) - A1

A2 is always there to give: both leftovers together are 1 - sum(f + s) >= 1 - sum of p without a.
So the hub gets all of p(a) and every other token min(p(x), q(x) + Q(a, x)), the most that this law
of pairs allows.  (Algorithm 3 as printed updates what is left of p(a) only on the branch taken,
which over- and under-samples the hub.)
"""

from __future__ import annotations

import numpy as np

from .closed_forms import chain_rates


def spechub_rates(p: np.ndarray, q: np.ndarray, num_children: int) -> np.ndarray:
    """float64 [P, num_children]: exact.  p, q float64 [P, V]; num_children 1 or 2.

    Where q(a) = 1 the second child is drawn evenly from the other tokens.  A lone child is verified
    as a chain's: its rate is not that of the first of two.
    """
    if num_children == 1:
        return chain_rates(p, q, 1)
    rows, hub = np.arange(len(q)), q.argmax(axis=-1)
    target_hub = p[rows, hub]
    target, draft = p.copy(), q.copy()
    target[rows, hub] = draft[rows, hub] = 0.0
    second = hub_second(q)
    from_first = np.minimum(target, draft)
    from_second = np.minimum(target - from_first, second)
    hub_first = np.minimum(target_hub, (second - from_second).sum(axis=-1))
    hub_as_second = np.minimum(target_hub - hub_first, (draft - from_first).sum(axis=-1))
    return np.stack(
        [from_first.sum(axis=-1) + hub_first, from_second.sum(axis=-1) + hub_as_second], axis=-1
    )


def hub_second(q: np.ndarray) -> np.ndarray:
    """float64 [P, V]: Q(a, x), the mass of the pairs that start with the hub; q float64 [P, V]."""
    rows, hub = np.arange(len(q)), q.argmax(axis=-1)
    others = q.copy()
    others[rows, hub] = 0.0
    alone = others.sum(axis=-1) == 0.0
    others[alone] = 1.0
    others[rows, hub] = 0.0
    return q[rows, hub][:, None] * (others / others.sum(axis=-1, keepdims=True))
