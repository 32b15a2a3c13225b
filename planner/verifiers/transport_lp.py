"""The best that any verifier could do, by linear programming: the reference, for small V.

Given the law Q of the children, drawn together, a verifier is a coupling of Q with the target p.
Only what it does when it accepts matters (Sun et al. 2024, section 3.2, the simplified programme):

    maximise the sum of flow(S, x), x in S,  with  sum over x of flow(S, x) <= Q(S)
                                             and   sum over S of flow(S, x) <= p(x)

The rest is completed by independent leftovers.  These are the reference for the fast forms; size
and time grow as V^k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..documents.arguments import count, distributions
from ..documents.document import PlannerError
from .spechub import Pairs

_MAX_DRAWS = 100_000
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class JointLaw:
    """How the children of one node are drawn, all together."""

    draws: np.ndarray
    """int64 [N, k]: every draw that can happen, in the order of the children; none twice."""
    weights: np.ndarray
    """float64 [N]: the chance of each, > 0; sums to 1."""
    vocabulary: int

    @property
    def members(self) -> np.ndarray:
        """bool [N, V]: does this token occur in this draw?"""
        inside = np.zeros((len(self.draws), self.vocabulary), np.bool_)
        np.put_along_axis(inside, self.draws, True, axis=1)
        return inside


@dataclass(frozen=True)
class Transport:
    """An optimal verifier for one law of children, and the proof that it is one."""

    acceptance: float
    """The chance that the coupling's token is one of the children."""
    coupling: np.ndarray
    """float64 [N, V]: P(this draw, this token comes out); rows sum to the law, columns to p."""
    cut: np.ndarray
    """int64 [.]: a token set H of smallest cut, to the solver's tolerance."""
    bound: float
    """`cut_value` of the cut: no coupling accepts more."""


def joint_law(q: Any, law: str, num_children: int) -> JointLaw:
    """The law of `num_children` children drawn from q, written out.

    q    float [V]
    law  "independent", "without replacement" (evenly over the untried where q runs out of tokens),
         "top" (the most probable ones, ties by index) or "hub" (SpecHub's pairs)

    Raises PlannerError, also where there are too many draws to write them out.
    """
    q = _one(q, "q")
    if law not in LAWS:
        raise PlannerError(f"law: got {law!r}, expected one of {', '.join(LAWS)}")
    most = {"independent": None, "hub": min(2, len(q))}.get(law, len(q))
    num_children = count(num_children, "num_children", 1, most)
    if law in ("independent", "without replacement") and len(q) ** num_children > _MAX_DRAWS:
        raise PlannerError(
            f"num_children: got {num_children} over {len(q)} tokens, more than {_MAX_DRAWS} draws; "
            "expected fewer: the linear programmes are for small vocabularies"
        )
    draws, weights = LAWS[law](q, num_children)
    possible = weights > 0
    return JointLaw(draws[possible], weights[possible], len(q))


def best_transport(p: Any, law: JointLaw) -> Transport:
    """An optimal coupling of the law of the children with p, float [V], by linear programming.

    Draws of the same tokens are merged first: their order is of no use to a coupling.  What the
    solver returns is made feasible to the last digit, so that `acceptance` can be had; with `bound`
    the optimum lies between the two.
    """
    import cvxpy

    p = _target(p, law)
    sets, which = np.unique(law.members, axis=0, return_inverse=True)
    which = which.reshape(-1)  # some numpy releases keep the axis
    mass = np.bincount(which, weights=law.weights)
    of_set, token = np.nonzero(sets)
    flow = cvxpy.Variable(len(token), nonneg=True)
    by_set = _sums(of_set, len(sets))
    by_token = _sums(token, law.vocabulary)
    demand = by_token @ flow <= p
    problem = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(flow)), [by_set @ flow <= mass, demand])
    tolerances = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
    problem.solve(solver=cvxpy.HIGHS, **dict.fromkeys(tolerances, _TOLERANCE))
    if problem.status != cvxpy.OPTIMAL:
        raise PlannerError(f"law: the linear programme ended {problem.status}, expected optimal")
    accepted = np.zeros(sets.shape)
    accepted[of_set, token] = np.maximum(flow.value, 0.0)
    accepted *= _shrink(accepted.sum(axis=1), mass)[:, None]
    accepted *= _shrink(accepted.sum(axis=0), p)
    merged = _completed(accepted, mass, p)
    cut, bound = _smallest_cut(p, law, demand.dual_value)
    return Transport(
        acceptance=float(merged[sets].sum()),
        coupling=merged[which] * (law.weights / mass[which])[:, None],
        cut=cut,
        bound=bound,
    )


