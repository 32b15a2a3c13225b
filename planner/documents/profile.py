"""The profile: facts measured on one machine for one pair of models, and nothing else.

No smoothing and no estimates: those are made from it later, without a GPU.  The per-position
acceptance traces are too large for JSON and lie in a safetensors file beside it, named and hashed
in the JSON.
"""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from .arrays import (
    ROUNDING,
    ArrayFile,
    ReplayArrays,
    beside,
    check_acceptance,
    check_place,
    check_replay,
    packed,
    read_arrays,
    replay_arrays,
)
from .counted_chains import CountedChains, check_counted
from .document import Count, Document, Part, PlannerError, Probability, write_atomically
from .engine import EngineFacts
from .head_card import HeadFile
from .optimal_acceptance import OptimalAcceptance
from .origin import CostsOrigin, Execution, Machine, ModelInfo
from .sampling import Sampling
from .surroundings import Surroundings
from .times import Costs


class PromptAcceptance(Part):
    """Acceptance over one prompt's continuation, every position weighing the same."""

    num_positions: Count
    acceptance: list[Probability] = Field(description="by column, unconditional")


def family_columns(count: int) -> slice:
    """Columns of the children of a node with `count` of them, where siblings matter."""
    return slice(count * (count - 1) // 2, count * (count + 1) // 2)


class Acceptance(Part):
    """How often drafted children are accepted under one sampling setting and one verifier.

    The target's own sampled continuation of each prompt is scored once by both models.  For every
    position t of it, with emitted token y, the arrays named below hold, by rank r,
      expected[t, r] = a_r        = P(the child of rank r is the accepted one), and
      emitted[t, r]  = a_r(y)/p(y) = P(the child of rank r was accepted | y was emitted),
    float32 [num_positions over all prompts, num_columns], prompts one after the other.

    A column is a rank.  Only where acceptance depends on the number of siblings too are there more:
    the one child of a node with one, then both of a node with two, and so on: K (K + 1) / 2 columns
    for K ranks.

    Where whole paths are judged, what becomes of a node depends, too, on the acceptance with which
    it is entered: there are all columns for the first of `entered`, then for the next, up to 1.
    What is above then holds given that the walk ends at the node or below it, and
      entering[t, r] = the acceptance that the child of rank r is entered with, if it is y.
    """

    sampling: Sampling
    verifier: str
    num_ranks: Count
    by_rank_alone: bool = Field(
        default=True, description="false: a column per number of siblings and rank"
    )
    prompts: list[PromptAcceptance] = Field(min_length=1)
    expected: str | None = Field(default=None, description="array name in the file beside")
    emitted: str | None = Field(default=None, description="array name in the file beside")
    entering: str | None = Field(default=None, description="array name in the file beside")
    entered: list[Annotated[float, Field(gt=0, le=1)]] = Field(
        default=[1.0],
        description="acceptances with which a node is entered, ascending to 1, where that matters",
    )
    counted: list[CountedChains] = Field(
        default=[],
        exclude_if=lambda counted: not counted,
        description="by rising length, where an engine drafted by its own method and counted its "
        "steps; `prompts` then hold those of the shortest chains, per drafted token",
    )

    @property
    def num_columns(self) -> int:
        """Columns for one acceptance with which a node is entered."""
        return self.num_ranks if self.by_rank_alone else self.num_ranks * (self.num_ranks + 1) // 2

    @staticmethod
    def ranks_in(num_columns: int) -> int:
        """The number of ranks of so many columns, where siblings matter."""
        return (isqrt(8 * num_columns + 1) - 1) // 2

    @property
    def families(self) -> list[slice]:
        """Columns that are the children of one node, so that they sum to at most 1."""
        if self.by_rank_alone:
            return [slice(0, self.num_ranks)]
        return [family_columns(count) for count in range(1, self.num_ranks + 1)]

    @property
    def traced_families(self) -> list[slice]:
        """`families` for all of `entered`."""
        starts = range(0, self.num_columns * len(self.entered), self.num_columns)
        return [slice(n + each.start, n + each.stop) for n in starts for each in self.families]

    def by_prompt(self) -> np.ndarray:
        """float64 [prompts, num_ranks]: acceptance by rank of a node with `num_ranks` children."""
        return np.array([prompt.acceptance for prompt in self.prompts])[:, self.families[-1]]

    def mean_columns(self) -> np.ndarray:
        """float64 [num_columns]: over all prompts, every position weighing the same."""
        weights = [prompt.num_positions for prompt in self.prompts]
        means = np.average([p.acceptance for p in self.prompts], axis=0, weights=weights)
        return np.asarray(means, np.float64)

    def mean(self) -> np.ndarray:
        """float64 [num_ranks]: `by_prompt` over all prompts, every position weighing the same."""
        return self.mean_columns()[self.families[-1]]

    def by_count(self, columns: np.ndarray | None = None) -> np.ndarray:
        """float64 [num_ranks]: P(any child is accepted) of 1 child, of 2, and so on.

        columns  float64 [num_columns]; None: `mean_columns`
        """
        columns = self.mean_columns() if columns is None else columns
        if self.by_rank_alone:
            return np.cumsum(columns)
        return np.array([columns[family].sum() for family in self.families])

    @model_validator(mode="after")
    def _entered(self) -> Self:
        if self.entered[-1:] != [1.0] or self.entered != sorted(set(self.entered)):
            raise ValueError("entered in strictly increasing order, up to 1")
        if self.emitted is not None and len(self.entered) > 1 and self.entering is None:
            raise ValueError("entering named, as a node may be entered with several acceptances")
        return self

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.counted:
            check_counted(self.counted)
            if self.num_columns * len(self.entered) > 1 or self.expected is not None:
                raise ValueError("one rank and no traces where chains were counted")
        return self

    @model_validator(mode="after")
    def _columns(self) -> Self:
        for index, prompt in enumerate(self.prompts):
            where = f"prompts.{index}.acceptance"
            if len(prompt.acceptance) != self.num_columns:
                raise ValueError(
                    f"{where} of num_ranks = {self.num_ranks} entries, not {len(prompt.acceptance)}"
                    if self.by_rank_alone
                    else f"{where} of {self.num_columns} entries for {self.num_ranks} ranks, "
                    f"not {len(prompt.acceptance)}"
                )
            for family in self.families:
                total = sum(prompt.acceptance[family])
                if total > 1 + ROUNDING:
                    raise ValueError(f"{where} summing to at most 1, not {total:.6g}")
        return self


class ReplayedPrompt(Part):
    """One of the texts that acceptance was measured on."""

    prompt: int = Field(ge=0, description="place among the prompts of `acceptance`")
    num_positions: Count


class Replay(Part):
    """Trees drafted at every position of some of the target's texts, given how the texts go on.

    For trees that grow while they are drafted.  At position t of a text a tree is drafted and
    verified under the condition that the target's text is what comes out: its random choices are
    drawn from their law given that text.  So each tree is one that decoding could have drafted at
    t, and what a round would have emitted with all of it, or with any part of it that was chosen
    by what drafting sees, is known: the text, as far as that part holds it.

    A row is an *expanded* node: the draft drew `num_children` ordered candidates below it.  Rows
    stand tree by tree, text by text; within a tree parents come first, the root foremost.  Arrays,
    named `arrays`/NAME in the file beside:
      first     int64 [num_trees + 1]                first row of each tree, and the end
      drawn     float32 [num_rows, num_children]     each candidate's probability under what was
                                                     left of q when it was drawn
      child     int8 [num_rows, num_children]        the candidate's own row within its tree, -1
                                                     where it was not expanded
      taken     int8 [num_rows]                      the candidate that was accepted, if the node
                                                     was reached; -1: none of them, or not reached
      features  float32 [num_rows, 4]                of q, columns as in `planner.policies.policy`;
                                                     the last, of the node itself, is NaN where
                                                     no head was asked, and at roots
      path      int8 [num_trees, levels]             candidates accepted one below the other, as far
                                                     as the text goes, expanded or not; -1 behind
    The trees were expanded best first, by what was drawn: `first` to `features` never depend on
    what is accepted in any other way than decoding does.
    """

    sampling: Sampling
    verifier: str
    num_children: Count = Field(description="candidates below each expanded node")
    num_expanded: Annotated[int, Field(ge=1, le=127, description="most expanded nodes of a tree")]
    prompts: list[ReplayedPrompt] = Field(min_length=1)
    head: HeadFile | None = Field(default=None, description="whose scores the features hold")
    arrays: str = Field(description="what the arrays' names in the file beside begin with")

    @property
    def num_trees(self) -> int:
        """One per position."""
        return sum(prompt.num_positions for prompt in self.prompts)


class Profile(Document):
    """Everything measured for one pair of models on one machine."""

    format: Literal["profile"] = "profile"
    version: Literal[1] = 1
    created: str
    machine: Machine
    execution: Execution
    target: ModelInfo
    draft: ModelInfo
    engine: EngineFacts | None = Field(
        default=None, description="whose times these are; null: of the runtime's own passes"
    )
    costs: list[Costs] = Field(min_length=1)
    costs_from: CostsOrigin | None = Field(
        default=None, description="where the costs were not measured beside the acceptance"
    )
    surroundings: list[Surroundings] = Field(
        default_factory=list, description="by piece of the costs, where somebody looked"
    )
    acceptance: list[Acceptance] = Field(min_length=1)
    acceptance_from: str | None = Field(
        default=None, description="by what law acceptance was assumed, where nobody measured it"
    )
    optimal: list[OptimalAcceptance] = Field(default_factory=list)
    replays: list[Replay] = Field(default_factory=list)
    arrays: ArrayFile | None = None

    _content: dict[str, np.ndarray] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _one_vocabulary(self) -> Self:
        if self.target.vocab_size != self.draft.vocab_size:
            raise ValueError(
                f"one vocabulary for both models, not {self.target.vocab_size} (target) and "
                f"{self.draft.vocab_size} (draft)"
            )
        return self

    @model_validator(mode="after")
    def _counted_by_a_method(self) -> Self:
        method = self.engine.method if self.engine else None
        for place, entry in enumerate(self.acceptance):
            if bool(entry.counted) != (method is not None):
                raise ValueError(
                    f"acceptance.{place}.counted where engine.method is, and nowhere else"
                )
        return self

    @model_validator(mode="after")
    def _bounds_within_texts(self) -> Self:
        """Evenly spaced positions of a bound are some of its prompt's, never more."""
        lengths = {
            entry.sampling: [prompt.num_positions for prompt in entry.prompts]
            for entry in self.acceptance
        }
        for place, bound in enumerate(self.optimal):
            chosen = [prompt.num_positions for prompt in bound.prompts]
            pairs = zip(chosen, lengths.get(bound.sampling, []), strict=False)
            for index, (few, most) in enumerate(pairs):
                if few > most:
                    raise ValueError(
                        f"optimal.{place}.prompts.{index}.num_positions of at most {most}, as in "
                        f"acceptance, not {few}"
                    )
        return self

    def sampling_at(self, temperature: float | None) -> Sampling:
        """The first sampling measured at this temperature; None: the first of all.

        Raises PlannerError, listing what there is, where none was.
        """
        if temperature is None:
            return self.acceptance[0].sampling
        for entry in self.acceptance:
            if entry.sampling.temperature == temperature:
                return entry.sampling
        there = dict.fromkeys(f"{entry.sampling.temperature:g}" for entry in self.acceptance)
        raise PlannerError(
            f"temperature: got {temperature!r}, but the profile measured only {', '.join(there)}; "
            "choose one of these, or profile at this one"
        )

    def traces(self, acceptance: Acceptance) -> tuple[np.ndarray, np.ndarray] | None:
        """The (expected, emitted) arrays of one of this profile's acceptance entries.

        float32 [num_positions over all prompts, columns] each, `num_columns` for each of `entered`;
        None where none were recorded.
        """
        if acceptance.expected is None or acceptance.emitted is None:
            return None
        return self._content[acceptance.expected], self._content[acceptance.emitted]

    def entering(self, acceptance: Acceptance) -> np.ndarray | None:
        """The array of that name, of the same shape; None where every node is judged by itself."""
        return None if acceptance.entering is None else self._content[acceptance.entering]

    def replayed(self, replay: Replay) -> ReplayArrays:
        """The arrays of one of this profile's replays."""
        return replay_arrays(self._content, replay.arrays, "profile: replays")

    def with_arrays(self, content: dict[str, np.ndarray], file: str) -> Profile:
        """This profile with its trace arrays attached, to be saved beside it as `file`."""
        content = {name: np.ascontiguousarray(array) for name, array in content.items()}
        profile = self.model_copy(update={"arrays": packed(content, file)[1]})
        profile._content = content
        profile._check_arrays("profile")
        return profile

    def without_arrays(self) -> Profile:
        """This profile without its traces and replays, so that its JSON can stand alone."""
        entries = [
            entry.model_copy(update={"expected": None, "emitted": None, "entering": None})
            for entry in self.acceptance
        ]
        bare = self.model_copy(update={"acceptance": entries, "replays": [], "arrays": None})
        bare._content = {}
        return bare

    def save(self, path: str | Path) -> None:
        """Write the arrays, then the JSON that names them, each atomically.

        Raises PlannerError as `write_atomically` and `check_place` do.
        """
        path, arrays = Path(path), None
        if self._content:
            check_place(path)
            data, arrays = packed(self._content, beside(path).name)
            write_atomically(beside(path), data)
        write_atomically(path, self.model_copy(update={"arrays": arrays}).to_json())

    @classmethod
    def opened(cls, content: Any, path: str | Path) -> Self:
        """The profile that `content` is, with the arrays beside `path`.  Raises PlannerError."""
        profile = super().opened(content, path)
        if profile.arrays is not None:
            profile._content = read_arrays(Path(path).parent / profile.arrays.file, profile.arrays)
        profile._check_arrays(str(path))
        return profile

    def _check_arrays(self, source: str) -> None:
        for entry in self.acceptance:
            num_columns = entry.num_columns * len(entry.entered)
            shape = (sum(prompt.num_positions for prompt in entry.prompts), num_columns)
            alone = [slice(column, column + 1) for column in range(num_columns)]
            for field, families in (
                ("expected", entry.traced_families),
                ("emitted", entry.traced_families),
                ("entering", alone),
            ):
                name = getattr(entry, field)
                if name is not None:
                    where = f"{source}: acceptance[{entry.verifier}, {entry.sampling}].{field}"
                    check_acceptance(self._content, name, shape, families, where)
        for replay in self.replays:
            where = f"{source}: replays[{replay.verifier}, {replay.sampling}]"
            check_replay(
                replay_arrays(self._content, replay.arrays, where),
                num_trees=replay.num_trees,
                num_children=replay.num_children,
                num_expanded=replay.num_expanded,
                scored=replay.head is not None,
                where=where,
            )
