"""The choice of a plan.  Every solver proposes, all proposals are graded alike, the best wins.

Fixed trees are graded by the traces, trees that grow while they are drafted by rounds played on
recorded trees, crosswise (`crosswise`).  Rounds played are noisier than traces: a fixed tree,
chosen by its traces, is played on the same recorded trees, and what both share of luck drops out
(`grading`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from ..documents.arguments import count
from ..documents.document import PlannerError
from ..documents.engine import EngineFacts
from ..documents.profile import Acceptance, Profile
from ..documents.sampling import Sampling
from ..documents.tree import Tree
from ..documents.version import WRITTEN_BY
from ..estimates.evidence import Evidence, recorded
from ..estimates.step_costs import StepCosts, step_costs
from ..plans.plan import MadeFrom, Plan
from ..policies import TreeDrafting
from ..replay.replays import replays_of
from ..verifiers import GREEDY_VERIFIER, VERIFIERS, verifier_at
from .contenders import alternatives
from .crosswise import Crosswise
from .grading import Candidate, grade, order
from .problem import Limits, Problem, Solver
from .ranking import Ranking, law_for, ranked, settled
from .setting_table import setting_table
from .solvers import SOLVERS

GROUPS: dict[str, Callable[[Solver], bool]] = {
    "auto": lambda solver: True,
    "fixed": lambda solver: not solver.grows,
    "grown": lambda solver: solver.grows,
}
"""All solvers; those of one tree for all steps; those of a tree of its own for every step."""

NO_SOLVER = "none"
"""Who proposes not to speculate."""

MOST_CHILDREN = 8
"""Children of a node of a tree that grows."""

_DEFAULT_DEPTH = 24
_ROUNDS = 3


@dataclass(frozen=True)
class Question:
    """A question to a profile: the arguments of `solve`."""

    solver: str = "auto"
    verifier: str = "auto"
    sampling: Sampling | None = None
    """None: the first that the profile measured."""
    max_nodes: int | None = None
    max_depth: int | None = None
    batch_size: int = 1
    context: int | None = None


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
    """The plan with the most tokens per millisecond that this profile supports; where that may be
    slower than not to speculate, the one that wins more than it risks (`ranking.settled`).

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
    if not isinstance(profile, Profile):
        raise PlannerError(
            f"profile: got a {type(profile).__name__}, expected a Profile; Profile.load reads one"
        )
    sampling = profile.sampling_at(temperature)
    question = Question(solver, verifier, sampling, max_nodes, max_depth, batch_size, context)
    return answer(profile, question, doing=doing)


def answer(
    profile: Profile, question: Question, *, doing: Callable[[str], object] = lambda what: None
) -> Plan:
    """The plan that answers `question`; see `solve`."""
    rankings = ranked_by_verifier(profile, question, doing=doing)
    candidates = settled(ranked(rankings))
    best = candidates[0]
    ranking = next(one for one in rankings if one.verifier == best.verifier)
    # not to speculate is the same under every verifier, and what is proven is said of all
    judged = [ranking] if best.speculates else rankings
    gaps = [None if best.grows else each.gap(best.tree) for each in judged]
    return Plan(
        written_by=WRITTEN_BY,
        drafting=best.drafting,
        verifier=best.verifier,
        sampling=question.sampling or profile.sampling_at(None),
        predicted=best.predicted.model_copy(update={"optimality_gap": _largest(gaps)}),
        made_from=MadeFrom(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            profile_sha256=profile.fingerprint(),
            machine=profile.machine,
            execution=profile.execution,
            target=profile.target,
            draft=profile.draft,
            engine=profile.engine,
            costs_from=profile.costs_from,
            acceptance_from=profile.acceptance_from,
            solver=best.solver,
            batch_size=question.batch_size,
            context=ranking.costs.context,
            num_candidates=len(candidates),
            max_nodes=ranking.limits.max_nodes,
            max_depth=ranking.limits.max_depth,
            alternatives=alternatives(candidates, rankings),
        ),
        settings=setting_table(candidates, {each.verifier: each.costs for each in rankings}),
    )


