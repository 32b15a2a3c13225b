"""What a rule for growing trees is: the decisions of one step, taken while the tree is drafted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

FEATURES = ("max_probability", "entropy", "collision", "score")
"""Columns of what a rule is shown of a node's whole draft distribution q: the largest entry of q,
its entropy in nats, the sum of its squares, and what a trained head says of the node itself,
P(its token is accepted | its parent's was)."""

MAX_PROBABILITY, ENTROPY, COLLISION, SCORE = range(len(FEATURES))

Request = tuple[int, int]
"""A node, and how many more children to reveal below it, at least 0."""


class Grower(Protocol):
    """One step's decisions: which nodes to expand, how many children to reveal, when to verify.

    The root is node 0.  Children are numbered in the order in which `grow` asks for them, request
    by request and rank by rank, so nodes need not come level by level.  A node is *expanded* by a
    draft pass, which draws `max_children` ordered candidates from its draft distribution q; its
    children are the first so many of them, the *revealed* ones, and all of these are verified.

    Lossless: whether a candidate is revealed may depend on q at its node and on what has been
    revealed, never on the probability of the candidate itself or of others that are not revealed.
    A rule therefore reads `drawn[node, rank]` of revealed candidates only, unless candidates are a
    function of q (`topk`, and every verifier at temperature 0), where nothing is sampled.
    """

    max_children: int
    """Candidates drawn at once below an expanded node."""
    num_nodes: int
    """Most nodes of any tree, root included."""
    columns: tuple[str, ...]
    """Which of `FEATURES` the rule looks at; the others need not be computed and may be NaN."""

    def start(self, max_depth: int) -> None:
        """A new step begins with a lone root; nodes deeper than `max_depth` >= 0 are of no use."""

    def grow(self) -> Sequence[Request]:
        """What to do next; nothing: verify now.

        A request on an expanded node reveals its next candidates.  All nodes of one answer that
        are not expanded share one draft pass, whatever their depths; `expanded` is then called
        before `grow` is asked again.  A node that an answer itself reveals may be requested by a
        later request of that answer, if its parent was expanded before.
        """

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        """The draft pass over `nodes`, in the order in which the last answer first named them.

        drawn     float64 [w, max_children]   probability of each candidate under what was left of
                                              q when it was drawn: q(x_r) / (1 - sum of q over the
                                              earlier candidates) where candidates are distinct,
                                              q(x_r) for independent draws
        features  float64 [w, len(FEATURES)]  of q, known before any draw
        """

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        """The step is over.

        path     accepted nodes, without the root
        step_ms  wall time of the whole step
        """
