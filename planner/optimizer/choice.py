"""Which plan?  Every solver proposes, everything proposed is graded alike, the best is taken.

Fixed trees are graded by the traces, trees that grow while they are drafted by rounds played on
recorded trees.  The best of many settings on the texts that it was chosen on looks better than it
is.  So what growing trees are worth is found crosswise: settings are proposed from one half of the
texts and played on the other, and the other way round; the plan has those proposed from all texts,
which are better informed than what was graded.  And rounds played are noisier than traces: a fixed
tree, chosen by its traces, is played on the same recorded trees, and what both share of luck drops
out (`grading`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ..documents.arguments import count
from ..documents.document import PlannerError
from ..documents.profile import Acceptance, Profile
from ..documents.sampling import Sampling
from ..documents.tree import Tree
from ..documents.version import WRITTEN_BY
from ..estimates.evidence import Evidence, recorded
from ..estimates.law import AcceptanceLaw
from ..estimates.step_costs import StepCosts, step_costs
from ..plans.plan import MadeFrom, Plan
from ..policies import Drafting
from ..replay.replays import Replays, replays_of
from ..verifiers import GREEDY_VERIFIER, VERIFIERS, verifier_at
from .certificate import upper_bound
from .grading import Candidate, grade, grade_grown
from .growing import GrowingSolver, GrowthEstimates, costs_of
from .problem import Estimates, Limits, Solver
from .solvers.baselines import ChainSolver, IndependentSolver, KarySolver
from .solvers.dyspec import DySpecSolver
from .solvers.pricing import PriceSolver
from .solvers.sequoia import NarrowSolver, SequoiaSolver
from .solvers.specdecpp import (
    AssistedSolver,
    ConfidentSolver,
    SpecDecSolver,
    TunedAssistedSolver,
)

SOLVERS: dict[str, Solver] = {
    "chain": ChainSolver(),
    "kary": KarySolver(),
    "independent": IndependentSolver(),
    "sequoia": SequoiaSolver(),
    "narrow": NarrowSolver(),
}

GROWING_SOLVERS: dict[str, GrowingSolver] = {
    "dyspec": DySpecSolver(),
    "specdecpp": SpecDecSolver(),
    "assisted": AssistedSolver(),
    "price": PriceSolver(),
}
"""Of trees that grow while they are drafted."""

OTHERS_SOLVERS: dict[str, GrowingSolver] = {
    "assisted-tuned": TunedAssistedSolver(),
    "confident": ConfidentSolver(),
}
"""Of rules of other programs, at their best: proposed where they are asked for by name only."""

GROUPS = ("auto", "fixed", "grown")
"""All solvers; those of one tree for all steps; those of a tree of its own for every step."""

NO_SOLVER = "none"
"""Who proposes not to speculate."""

MOST_CHILDREN = 8
"""Of a node of a tree that grows."""

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
    doing: Callable[[str], object] = lambda what: None,
) -> Plan:
    """The plan with the most tokens per millisecond that this profile supports.

    solver, verifier  a name, or "auto" for the best of all that the profile has; a solver also
                      "fixed" or "grown" (`GROUPS`)
    temperature       one that the profile measured; None: its first
    max_nodes         largest tree, root included; None: the largest that was measured
    max_depth         most levels below the root; None: 24
    batch_size        one that the profile measured
    context           tokens in the cache, within what was measured; None: the first measured
    doing             is told what is being weighed, again and again

    Not speculating (a lone root) is always among the candidates, and wins ties.
    Raises PlannerError, listing what there is, where the profile lacks what is asked for.
    """
    sampling = sampling_at(profile, temperature)
    held = contests(
        profile, sampling=sampling, solver=solver, verifier=verifier, max_nodes=max_nodes,
        max_depth=max_depth, batch_size=batch_size, context=context, doing=doing,
    )  # fmt: skip
    candidates = ranked(held)
    best = candidates[0]
    contest = next(one for one in held if one.verifier == best.verifier)
    gap = None if best.grows else contest.gap(best.tree)
    predicted = best.predicted.model_copy(update={"optimality_gap": gap})
    return Plan(
        written_by=WRITTEN_BY,
        drafting=best.drafting,
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

    Ties go to fixed trees, then to fewer nodes, then to verifiers that need no sampling, then to
    the first name.
    """
    held = contests(
        profile, sampling=sampling_at(profile, temperature), solver=solver, verifier=verifier,
        max_nodes=max_nodes, max_depth=max_depth, batch_size=batch_size, context=context,
    )  # fmt: skip
    return ranked(held)