def rank_candidates(profile: Profile, question: Question = Question()) -> list[Candidate]:
    """All graded candidates, the best first (`grading.order`)."""
    return ranked(ranked_by_verifier(profile, question))


def ranked_by_verifier(
    profile: Profile,
    question: Question = Question(),
    *,
    doing: Callable[[str], object] = lambda what: None,
) -> list[Ranking]:
    """The ranking of each verifier that is asked for, by name.  Raises PlannerError."""
    sampling = question.sampling or profile.sampling_at(None)
    asked = _solvers(question.solver, profile.engine)
    fixed, growing = (
        {name: each for name, each in asked.items() if each.grows == grows}
        for grows in (False, True)
    )
    rankings = []
    for entry in entries(profile, sampling, question.verifier):
        ranking = _of_fixed(
            profile,
            entry,
            question,
            doing=doing,
            solvers=fixed or _solvers("fixed", profile.engine),
        )
        if growing:
            ranking = _with_grown(profile, sampling, ranking, solvers=growing, doing=doing)
        if not fixed:  # they were only to compare with
            kept = [one for one in ranking.candidates if one.grows or not one.speculates]
            ranking = replace(ranking, candidates=kept)
        rankings.append(ranking)
    if growing and not fixed and not any(one.replays for one in rankings):
        raise PlannerError(_nothing_to_play(profile, sampling, question))
    return rankings


def _of_fixed(
    profile: Profile,
    entry: Acceptance,
    question: Question,
    *,
    solvers: Mapping[str, Solver],
    doing: Callable[[str], object],
) -> Ranking:
    """One verifier's fixed trees, and the lone root.

    Acceptance differs between the start of a round and the inside of a good tree, so proposals are
    made again with the law that holds inside the best tree so far.
    """
    verifier = entry.verifier
    evidence, costs = measured(profile, entry, question)
    limits = _limits(costs, question, evidence.most_levels)
    doing(f"fixed trees, {verifier}")
    graded_as = partial(grade, evidence=evidence, costs=costs, verifier=verifier)
    lone = Tree([-1])
    graded = {lone: graded_as(lone, solver=NO_SOLVER)}
    law = law_for(verifier, evidence.law)
    for _ in range(_ROUNDS):
        found: dict[Tree, str] = {}
        for name, solver in solvers.items():
            for drafting in solver.propose(Problem(law, costs, limits)).values():
                assert isinstance(drafting, TreeDrafting), f"{name} proposes no fixed trees"
                tree = drafting.tree
                if tree not in graded and costs.covers(tree):
                    found.setdefault(tree, name)
        with ThreadPoolExecutor() as pool:  # the compiled part lets go of the interpreter
            each = pool.map(lambda tree, name: graded_as(tree, solver=name), found, found.values())
            graded |= zip(found, each, strict=True)
        best = min(graded.values(), key=order)
        inside = law_for(verifier, evidence.law_inside(best.tree))
        if inside == law:
            break
        law = inside
    return Ranking(verifier, evidence, costs, limits, list(graded.values()))


def measured(profile: Profile, entry: Acceptance, question: Question) -> tuple[Evidence, StepCosts]:
    """All that was recorded of an entry's verifier, and its times where the question is put."""
    costs = step_costs(
        profile,
        verifier=verifier_at(entry.verifier, entry.sampling).name,
        batch_size=question.batch_size,
        context=question.context,
        sampling=entry.sampling,
    )
    return recorded(profile, entry), costs


def _with_grown(
    profile: Profile,
    sampling: Sampling,
    ranking: Ranking,
    *,
    solvers: Mapping[str, Solver],
    doing: Callable[[str], object],
) -> Ranking:
    """The ranking with trees that grow, where the profile has recorded trees to play them on."""
    verifier = VERIFIERS[ranking.verifier]
    replays = replays_of(profile, sampling, ranking.verifier) if verifier.grows else None
    if replays is None or replays.num_texts < 2:
        return ranking
    fixed = ranking.candidates
    fastest = min([c for c in fixed if c.speculates] or fixed, key=order)
    problem = Problem(
        law=law_for(ranking.verifier, ranking.evidence.law),
        costs=ranking.costs,
        limits=ranking.limits,
        replays=replays,
        price_per_ms=fastest.tokens_per_ms,
        max_children=min(verifier.max_children or MOST_CHILDREN, replays.num_children),
    )
    grown = Crosswise(ranking.verifier, problem, solvers, doing).graded(fixed)
    return replace(ranking, candidates=[*fixed, *grown], replays=replays)


