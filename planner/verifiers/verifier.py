"""A verifier: a way to draw the children of a node together with a way to judge them.

In one step the draft proposes children for each node of a tree, and the target goes down the tree:
at each node it accepts one of the children or none.  p is the target's distribution at a node and q
the draft's.  The token that comes out is distributed as p whatever q is; how often it is one of the
children is what verifiers differ in.  A verifier may also judge a tree otherwise than node by node,
as long as the text that comes out is the target's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from ..documents.document import PlannerError
from .namespace import Array, namespace
from .traced import Traced, traced_from

Law = Literal["independent", "without replacement", "top", "hub"]
"""How the children of one node are drawn from q: independently; without replacement, evenly over
the untried tokens once q is used up; the most probable ones; or SpecHub's pairs."""


class Source(Protocol):
    """A source of random decisions; `runtime.randomness` has the real one.

    One that also has `uniforms(shape, device)`, numbers in [0, 1) that it gives out once each, lets
    compiled code decide by them.
    """

    def categorical(self, probs: Array) -> Array:
        """One token a row, int64 [...]; probs float [..., V] >= 0, of any sum but 0."""

    def without_replacement(self, probs: Array, k: int) -> Array:
        """1 <= k <= V different tokens a row, in the order drawn: int64 [w, k]; probs float [w, V].

        Each draw is from what is left, renormalised; where nothing is left, uniform over the
        tokens not drawn yet.
        """

    def with_replacement(self, probs: Array, k: int) -> Array:
        """k independent tokens a row, int64 [w, k]; probs float [w, V]."""

    def accept(self, share: float, total: float) -> bool:
        """True with probability min(1, share / total), without dividing (0/0 is False)."""


Random = Any
"""A `Source`, or a generator for which `source_of` knows one (a `torch.Generator`, once `runtime`
is imported)."""


@singledispatch
def source_of(rng: Random) -> Source:
    """The source of random decisions that draws from `rng`; a source is its own."""
    if not hasattr(rng, "accept"):
        raise PlannerError(
            f"rng: got {type(rng).__name__}, expected a torch.Generator (with runtime imported) "
            "or a Source"
        )
    return rng


class Drafted(Protocol):
    """A drafted tree, its nodes numbered from the root, 0, parents first."""

    @property
    def children(self) -> Sequence[Sequence[int]]:
        """Each node's children, in the order in which they were drawn."""

    @property
    def host_tokens(self) -> Array:
        """int64 tensor [num_nodes], on the host."""

    def draft_probs(self, node: int) -> Array:
        """float tensor [V]: what the children of a node that has some were sampled from."""


class Accepted(NamedTuple):
    """The way from the root of a drafted tree to the last accepted node."""

    path: list[int]
    """Accepted nodes, without the root."""
    ranks: list[int]
    """Theirs."""
    tokens: list[int]
    """Emitted: theirs, then the bonus token."""


class Rank(NamedTuple):
    """The child of one rank at N nodes: does it come to be tried, and as what is it accepted?"""

    survival: Array
    """float64 [N, 1]: the chance that all earlier children were rejected."""
    mass: Array
    """float64 [N, m]: given that, the chance to be accepted as each of m tokens."""
    tokens: Array | None = None
    """int64 [N, m]: which tokens these are; None: all of the vocabulary in order."""
    draft: Array | None = None
    """float64 [N, m]: what the child is drawn from, given that, for methods that judge more than
    one node at a time: its subtree is entered with mass / draft at its token."""


