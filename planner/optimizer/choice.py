"""Which plan?  Every solver proposes, everything proposed is graded alike, the best is taken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ..plan import GREEDY_RULE, VERIFIER_TRAITS, MadeFrom, Plan, TreeDrafting
from ..profile import Acceptance, Profile, Sampling
from ..schema import PlannerError
from ..tree import Tree
from .acceptance import Evidence, recorded
from .baselines import ChainSolver, IndependentSolver, KarySolver
from .certificate import upper_bound
from .checks import count
from .cost import StepCosts, step_costs
from .grading import Candidate, grade
from .law import AcceptanceLaw
from .problem import Estimates, Limits, Solver
from .solver_sequoia import NarrowSolver, SequoiaSolver

SOLVERS: dict[str, Solver] = {
    "chain": ChainSolver(),
    "kary": KarySolver(),
    "independent": IndependentSolver(),
    "sequoia": SequoiaSolver(),
    "narrow": NarrowSolver(),
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
    sampling = sampling_at(profile, temperature)
    held = contests(
        profile, sampling=sampling, solver=solver, verifier=verifier, max_nodes=max_nodes,
        max_depth=max_depth, batch_size=batch_size, context=context,
    )  # fmt: skip
    candidates = ranked(held)
    best = candidates[0]
    contest = next(one for one in held if one.verifier == best.verifier)
    predicted = best.predicted.model_copy(update={"optimality_gap": contest.gap(best.tree)})
    return Plan(
        drafting=TreeDrafting(parents=best.tree.parents.tolist()),
        verifier=best.verifier,
        sampling=sampling,
        predicted=predicted,
        made_from=MadeFrom(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            profile_sha256=profile.fingerprint(),
            machine=profile.machine,
            execution=profile.execution,
            target=profile.target,
            draft=profile.draft,
            solver=best.solver,
            batch_size=batch_size,
            context=contest.costs.context,
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
    held = contests(
        profile, sampling=sampling_at(profile, temperature), solver=solver, verifier=verifier,
        max_nodes=max_nodes, max_depth=max_depth, batch_size=batch_size, context=context,
    )  # fmt: skip
    return ranked(held)


@dataclass(frozen=True)
class Contest:
    """One verifier's: what is known of it, and all trees that were graded under it."""

    verifier: str
    evidence: Evidence
    costs: StepCosts
    limits: Limits
    candidates: list[Candidate]

    def gap(self, tree: Tree) -> float:
        """By which fraction any tree within the limits could at most be faster than `tree`.

        Under the acceptance that holds inside `tree`, everywhere, and the measured costs.
        """
        law = _law(self.evidence.law_inside(tree), self.verifier)
        rate = law.expected_tokens(tree) / self.costs.step_ms(tree)
        return max(upper_bound(law, self.costs, self.limits) / rate - 1, 0.0)


def contests(
    profile: Profile,
    *,
    sampling: Sampling,
    solver: str = "auto",
    verifier: str = "auto",
    max_nodes: int | None = None,
    max_depth: int | None = None,
    batch_size: int = 1,
    context: int | None = None,
) -> list[Contest]:
    """Each verifier's contest under `sampling`, by name; the other arguments as for `solve`."""
    solvers = _solvers(solver)
    held = []
    for entry in _entries(profile, sampling, verifier):
        rule = GREEDY_RULE if sampling.temperature == 0 else entry.verifier
        costs = step_costs(profile, verifier=rule, batch_size=batch_size, context=context)
        limits = _limits(costs, max_nodes, max_depth)
        evidence = recorded(profile, entry)
        graded = _graded(solvers, entry.verifier, evidence, costs, limits)
        held.append(Contest(entry.verifier, evidence, costs, limits, graded))
    return held


def ranked(contests: list[Contest]) -> list[Candidate]:
    """All candidates, the best first; the lone root, the same under every verifier, once."""
    candidates = [candidate for contest in contests for candidate in contest.candidates]
    candidates.sort(key=_order)
    lone = next(candidate for candidate in candidates if candidate.tree.num_nodes == 1)
    return [c for c in candidates if c.tree.num_nodes > 1 or c is lone]


def sampling_at(profile: Profile, temperature: float | None) -> Sampling:
    """The first sampling measured at this temperature; None: the first of all.  PlannerError."""
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


def _graded(
    solvers: dict[str, Solver],
    verifier: str,
    evidence: Evidence,
    costs: StepCosts,
    limits: Limits,
) -> list[Candidate]:
    """Candidates under one verifier.

    Acceptance differs between the start of a round and the inside of a good tree, so proposals are
    made again with the law that holds inside the best tree so far.
    """
    lone = grade(Tree([-1]), evidence, costs, solver=NO_SOLVER, verifier=verifier)
    graded = {lone.tree: lone}
    law = _law(evidence.law, verifier)
    for _ in range(_ROUNDS):
        for name, solver in solvers.items():
            for tree in solver.propose(Estimates(law, costs), limits):
                if tree not in graded and costs.covers(tree):
                    graded[tree] = grade(tree, evidence, costs, solver=name, verifier=verifier)
        best = min(graded.values(), key=_order)
        inside = _law(evidence.law_inside(best.tree), verifier)
        if inside == law:
            break
        law = inside
    return list(graded.values())


def _law(law: AcceptanceLaw, verifier: str) -> AcceptanceLaw:
    """`law` for as many children as the verifier serves."""
    return law.limited(VERIFIER_TRAITS[verifier].max_children)


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


def _entries(profile: Profile, sampling: Sampling, verifier: str) -> list[Acceptance]:
    """The acceptance entries to plan from: one per verifier."""
    known = {
        entry.verifier: entry
        for entry in reversed(profile.acceptance)  # the first of a kind stands
        if entry.sampling == sampling and entry.verifier in VERIFIER_TRAITS
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
