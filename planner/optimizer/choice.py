"""Which plan?  Every solver proposes, everything proposed is graded alike, the best is taken."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from ..plan import GREEDY_RULE, VERIFIER_TRAITS, MadeFrom, Plan, TreeDrafting
from ..profile import Acceptance, Profile, Sampling
from ..schema import PlannerError
from ..tree import Tree
from .acceptance import PromptMeans, Traces, recorded
from .baselines import ChainSolver
from .checks import count
from .cost import StepCosts, step_costs
from .grading import Candidate, grade
from .problem import Estimates, Limits, Solver
from .solver_sequoia import SequoiaSolver

SOLVERS: dict[str, Solver] = {
    "chain": ChainSolver(),
    "sequoia": SequoiaSolver(),
}

NO_SOLVER = "none"
"""Who proposes not to speculate."""

_DEFAULT_DEPTH = 24
_ROUNDS = 3


def solve(
    profile: Profile,
    *,
    solver: str = "auto",
    verifier: str = "auto",
    temperature: float | None = None,
    max_nodes: int | None = None,
    max_depth: int | None = None,
    batch_size: int = 1,
    context: int | None = None,
) -> Plan:
    """The plan with the most tokens per millisecond that this profile supports.

    solver, verifier  a name, or "auto" for the best of all that the profile has
    temperature       one that the profile measured; None: its first
    max_nodes         largest tree, root included; None: the largest that was measured
    max_depth         most levels below the root; None: 24
    batch_size        one that the profile measured
    context           tokens in the cache, within what was measured; None: the first measured

    Not speculating (a lone root) is always among the candidates, and wins ties.
    Raises PlannerError, listing what there is, where the profile lacks what is asked for.
    """
    candidates = rank_candidates(
        profile, solver=solver, verifier=verifier, temperature=temperature, max_nodes=max_nodes,
        max_depth=max_depth, batch_size=batch_size, context=context,
    )  # fmt: skip
    best = candidates[0]
    return Plan(
        drafting=TreeDrafting(parents=best.tree.parents.tolist()),
        verifier=best.verifier,
        sampling=_sampling(profile, temperature),
        predicted=best.predicted,
        made_from=MadeFrom(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            profile_sha256=profile.fingerprint(),
            machine=profile.machine,
            execution=profile.execution,
            target=profile.target,
            draft=profile.draft,
            solver=best.solver,
            batch_size=batch_size,
            context=step_costs(profile, batch_size=batch_size, context=context).context,
            num_candidates=len(candidates),
        ),
    )


def rank_candidates(
    profile: Profile,
    *,
    solver: str = "auto",
    verifier: str = "auto",
    temperature: float | None = None,
    max_nodes: int | None = None,
    max_depth: int | None = None,
    batch_size: int = 1,
    context: int | None = None,
) -> list[Candidate]:
    """All graded candidates, the best first; arguments as for `solve`.

    Ties go to fewer nodes, then to verifiers that need no sampling, then to the first name.
    """
    solvers = _solvers(solver)
    sampling = _sampling(profile, temperature)
    candidates: list[Candidate] = []
    for entry in _entries(profile, sampling, verifier):
        rule = GREEDY_RULE if sampling.temperature == 0 else entry.verifier
        costs = step_costs(profile, verifier=rule, batch_size=batch_size, context=context)
        limits = _limits(costs, max_nodes, max_depth)
        candidates += _graded(solvers, entry.verifier, recorded(profile, entry), costs, limits)
    candidates.sort(key=_order)
    lone = [candidate for candidate in candidates if candidate.tree.num_nodes == 1]
    return [c for c in candidates if c.tree.num_nodes > 1 or c is lone[0]]


def _graded(
    solvers: dict[str, Solver],
    verifier: str,
    evidence: Traces | PromptMeans,
    costs: StepCosts,
    limits: Limits,
) -> list[Candidate]:
    """Candidates under one verifier.

    Acceptance differs between the start of a round and the inside of a good tree, so proposals are
    made again with the vector that holds inside the best tree so far.
    """
    lone = grade(Tree([-1]), evidence, costs, solver=NO_SOLVER, verifier=verifier)
    graded = {lone.tree: lone}
    acceptance = evidence.acceptance
    for _ in range(_ROUNDS):
        estimates = Estimates(acceptance[: VERIFIER_TRAITS[verifier].max_children], costs)
        for name, solver in solvers.items():
            for tree in solver.propose(estimates, limits):
                if tree not in graded and costs.covers(tree):
                    graded[tree] = grade(tree, evidence, costs, solver=name, verifier=verifier)
        best = min(graded.values(), key=_order)
        if np.array_equal(best.acceptance, acceptance):
            break
        acceptance = best.acceptance
    return list(graded.values())


def _order(candidate: Candidate) -> tuple[float, int, bool, str, str, list[int]]:
    return (
        -candidate.tokens_per_ms,
        candidate.tree.num_nodes,
        not VERIFIER_TRAITS[candidate.verifier].deterministic,
        candidate.verifier,
        candidate.solver,
        candidate.tree.parents.tolist(),
    )


def _solvers(name: str) -> dict[str, Solver]:
    if name == "auto":
        return SOLVERS
    if name not in SOLVERS:
        raise PlannerError(f"solver: got {name!r}, expected auto or one of {', '.join(SOLVERS)}")
    return {name: SOLVERS[name]}


def _sampling(profile: Profile, temperature: float | None) -> Sampling:
    if temperature is None:
        return profile.acceptance[0].sampling
    for entry in profile.acceptance:
        if entry.sampling.temperature == temperature:
            return entry.sampling
    there = dict.fromkeys(f"{entry.sampling.temperature:g}" for entry in profile.acceptance)
    raise PlannerError(
        f"temperature: got {temperature!r}, but the profile measured only {', '.join(there)}; "
        "choose one of these, or profile at this one"
    )


def _entries(profile: Profile, sampling: Sampling, verifier: str) -> list[Acceptance]:
    """The acceptance entries to plan from: one per verifier."""
    known = {
        entry.verifier: entry
        for entry in reversed(profile.acceptance)  # the first of a kind stands
        if entry.sampling == sampling and _plannable(entry.verifier)
    }
    if verifier == "auto" and sampling.temperature == 0 and GREEDY_RULE in known:
        return [known[GREEDY_RULE]]  # which all rules are there
    if verifier == "auto" and known:
        return [known[name] for name in sorted(known)]
    if verifier in known:
        return [known[verifier]]
    raise PlannerError(
        f"verifier: got {verifier!r}, but at {sampling} the profile measured only "
        f"{', '.join(sorted(known)) or 'verifiers unknown here'}; expected auto or one of these"
    )


def _plannable(verifier: str) -> bool:
    """Is the verifier known, and does an acceptance vector describe it?"""
    traits = VERIFIER_TRAITS.get(verifier)
    return traits is not None and traits.by_rank_alone


def _limits(costs: StepCosts, max_nodes: int | None, max_depth: int | None) -> Limits:
    most = costs.max_nodes
    nodes = most if max_nodes is None else count(max_nodes, "max_nodes", 1)
    if nodes > most:
        raise PlannerError(
            f"max_nodes: got {max_nodes}, but the profile measured trees of up to {most} nodes; "
            "ask for fewer, or profile over a wider range"
        )
    depth = _DEFAULT_DEPTH if max_depth is None else count(max_depth, "max_depth", 0)
    return Limits(max_nodes=nodes, max_depth=min(depth, nodes - 1))
