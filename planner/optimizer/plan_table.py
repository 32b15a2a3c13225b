"""Plans for many questions at once: several profiles under several conditions, a row a plan.

Rows are worked out in parallel by joblib, here or wherever its backend of the moment has its
workers (`joblib.parallel_config`), and kept in a journal where one is given, so that what was
interrupted goes on where it stopped.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product

from ..documents.document import Part, PlannerError, read_json, write_atomically
from ..documents.estimate import Estimate
from ..documents.pieces import Journal
from ..documents.profile import Profile
from .choice import entries, solve

PLANNING = ("planner",)
"""Packages whose sources decide what is planned."""
GROUP = 4
"""Plans for every worker that are handed out at once: what is lost, at most, by an interruption."""


class Asked(Part):
    """One question to one profile: the arguments of `solve`."""

    solver: str
    verifier: str
    temperature: float
    max_nodes: int | None
    max_depth: int | None
    batch_size: int
    context: int | None


class PlanRow(Part):
    """A question, and the plan that answers it, or why there is none."""

    profile: str
    target: str
    draft: str
    asked: Asked
    plan: str | None = None
    """The plan's drafting, in words."""
    plan_verifier: str | None = None
    tokens_per_step: Estimate | None = None
    speedup: Estimate | None = None
    no_plan: str | None = None
    """Why there is none, in one line."""