class Verifier:
    """A method of verification: how children are drawn and judged, and what planning knows of it.

    A subclass sets the attributes below where they differ, and has `verify`, `masses` and, for a
    law of its own, `sample`; the rest follows from these, `walk` too where it goes node by node.
    It holds no state, so that one instance serves everybody.
    """

    name: ClassVar[str]
    """Its name in plans and on the command line."""
    summary: ClassVar[str]
    """Half a line for people."""
    law: ClassVar[Law] = "independent"
    """How the children are drawn."""
    max_children: ClassVar[int | None] = None
    """Most children of one node that the method can serve; None: any number."""
    incremental: ClassVar[bool] = True
    """May siblings be drawn one at a time, deciding in between whether to draw another?"""
    by_rank_alone: ClassVar[bool] = True
    """Does a child's acceptance depend on its rank alone?  If not, it depends on how many siblings
    it has too."""
    non_increasing: ClassVar[bool] = False
    """Is no child ever likelier to be accepted than an earlier sibling, whatever p and q are?"""
    plain_with_one_child: ClassVar[bool] = False
    """Is it plain speculative sampling (`chain`) where no node has two children?"""
    entered: ClassVar[tuple[float, ...]] = (1.0,)
    """The acceptances with which a node may be entered that traces are kept for, ascending; 1 alone
    where every node is judged by itself."""
    recorded_as: ClassVar[str | None] = None
    """The verifier whose trees the profiler records, which serve this one too; None: none are
    recorded for this one, unless decoding is greedy."""

    @property
    def distinct(self) -> bool:
        """Are the children of one node different tokens?"""
        return self.law != "independent" or self.max_children == 1

    @property
    def deterministic(self) -> bool:
        """Are the children a function of the draft's distribution, without any chance?"""
        return self.law == "top"

    @property
    def whole_paths(self) -> bool:
        """Is a node judged together with what was drafted below it?"""
        return len(self.entered) > 1

    @property
    def grows(self) -> bool:
        """May it be decided while drafting whether a node gets another child?"""
        return self.incremental and self.by_rank_alone

    def sample(self, q: Array, k: int, rng: Random) -> Array:
        """The children of w nodes, in the order in which they will be tried.

        q    float tensor [w, V] or [V]  the draft's distribution at each node
        k    1 <= k <= V                 children a node
        rng  a `Source` or a `torch.Generator`

        Returns int64 [w, k] or [k], whose first columns are a sample of fewer children.  A verifier
        of another law than the first two has its own.
        """
        rng = source_of(rng)
        if self.law == "independent":
            return rng.with_replacement(q, k)
        drafts = rng.without_replacement(q if q.ndim == 2 else q[None], k)
        return drafts if q.ndim == 2 else drafts[0]

    def verify(self, p: Array, q: Array, drafts: Array, rng: Random) -> tuple[int, int]:
        """The accepted child of one node, and the token that the step goes on with.

        p       float tensor [V]  the target's distribution at the node, the very numbers that it
                                  would be sampled from
        q       float tensor [V]  the draft's distribution there, as it was given to `sample`
        drafts  int64 tensor [k]  what `sample` returned; k = 0 at a leaf
        rng     a `Source` or a `torch.Generator`

        Returns (rank of the accepted child, its token), or (-1, a token sampled from what the
        rejections left of p).  At a leaf that is a token sampled from p: the bonus token.
        Raises PlannerError where p or a q that is looked at is not made of numbers.
        """
        raise NotImplementedError

    def walk(self, tree: Drafted, target_probs: Array, rng: Random) -> Accepted:
        """The accepted path of a drafted tree: found node by node from the root, by `verify`.

        target_probs  float tensor [num_nodes, V]  p at each node
        rng           a `Source` or a `torch.Generator`

        The tokens are distributed as if the target had written them.  Raises PlannerError as
        `verify` does.
        """
        rng = source_of(rng)
        found = Accepted([], [], [])
        drafted = tree.host_tokens  # once, not a transfer at every node
        node = 0
        while True:
            children = tree.children[node]
            p = target_probs[node]
            q = tree.draft_probs(node) if children else p
            rank, token = self.verify(p, q, _taken(drafted, children), rng)
            found.tokens.append(token)
            if rank < 0:
                return found
            node = children[rank]
            found.path.append(node)
            found.ranks.append(rank)

    def masses(self, p: Array, q: Array, num_ranks: int, rng: Any) -> Iterator[Rank]:
        """The chance of each token to come out as the accepted child of each rank, at N nodes.

        p, q       float64 [N, V]  arrays or tensors, rows summing to 1
        num_ranks  ranks wanted; no more come than the method serves
        rng        a generator of the arrays' kind

        Yields a `Rank` for each rank; where siblings matter (`by_rank_alone` is false), for one
        child, then for each of two, of three, and so on.  No coin for acceptance is ever flipped.
        Where the law depends on which tokens were rejected before, one path of rejections is drawn
        from its exact law for each node: the mean over paths is right (a Rao-Blackwell estimate).
        """
        raise NotImplementedError

    def masses_entered(
        self, entered: float, p: Array, q: Array, num_ranks: int, rng: Any
    ) -> Iterator[Rank]:
        """`masses` at nodes that are entered with an acceptance, one of `self.entered`: of children
        whose subtrees accept, among all ends of a walk that comes by, `entered` in all."""
        return self.masses(p, q, num_ranks, rng)

    def traced(
        self, entered: float, p: Array, q: Array, tokens: Array, num_ranks: int, rng: Any
    ) -> Traced:
        """How often each child carries a text on at N nodes that are entered with an acceptance.

        p, q    float64 [N, V]  arrays or tensors, rows summing to 1
        tokens  int64 [N, 1]    the text's

        Returns float64 arrays of the same kind.
        """
        return traced_from(self.masses_entered(entered, p, q, num_ranks, rng), p, tokens, entered)

    def rates(
        self, p: np.ndarray, q: np.ndarray, num_children: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """P(the child of rank r is the accepted one), unconditional, and its standard errors.

        p, q  float64 [N, V], rows summing to 1

        Returns float64 [N, num_children] twice.  This is for methods whose `masses` have no chance
        in them: the errors are 0.
        """
        ranks = list(self.masses(p, q, num_children, rng))[-num_children:]
        sums = [rank.survival * rank.mass.sum(-1, keepdims=True) for rank in ranks]
        rates = np.concatenate(sums, axis=-1)
        return rates, np.zeros_like(rates)

    def draw_given(
        self, p: Array, q: Array, tokens: Array, num_children: int, source: Source
    ) -> tuple[Array, Array]:
        """Children drawn from their law given the token that comes out: decoding, seen afterwards.

        Decoding draws children, then verifies them, and a token comes out.  Here the token is
        known, since the target's text is, and the rest is drawn: which children there were, and
        which of them was accepted.  Only methods that grow have it, but for those whose trees are
        recorded as another's: there none of this depends on how many children there will be, so
        that the first k drawn are right for a node of k children, for every k.

        p, q    float tensors [w, V]
        tokens  int64 tensor [w]  what came out

        Returns (children int64 [w, num_children], ranks int64 [w] of the accepted ones, -1 where
        none is).
        """
        raise PlannerError(
            f"verifier: got {self.name!r}, whose trees are not recorded; expected one whose "
            "siblings can be drawn one at a time, such as rrsw"
        )

    def draw_entered(
        self, entered: Array, p: Array, q: Array, tokens: Array, num_children: int, source: Source
    ) -> tuple[Array, Array, Array]:
        """`draw_given`, where whole paths are judged: given that the walk ends at the node or below
        it, and what comes out behind it; or, for a token of -1, that it does not end there.

        entered  float64 tensor [w]  the acceptances that the nodes are entered with

        Returns what `draw_given` does, and the acceptances that the children are entered with, as
        far as they are tried, float64 [w, num_children].
        """
        children, ranks = self.draw_given(p, q, tokens, num_children, source)
        return children, ranks, namespace(p).ones_like(children, dtype=entered.dtype)


def _taken(tokens: Array, nodes: Sequence[int]) -> Array:
    """int64 [len(nodes)]: entries of `tokens`, a view where they stand side by side."""
    first = nodes[0] if nodes else 0
    if not nodes or nodes[-1] - first == len(nodes) - 1:  # numbers of siblings only rise
        return tokens[first : first + len(nodes)]
    return tokens[nodes]
