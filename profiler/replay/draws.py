"""The children of a node, drawn from their law given the token that comes out of it.

Decoding draws children, then verifies them, and a token comes out.  Here the token is known, since
the target's text is, and what is drawn is the rest: which children there were, and which of them,
if any, was the accepted one.  For rules that try children one after the other,

    P(rank r is accepted | the token is y, all before it were rejected) = min(1, D(y) / R(y)),

and a rejected child is distributed as (D - R)+, whatever y is, where R is what the rejections left
of the target and D what is left of the draft.  The children behind the accepted one are drawn from
what is left of the draft, as always.  None of this depends on how many children there will be, so
the first k of what is drawn here are right for a node of k children, for every k.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from runtime.randomness import Source
from runtime.verifiers import VERIFIERS

from ..traces.base import exhausted_to_uniform, normalised

Draw = Callable[[Tensor, Tensor, Tensor, int, Source], tuple[Tensor, Tensor]]
"""(p [w, V], q [w, V], tokens int64 [w], num_children, source) -> (children int64 [w, K], ranks
int64 [w] of the accepted ones, -1 where none is)."""


def rejection(distinct: bool) -> Draw:
    """Of recursive rejection: none drawn twice (`rrsw`), or all drawn from q itself (`rrs`)."""

    def draw(
        p: Tensor, q: Tensor, tokens: Tensor, num_children: int, source: Source
    ) -> tuple[Tensor, Tensor]:
        residual, draft = normalised(p.double()), normalised(q.double())
        untried = torch.ones_like(draft)
        token, taken = tokens[:, None], torch.full_like(tokens, -1)
        children = []
        for rank in range(num_children):
            searching = taken < 0
            lack, excess = (residual - draft).clamp(min=0), (draft - residual).clamp(min=0)
            with_token = torch.minimum(residual, draft).gather(-1, token)
            coin = torch.cat((lack.gather(-1, token), with_token), -1)
            accepted = searching & (source.categorical(_possible(coin)) == 1)
            rejected = searching & ~accepted & (excess.sum(-1) > 0)
            child = source.categorical(torch.where(rejected[:, None], excess, draft))
            child = torch.where(accepted, tokens, child)
            taken[accepted] = rank
            children.append(child)
            if distinct:
                untried.scatter_(-1, child[:, None], 0.0)
                draft = exhausted_to_uniform(draft.scatter(-1, child[:, None], 0.0), untried)
            left = lack.sum(-1, keepdim=True) > 0
            residual = torch.where(left, normalised(lack), residual)
        return torch.stack(children, -1), taken

    return draw


def blind(verifier: str) -> Draw:
    """Of rules that sample the target without looking at the children: the token is accepted if it
    is among them."""

    def draw(
        p: Tensor, q: Tensor, tokens: Tensor, num_children: int, source: Source
    ) -> tuple[Tensor, Tensor]:
        children = VERIFIERS[verifier].sample(q, num_children, source)
        found = children == tokens[:, None]
        return children, torch.where(found.any(-1), found.int().argmax(-1), -1)

    return draw


DRAWS: dict[str, Draw] = {
    "naive": blind("naive"),
    "topk": blind("topk"),
    "rrs": rejection(distinct=False),
    "rrsw": rejection(distinct=True),
}
"""By verifier; a lone child of `rrsw` is `chain`'s."""


def _possible(coin: Tensor) -> Tensor:
    """The coin's two sides; heads where a token that cannot come out gives neither any weight."""
    return torch.where(coin.sum(-1, keepdim=True) > 0, coin, torch.ones_like(coin))