@dataclass(frozen=True)
class Questions:
    """Questions to every profile, in every combination; where none is named, all that it holds."""

    temperatures: tuple[float, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    contexts: tuple[int, ...] = ()
    """Tokens in the cache; by default those that were timed at the batch size."""
    solvers: tuple[str, ...] = ("auto",)
    verifiers: tuple[str, ...] = ()
    """Names; by default each that was measured; "auto" stands for the best of them."""
    max_nodes: int | None = None
    max_depth: int | None = None

    def to(self, profile: Profile) -> Iterator[Asked]:
        """The questions to one profile, each once."""
        every = dict.fromkeys(entry.sampling.temperature for entry in profile.acceptance)
        sizes = dict.fromkeys(costs.batch_size for costs in profile.costs)
        for temperature, size in product(self.temperatures or every, self.batch_sizes or sizes):
            timed = dict.fromkeys(c.context for c in profile.costs if c.batch_size == size)
            contexts: Sequence[int | None] = self.contexts or [*timed] or [None]
            verifiers = self.verifiers or _verifiers(profile, temperature)
            for context, solver, verifier in product(contexts, self.solvers, verifiers):
                yield Asked(
                    solver=solver,
                    verifier=verifier,
                    temperature=temperature,
                    max_nodes=self.max_nodes,
                    max_depth=self.max_depth,
                    batch_size=size,
                    context=context,
                )


def plan_table(
    profiles: Mapping[str, Profile],
    questions: Questions = Questions(),
    *,
    jobs: int | None = None,
    journal: Journal | None = None,
    done: Callable[[int, int], object] = lambda finished, all_of_them: None,
) -> list[PlanRow]:
    """A row for every question to every profile, the fastest first, those without a plan last.

    profiles  by the names that they have in the table
    jobs      workers of joblib; None: what `joblib.parallel_config` says, one where it says
              nothing; never more than rows
    journal   where finished rows are kept, and looked for
    done      is told, again and again, how many rows of how many are finished

    A question that a profile cannot answer makes a row that says why.
    """
    from joblib import Parallel, delayed, effective_n_jobs  # which takes a moment to import

    asked = [
        (name, each) for name, profile in profiles.items()
        for each in dict.fromkeys(questions.to(profile))
    ]  # fmt: skip
    kept = _KeptRows(journal, {name: each.fingerprint() for name, each in profiles.items()})
    rows = {each: kept.row(*each) for each in asked}
    left = [each for each, row in rows.items() if row is None]
    workers = min(effective_n_jobs(jobs), len(left) or 1)
    size = 1 if workers == 1 else GROUP * workers
    with Parallel(n_jobs=workers) as parallel:
        for start in range(0, len(left), size):
            done(len(asked) - len(left) + start, len(asked))
            group = left[start : start + size]
            found = parallel(delayed(plan_row)(name, profiles[name], each) for name, each in group)
            for each, row in zip(group, found, strict=True):
                kept.keep(*each, row)
                rows[each] = row
    return sorted((row for row in rows.values() if row is not None), key=_order)


def plan_row(name: str, profile: Profile, asked: Asked) -> PlanRow:
    """The answer of `solve` as a row."""
    row = PlanRow(profile=name, target=profile.target.name, draft=profile.draft.name, asked=asked)
    try:
        plan = solve(profile, **asked.model_dump())
    except PlannerError as error:
        return row.model_copy(update={"no_plan": str(error)})
    assert plan.predicted is not None
    found = {
        "plan": plan.words,
        "plan_verifier": plan.verifier,
        "tokens_per_step": plan.predicted.tokens_per_step,
        "speedup": plan.predicted.speedup,
    }
    return row.model_copy(update=found)


class _KeptRows:
    """Finished rows in the journal's folder, each under what it answers.

    profiles  their fingerprints, by name
    """

    def __init__(self, journal: Journal | None, profiles: Mapping[str, str]) -> None:
        self._journal, self._profiles = journal, profiles

    def row(self, name: str, asked: Asked) -> PlanRow | None:
        """The row if it is there and whole, under the name that the profile has now."""
        piece = self._piece(name, asked)
        if self._journal is None or self._journal.folder is None or not self._journal.holds(piece):
            return None
        path = self._journal.folder / f"{piece}.piece"
        try:
            row = PlanRow.parse(read_json(path), str(path))
        except PlannerError:
            path.unlink(missing_ok=True)
            return None
        return row.model_copy(update={"profile": name})

    def keep(self, name: str, asked: Asked, row: PlanRow) -> None:
        """Write the row.  Raises PlannerError where that is not possible."""
        path = self._journal and self._journal.place(f"{self._piece(name, asked)}.piece")
        if path:
            write_atomically(path, row.model_dump_json())

    def _piece(self, name: str, asked: Asked) -> str:
        return sha256(f"{self._profiles[name]} {asked.model_dump_json()}".encode()).hexdigest()[:24]


def as_json(rows: Sequence[PlanRow]) -> str:
    """The rows as a list of objects, all digits kept."""
    return json.dumps([row.model_dump() for row in rows], indent=1, ensure_ascii=False) + "\n"


def as_csv(rows: Sequence[PlanRow]) -> str:
    """A line a row, below the names of its fields; a number with an interval takes three."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["profile", "target", "draft", *Asked.model_fields, "plan", "plan_verifier",
                     *(f"{name}{end}" for name in ("tokens_per_step", "speedup")
                       for end in ("", "_low", "_high")), "no_plan"])  # fmt: skip
    for row in rows:
        numbers = [
            None if each is None else getattr(each, bound)
            for each in (row.tokens_per_step, row.speedup)
            for bound in ("value", "low", "high")
        ]
        asked = row.asked.model_dump().values()
        writer.writerow([row.profile, row.target, row.draft, *asked, row.plan, row.plan_verifier,
                         *numbers, row.no_plan])  # fmt: skip
    return text.getvalue()


TABLES: dict[str, Callable[[Sequence[PlanRow]], str]] = {".csv": as_csv, ".json": as_json}
"""The forms of a file that the rows are written to, by the end of its name."""


def _verifiers(profile: Profile, temperature: float) -> list[str]:
    """The verifiers that were measured; "auto", so that the row says why, where the temperature was
    not."""
    try:
        known = entries(profile, profile.sampling_at(temperature), "auto")
    except PlannerError:
        return ["auto"]
    return [each.verifier for each in known]


def _order(row: PlanRow) -> float:
    return float("inf") if row.speedup is None else -row.speedup.value