@dataclass(frozen=True)
class Contest:
    """One verifier's: what is known of it, and all that was graded under it."""

    verifier: str
    evidence: Evidence
    costs: StepCosts
    limits: Limits
    candidates: list[Candidate]
    replays: Replays | None = None
    """Recorded trees that growing ones were graded on, if any were."""

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
    doing: Callable[[str], object] = lambda what: None,
) -> list[Contest]:
    """Each verifier's contest under `sampling`, by name; the other arguments as for `solve`."""
    fixed, growing = _solvers(solver)
    held = []
    for entry in _entries(profile, sampling, verifier):
        decoding = verifier_at(entry.verifier, sampling).name
        costs = step_costs(profile, verifier=decoding, batch_size=batch_size, context=context)
        limits = _limits(costs, max_nodes, max_depth)
        evidence = recorded(profile, entry)
        doing(f"fixed trees, {entry.verifier}")
        graded = _graded(fixed or SOLVERS, entry.verifier, evidence, costs, limits)
        contest = Contest(entry.verifier, evidence, costs, limits, graded)
        if growing and VERIFIERS[entry.verifier].grows:
            replays = replays_of(profile, sampling, entry.verifier)
            if replays is not None and replays.num_texts > 1:
                contest = _with_grown(contest, growing, replays, doing)
        if not fixed:  # they were only to compare with
            kept = [one for one in contest.candidates if one.grows or not one.speculates]
            contest = replace(contest, candidates=kept)
        held.append(contest)
    if growing and not fixed and not any(one.replays for one in held):
        raise PlannerError(_nothing_to_play(profile, sampling, solver, verifier))
    return held


def ranked(contests: list[Contest]) -> list[Candidate]:
    """All candidates, the best first; the lone root, the same under every verifier, once."""
    candidates = [candidate for contest in contests for candidate in contest.candidates]
    candidates.sort(key=_order)
    lone = next(candidate for candidate in candidates if not candidate.speculates)
    return [c for c in candidates if c.speculates or c is lone]


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

    def graded_for(tree: Tree, solver: str) -> Candidate:
        return grade(tree, evidence, costs, solver=solver, verifier=verifier)

    lone = Tree([-1])
    graded = {lone: graded_for(lone, NO_SOLVER)}
    law = _law(evidence.law, verifier)
    for _ in range(_ROUNDS):
        found: dict[Tree, str] = {}
        for name, solver in solvers.items():
            for tree in solver.propose(Estimates(law, costs), limits):
                if tree not in graded and costs.covers(tree):
                    found.setdefault(tree, name)
        with ThreadPoolExecutor() as pool:  # the compiled part lets go of the interpreter
            graded |= zip(found, pool.map(graded_for, found, found.values()), strict=True)
        best = min(graded.values(), key=_order)
        inside = _law(evidence.law_inside(best.tree), verifier)
        if inside == law:
            break
        law = inside
    return list(graded.values())


