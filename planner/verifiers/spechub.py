"""SpecHub: two children, one of which is always the draft's most probable token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .chain import Chain
from .namespace import Array, at, fill_at, namespace, replaced_at
from .rejection import normalised, sampled
from .verifier import Random, Rank, Verifier, source_of


class SpecHub(Verifier):
    """Pairs with the draft's most probable token, the hub a = argmax q.

    x1 ~ q;  if x1 is not a, x2 = a, else x2 ~ q without a.  So the pair (x, a) has mass q(x), and
    (a, x) has Q(x) = q(a) q(x) / (sum of q without a).

        of (x, a)  x is accepted on f(x) = min(p(x), q(x)),
        of (a, x)  x is accepted on s(x) = min(p(x) - f(x), Q(x));
        what is left of the pairs (a, x) gives A1 = min(p(a), sum of Q - s) to a,
        what is left of the pairs (x, a) gives A2 = p(a) - A1 to a.

    A2 is always there to give: both leftovers together are 1 - sum(f + s) >= 1 - sum of p without
    a.  So the hub gets all of p(a) and every other token min(p(x), q(x) + Q(x)), the most that this
    law of pairs allows.  Left to be sampled is p(x) - f(x) - s(x), and nothing of a.  Where all of
    q lies on a, the second child is drawn evenly from the others.  A lone child is a chain's.

    Source: Sun et al. 2024, "SpecHub", section 4.  Their Algorithm 3 as printed updates what is
    left of p(a) only on the branch taken, which over- and under-samples the hub: p = (.1, .8, .1)
    and q = (.4, .3, .3) then give (.225, .675, .1).  Here both updates are unconditional.
    """

    name = "spechub"
    summary = "pairs with the draft's most probable token (SpecHub)"
    law = "hub"
    max_children = 2
    incremental = False
    by_rank_alone = False
    plain_with_one_child = True

    def sample(self, q: Array, k: int, rng: Random) -> Array:
        """A pair, or one draw from q; see `Verifier.sample`."""
        drafts = super().sample(q, k, rng)  # without replacement: behind the hub stands its partner
        if k == 1:
            return drafts
        xp = namespace(q)
        hub, first = q.argmax(-1, keepdims=True), drafts[..., :1]
        return xp.concatenate((first, xp.where(first == hub, drafts[..., 1:], hub)), -1)

    def verify(self, p: Array, q: Array, drafts: Array, rng: Random) -> tuple[int, int]:
        """Accept within the coupling of the pairs with p; see `Verifier.verify`."""
        if len(drafts) < 2:
            return Chain().verify(p, q, drafts, rng)
        rng = source_of(rng)
        pairs = Pairs.of(normalised(p)[None], normalised(q)[None])
        drawn: list[int] = drafts.tolist()
        place = 0 if drawn[0] == int(pairs.hub) else 1
        other = drawn[1 - place]
        mass, accepted, of_hub = (
            (pairs.hub_then, pairs.as_second, pairs.hub_first),
            (pairs.then_hub, pairs.as_first, pairs.hub_second),
        )[place]
        if rng.accept(float(accepted[0, other]), float(mass[0, other])):
            return 1 - place, other
        if rng.accept(float(of_hub), float((mass - accepted).sum())):
            return place, drawn[place]
        residual = (pairs.wanted - pairs.as_first - pairs.as_second)[0].clamp_(min=0)
        if float(residual.sum()) > 0:
            return -1, sampled(residual, rng)
        return -1, sampled(p, rng)  # reached by rounding alone

    def masses(self, p: Array, q: Array, num_ranks: int, rng: Any) -> Iterator[Rank]:
        """f and s with A1 and A2 at the hub, behind a lone child's; see `Verifier.masses`."""
        xp = namespace(p)
        certain = xp.ones_like(p[:, :1])
        yield Rank(certain, xp.minimum(p, q))
        if num_ranks == 1:
            return
        pairs = Pairs.of(p, q)
        yield Rank(certain, fill_at(pairs.as_first, pairs.hub, pairs.hub_first))
        yield Rank(certain, fill_at(pairs.as_second, pairs.hub, pairs.hub_second))


class Pairs(NamedTuple):
    """The coupling at N nodes; [N, V] by the token beside the hub, 0 at the hub, [N, 1] for it."""

    hub: Array
    """int64 [N, 1]: a."""
    wanted: Array
    """float64 [N, V]: p."""
    then_hub: Array
    """float64 [N, V]: q, the mass of the pairs (x, a)."""
    hub_then: Array
    """float64 [N, V]: Q, the mass of the pairs (a, x)."""
    as_first: Array
    """float64 [N, V]: f."""
    as_second: Array
    """float64 [N, V]: s."""
    hub_first: Array
    """float64 [N, 1]: A1."""
    hub_second: Array
    """float64 [N, 1]: A2."""

    @classmethod
    def of(cls, p: Array, q: Array) -> Pairs:
        """The coupling of target and draft, float64 [N, V] with rows summing to 1."""
        xp = namespace(p)
        hub = q.argmax(-1, keepdims=True)
        of_hub = at(p, hub)
        wanted, then_hub = replaced_at(p, hub, 0.0), replaced_at(q, hub, 0.0)
        others = _others(then_hub, hub)
        hub_then = at(q, hub) * others / others.sum(-1, keepdims=True)
        as_first = xp.minimum(wanted, then_hub)
        as_second = xp.minimum(wanted - as_first, hub_then)
        hub_first = xp.minimum(of_hub, (hub_then - as_second).sum(-1, keepdims=True))
        left = (then_hub - as_first).sum(-1, keepdims=True)
        hub_second = xp.minimum(of_hub - hub_first, left)
        return cls(hub, wanted, then_hub, hub_then, as_first, as_second, hub_first, hub_second)


def _others(rest: Array, hub: Array) -> Array:
    """`rest`, q without the hub; even over all other tokens where nothing is left of it."""
    xp = namespace(rest)
    even = fill_at(xp.ones_like(rest), hub, 0.0)
    return xp.where(rest.sum(-1, keepdims=True) > 0, rest, even)