def cut_value(p: Any, law: JointLaw, tokens: Any) -> float:
    """1 + p(H) - P(all children lie in H) for a set H of tokens: no verifier accepts more.

    A child in H is accepted with chance p(H) at most; and draws that leave H have what is left.
    """
    inside = np.zeros(law.vocabulary, np.bool_)
    inside[np.asarray(tokens, np.int64)] = True
    return float(1.0 + _target(p, law)[inside].sum() - law.weights @ inside[law.draws].all(axis=1))


def _independent(q: np.ndarray, num_children: int) -> tuple[np.ndarray, np.ndarray]:
    draws = _every_draw(len(q), num_children)
    return draws, q[draws].prod(axis=1)


def _without_replacement(q: np.ndarray, num_children: int) -> tuple[np.ndarray, np.ndarray]:
    draws = _every_draw(len(q), num_children)
    weights = np.ones(len(draws))
    left = np.tile(q, (len(draws), 1))
    untried = np.ones(left.shape)
    rows = np.arange(len(draws))
    for token in draws.T:
        exhausted = left.sum(axis=1) == 0
        left[exhausted] = untried[exhausted]
        weights *= left[rows, token] / left.sum(axis=1)
        left[rows, token] = untried[rows, token] = 0.0
    return draws, weights


def _top(q: np.ndarray, num_children: int) -> tuple[np.ndarray, np.ndarray]:
    return np.argsort(-q, kind="stable")[None, :num_children], np.ones(1)


def _hub(q: np.ndarray, num_children: int) -> tuple[np.ndarray, np.ndarray]:
    if num_children == 1:
        return _independent(q, 1)
    hub, others = int(q.argmax()), np.delete(np.arange(len(q)), q.argmax())
    hubs = np.full(len(others), hub)
    draws = np.concatenate([np.stack([others, hubs], axis=1), np.stack([hubs, others], axis=1)])
    return draws, np.concatenate([q[others], Pairs.of(q[None], q[None]).hub_then[0, others]])


LAWS: dict[str, Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]] = {
    "independent": _independent,
    "without replacement": _without_replacement,
    "top": _top,
    "hub": _hub,
}
"""(q [V], num_children) -> (draws [N, k], weights [N], some perhaps 0)"""


def _every_draw(vocabulary: int, num_children: int) -> np.ndarray:
    return np.indices((vocabulary,) * num_children).reshape(num_children, -1).T


def _sums(group: np.ndarray, num_groups: int) -> csr_array:
    """float64 [num_groups, flows]: sums the flows of each group."""
    ones = np.ones(len(group))
    return csr_array((ones, (group, np.arange(len(group)))), (num_groups, len(group)))


def _shrink(sums: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Factors <= 1 that bring `sums` within `limits`."""
    return np.where(sums > limits, limits / np.where(sums > 0, sums, 1.0), 1.0)


def _completed(accepted: np.ndarray, mass: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The coupling with the leftovers of both sides paired independently."""
    rows = np.maximum(mass - accepted.sum(axis=1), 0.0)
    columns = np.maximum(p - accepted.sum(axis=0), 0.0)
    return accepted + rows[:, None] * columns / max(float(columns.sum()), 1e-300)


def _smallest_cut(p: np.ndarray, law: JointLaw, potential: Any) -> tuple[np.ndarray, float]:
    """(tokens, value) of the best among the level sets of the programme's prices of the tokens.

    Some level set is a minimum cut whenever the prices are optimal, whole numbers or not.
    """
    potential = np.asarray(potential, np.float64).reshape(-1)
    order = np.argsort(-potential, kind="stable")
    cuts = [order[:size] for size in range(len(order) + 1)]
    values = [cut_value(p, law, cut) for cut in cuts]
    best = int(np.argmin(values))
    return np.sort(cuts[best]), values[best]


def _one(values: Any, name: str) -> np.ndarray:
    array = distributions(values, name)
    if array.ndim != 1:
        raise PlannerError(f"{name}: got an array of shape {array.shape}, expected [V]")
    return array


def _target(p: Any, law: JointLaw) -> np.ndarray:
    p = _one(p, "p")
    if len(p) != law.vocabulary:
        raise PlannerError(f"p: got {len(p)} tokens, expected the law's {law.vocabulary}")
    return p
