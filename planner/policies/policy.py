"""A drafting policy: its settings in a plan, and its decisions in one step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Protocol

import numpy as np
from pydantic import Field

from ..documents.document import Part
from ..documents.head_card import HeadFile

MaxDepth = Annotated[int, Field(ge=1, description="most levels below the root")]
Share = Annotated[float, Field(gt=0, lt=1)]

FEATURES = ("max_probability", "entropy", "collision", "score")
"""Columns of what a policy is shown of a node's whole draft distribution q: the largest entry of q,
its entropy in nats, the sum of its squares, and what a trained head says of the node itself,
P(its token is accepted | its parent's was)."""

MAX_PROBABILITY, ENTROPY, COLLISION, SCORE = range(len(FEATURES))

Request = tuple[int, int]
"""A node, and how many more children to reveal below it, at least 0."""


class Policy(Protocol):
    """One step's decisions: which nodes to expand, how many children to reveal, when to verify.

    The root is node 0.  Children are numbered in the order in which `grow` asks for them, request
    by request and rank by rank, so nodes need not come level by level.  A node is *expanded* by a
    draft pass, which draws `num_candidates` ordered candidates from its draft distribution q; its
    children are the first so many of them, the *revealed* ones, and all of these are verified.

    Lossless: whether a candidate is revealed may depend on q at its node and on what has been
    revealed, never on the probability of the candidate itself or of others that are not revealed.
    A policy therefore reads `drawn[node, rank]` of revealed candidates only, unless candidates are
    a function of q (`topk`, and every verifier at temperature 0), where nothing is sampled.
    """

    num_nodes: int
    """Most nodes of any tree, root included."""
    num_candidates: int
    """Candidates drawn at once below an expanded node, and shown to `expanded`; 0: exactly the
    children that are asked for with a node's expansion are drawn, and nothing is shown."""
    columns: tuple[str, ...] = ()
    """Names of the `FEATURES` that it looks at; the others may be NaN."""

    def start(self, max_depth: int) -> None:
        """A new step begins with a lone root; nodes deeper than `max_depth` >= 0 are of no use."""

    def grow(self) -> Sequence[Request]:
        """The next requests; none: verify now.

        A request on an expanded node reveals its next candidates.  All nodes of one answer that
        are not expanded share one draft pass, whatever their depths; `expanded` is then called
        before `grow` is asked again.  A node that an answer itself reveals may be requested by a
        later request of that answer, if its parent was expanded before.
        """

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        """The draft pass over `nodes`, in the order in which the last answer first named them.

        drawn     float64 [w, num_candidates]  probability of each candidate under what was left of
                                               q when it was drawn: q(x_r) / (1 - sum of q over the
                                               earlier candidates) where candidates are distinct,
                                               q(x_r) for independent draws
        features  float64 [w, len(FEATURES)]   of q, known before any draw
        """
        return

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        """The step is over.

        path     accepted nodes, without the root
        step_ms  wall time of the whole step
        """
        return


class PolicySettings(Part, ABC):
    """A policy as a plan holds it: a strict part of the document that knows its own limits, says
    itself in words, and makes the policy that decides.

    A policy is one such class with a `kind` of its own, and one row of `policies.Drafting`.
    """

    grows: ClassVar[bool] = True
    """Is every step's tree decided on while it is drafted?"""
    grows_chains: ClassVar[bool] = False
    """Is it one token after the other that is decided on?"""

    @property
    @abstractmethod
    def most_nodes(self) -> int:
        """Most nodes of any tree, root included."""

    @property
    @abstractmethod
    def most_children(self) -> int:
        """Most children of one node."""

    @property
    def trained_head(self) -> HeadFile | None:
        """The trained head that decides with it, if one does."""
        return None

    @property
    def learns(self) -> bool:
        """Does it change its own settings by what it sees while it decodes a text?"""
        return False

    @abstractmethod
    def words(self) -> str:
        """A few words on what is drafted: how far at most, and what ends it."""

    @abstractmethod
    def policy(self, *, deterministic: bool) -> Policy:
        """The policy that carries these settings out, at the start of a text.

        deterministic  are candidates a function of the draft's distribution, so that nothing is
                       lost by looking at those that are not revealed?
        """