def _largest(gaps: Sequence[float | None]) -> float | None:
    """None where any is not known."""
    known = [gap for gap in gaps if gap is not None]
    return max(known) if len(known) == len(gaps) else None


def _nothing_to_play(profile: Profile, sampling: Sampling, question: Question) -> str:
    """Why no growing tree could be graded, and what would help."""
    solver, verifier = question.solver, question.verifier
    growing = [name for name, each in VERIFIERS.items() if each.grows]
    if verifier != "auto" and verifier not in growing:
        return (
            f"verifier: got {verifier!r}, which cannot serve trees that grow while they are "
            f"drafted (solver {solver!r}); choose one of {', '.join(growing)}, or another solver"
        )
    recorded = [name for name in growing if sampling.is_greedy or VERIFIERS[name].recorded_as]
    if verifier != "auto" and verifier not in recorded:
        return (
            f"verifier: got {verifier!r}, of which no trees are recorded at {sampling}, so that "
            f"none that grow are planned (solver {solver!r}); choose verifier "
            f"{' or '.join(recorded)}, or another solver"
        )
    there = sorted({entry.verifier for entry in profile.replays if entry.sampling == sampling})
    return (
        f"solver: got {solver!r}, but at {sampling} the profile holds no recorded trees of "
        f"{'any verifier' if verifier == 'auto' else repr(verifier)}"
        f"{f' (of {there} only)' if there else ''}; profile again with --num-replayed of 2 or "
        "more (--thorough for traversal's), or choose another solver"
    )


def _solvers(name: str, engine: EngineFacts | None) -> dict[str, Solver]:
    """The solvers of a group, or the one of that name; an engine's only those that it can obey."""
    if not isinstance(name, str):
        raise PlannerError(f"solver: got {name!r:.60}, expected auto or the name of one")
    if engine is not None:
        able = {each: SOLVERS[each] for each in engine.solvers if each in SOLVERS}
        found = {
            each: one
            for each, one in able.items()
            if name == each or (name in GROUPS and GROUPS[name](one))
        }
        if not found:
            raise PlannerError(
                f"solver: got {name!r}, but {engine.name}, whose times the profile holds, can "
                f"carry out only {', '.join(able)}; choose one of these, or auto"
            )
        return found
    if name in GROUPS:
        return _named(name)
    if name in SOLVERS:
        return {name: SOLVERS[name]}
    known = ", ".join((*list(GROUPS)[1:], *SOLVERS))
    raise PlannerError(f"solver: got {name!r}, expected auto or one of {known}")


def _named(group: str) -> dict[str, Solver]:
    return {name: each for name, each in SOLVERS.items() if each.by_default and GROUPS[group](each)}


def entries(profile: Profile, sampling: Sampling, verifier: str) -> list[Acceptance]:
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
    if isinstance(verifier, str) and verifier in known:
        return [known[verifier]]
    raise PlannerError(
        f"verifier: got {verifier!r}, but at {sampling} the profile measured only "
        f"{', '.join(sorted(known)) or 'verifiers unknown here'}; expected auto or one of these"
    )


def _limits(costs: StepCosts, question: Question, most_levels: int | None) -> Limits:
    most, asked = costs.max_nodes, question.max_nodes
    nodes = most if asked is None else count(asked, "max_nodes", 1)
    if nodes > most:
        raise PlannerError(
            f"max_nodes: got {asked}, but the profile measured trees of up to {most} nodes; "
            "ask for fewer, or profile over a wider range"
        )
    deep = question.max_depth
    depth = _DEFAULT_DEPTH if deep is None else count(deep, "max_depth", 0)
    known = nodes - 1 if most_levels is None else most_levels
    return Limits(max_nodes=nodes, max_depth=min(depth, nodes - 1, known))