def _with_grown(
    contest: Contest,
    solvers: dict[str, GrowingSolver],
    replays: Replays,
    doing: Callable[[str], object],
) -> Contest:
    """The contest with trees that grow, graded crosswise against the fastest fixed tree that drafts
    and can be played."""
    playable = [c for c in contest.candidates if c.speculates and replays.hold(c.drafting)]
    control = min(playable, key=_order, default=None)
    whole, *halves = (
        _proposed(contest, solvers, texts, doing)
        for texts in (replays, replays.half(0), replays.half(1))
    )
    grown, costs = [], contest.costs.growing()
    for key, settings in whole.items():
        crossed = [half[key] for half in reversed(halves) if key in half]
        if len(crossed) < len(halves):
            continue
        played = replays.played_by_halves(crossed, costs_of(settings, costs))
        if played is not None:
            grown.append(
                grade_grown(
                    settings,
                    played,
                    replays,
                    control=control,
                    solver=key[0],
                    verifier=contest.verifier,
                )
            )
    return replace(contest, candidates=[*contest.candidates, *grown], replays=replays)


def _proposed(
    contest: Contest,
    solvers: dict[str, GrowingSolver],
    texts: Replays,
    doing: Callable[[str], object],
) -> dict[tuple[str, str], Drafting]:
    """By solver and name, from some texts."""
    most = VERIFIERS[contest.verifier].max_children or MOST_CHILDREN
    drafting = [c for c in contest.candidates if c.speculates] or contest.candidates
    estimates = GrowthEstimates(
        replays=texts,
        costs=contest.costs.growing(),
        price_per_ms=min(drafting, key=_order).tokens_per_ms,
        max_children=min(most, texts.num_children),
    )
    proposed = {}
    for solver, each in solvers.items():
        doing(f"growing trees, {contest.verifier}, {solver}")
        for name, settings in each.propose(estimates, contest.limits).items():
            proposed[solver, name] = settings
    return proposed


def _nothing_to_play(profile: Profile, sampling: Sampling, solver: str, verifier: str) -> str:
    if verifier != "auto" and not VERIFIERS[verifier].grows:
        growing = ", ".join(name for name, each in VERIFIERS.items() if each.grows)
        return (
            f"verifier: got {verifier!r}, which cannot serve trees that grow while they are "
            f"drafted (solver {solver!r}); choose one of {growing}, or another solver"
        )
    there = sorted({entry.verifier for entry in profile.replays if entry.sampling == sampling})
    return (
        f"solver: got {solver!r}, but at {sampling} the profile holds no recorded trees of "
        f"{'any verifier' if verifier == 'auto' else repr(verifier)}"
        f"{f' (of {there} only)' if there else ''}; profile again, or choose another solver"
    )


def _law(law: AcceptanceLaw, verifier: str) -> AcceptanceLaw:
    """`law` for as many children as the verifier serves."""
    return law.limited(VERIFIERS[verifier].max_children)


def _order(candidate: Candidate) -> tuple[float, bool, int, bool, str, str, str]:
    return (
        -candidate.tokens_per_ms,
        candidate.grows,
        candidate.drafting.most_nodes,
        not VERIFIERS[candidate.verifier].deterministic,
        candidate.verifier,
        candidate.solver,
        candidate.drafting.model_dump_json(),
    )


def _solvers(name: str) -> tuple[dict[str, Solver], dict[str, GrowingSolver]]:
    """Of fixed trees, and of growing ones."""
    if name in GROUPS:
        return ({} if name == "grown" else SOLVERS), ({} if name == "fixed" else GROWING_SOLVERS)
    if name in SOLVERS:
        return {name: SOLVERS[name]}, {}
    growing = GROWING_SOLVERS | OTHERS_SOLVERS
    if name in growing:
        return {}, {name: growing[name]}
    known = ", ".join((*GROUPS[1:], *SOLVERS, *growing))
    raise PlannerError(f"solver: got {name!r}, expected auto or one of {known}")


def _entries(profile: Profile, sampling: Sampling, verifier: str) -> list[Acceptance]:
    """The acceptance entries to plan from: one per verifier."""
    known = {
        entry.verifier: entry
        for entry in reversed(profile.acceptance)  # the first of a kind stands
        if entry.sampling == sampling and entry.verifier in VERIFIERS
    }
    if verifier == "auto" and sampling.is_greedy and GREEDY_VERIFIER in known:
        return [known[GREEDY_VERIFIER]]  # which all verifiers are there
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
