"""The worth of settings of growing trees, found on other texts than they were chosen on.

The best of many settings on the texts that it was chosen on looks better than it is.  So settings
are proposed from one half of the texts and played on the other, and the other way round: settings
that were only lucky on their texts are seen through.  The plan has those proposed from all texts,
which are better informed than what was graded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..policies import Drafting
from ..replay.replays import Replays
from .grading import Candidate, grade_grown, order
from .problem import Problem, Solver

Proposals = dict[tuple[str, str], Drafting]
"""Settings by solver and the name that it gives them."""


@dataclass(frozen=True)
class Crosswise:
    """One verifier's growing trees, proposed and graded by halves of the recorded texts."""

    verifier: str
    problem: Problem
    solvers: Mapping[str, Solver]
    doing: Callable[[str], object]

    def graded(self, fixed: list[Candidate]) -> list[Candidate]:
        """Candidates for all that the solvers propose."""
        texts = self.problem.texts
        control = control_of(fixed, texts)
        whole, *halves = (self._proposed(part) for part in (texts, texts.half(0), texts.half(1)))
        found = []
        for key, drafting in whole.items():
            crossed = [half[key] for half in reversed(halves) if key in half]
            if len(crossed) < len(halves):
                continue
            played = texts.played_by_halves(crossed, self.problem.costs.of(drafting))
            if played is not None:
                graded = grade_grown(drafting, played, texts, control=control)
                found.append(replace(graded, solver=key[0], verifier=self.verifier))
        return found

    def _proposed(self, texts: Replays) -> Proposals:
        problem = replace(self.problem, replays=texts)
        proposed: Proposals = {}
        for name, solver in self.solvers.items():
            self.doing(f"growing trees, {self.verifier}, {name}")
            proposed |= {(name, key): each for key, each in solver.propose(problem).items()}
        return proposed


def control_of(candidates: list[Candidate], texts: Replays) -> Candidate | None:
    """The fastest of the fixed trees that drafts and can be played, if there is one."""
    playable = [c for c in candidates if not c.grows and c.speculates and texts.hold(c.drafting)]
    return min(playable, key=order, default=None)
