"""Chains drafted along a recorded text, given that the target wrote that text.

Speculative decoding with one child a node, looked at from its output: where the target emitted x,
the drafted token was x and accepted with probability min(1, q(x)/p(x)), else it was drawn from
norm((q - p)+) and rejected, whatever x was.  What the draft would have gone on to draft behind a
rejected token is drafted here, so that what every way of stopping wastes can be counted exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from planner.documents.head_card import STOPPING_SCORES
from planner.documents.sampling import Sampling
from planner.policies.policy import FEATURES
from planner.policies.stopping import factor

from ..candidates import features
from ..pair import Pair
from ..randomness import Source
from ..token_distribution import distribution
from ..written import Written, logits_behind
from .acceptance_head import AcceptanceHead
from .labelled_texts import drawn_by


@dataclass(frozen=True)
class Factors:
    """The numbers that one score multiplies to estimate that a chain's tokens are all accepted.

    on_text   float64 [n]         of the drafted token at place i where it is the text's own
    off_text  float64 [n, depth]  of the token d levels below the rejected one at place i; d = 0 is
                                  that one itself; 1 where no chain within the text goes
    late      known only when the draft has read the token, one pass after it was drawn
    """

    on_text: np.ndarray
    off_text: np.ndarray
    late: bool = False


@dataclass(frozen=True)
class Chains:
    """All chains that may be drafted along one text of n tokens.

    accepted  float64 [n]  P(the drafted token at place i is accepted | the text before and at i)
    factors   by score
    """

    accepted: np.ndarray
    factors: dict[str, Factors]

    def __len__(self) -> int:
        return len(self.accepted)


@torch.inference_mode()
def chains_along(
    pair: Pair,
    head: AcceptanceHead,
    written: Written,
    sampling: Sampling,
    *,
    depth: int,
    source: Source,
) -> Chains:
    """Chains of up to `depth` tokens along a text that the target wrote.

    One pass of the target, one of the draft over the text, and one for each further level below
    all rejected tokens at once.  The last token of a text is never drafted, since the target adds
    one behind every chain; so at level d only the first n - 1 - d places go on.
    """
    draft, seen, drawn = pair.hidden_draft, sampling.of_draft, drawn_by(sampling)
    num_prompt, num_places = map(len, written)
    read = torch.tensor([*written.prompt, *written.text], device=draft.device)
    cache = draft.new_cache(len(read))
    along = torch.arange(len(read), device=draft.device)
    logits, hidden = draft.forward_with_hidden(read, along, cache, num_logits=num_places + 1)
    logits, emitted = logits[:-1], read[num_prompt:]
    p = distribution(logits_behind(pair.target, written), sampling).to(draft.device)
    accepted, tokens = _posterior(p, distribution(logits, drawn), emitted, source)
    on_text = _factors_of(distribution(logits, seen), emitted, head.scores(hidden[1:]))
    off_text = {name: np.ones((num_places, depth)) for name in on_text}
    widths: list[int] = []
    for level in range(min(depth, num_places - 1)):
        width = num_places - 1 - level
        widths.append(width)
        tokens, q = tokens[:width], distribution(logits[:width], seen)
        places = num_prompt + level + torch.arange(width, device=draft.device)
        visible = _visible(num_prompt, len(read), widths, draft.device)
        logits, hidden = draft.forward_with_hidden(tokens, places, cache, visible)
        for name, values in _factors_of(q, tokens, head.scores(hidden)).items():
            off_text[name][:width, level] = values
        if width > 1 and level + 1 < depth:
            tokens = source.categorical(distribution(logits[:-1], drawn))
    return Chains(
        accepted.double().cpu().numpy(),
        {name: Factors(on_text[name], off_text[name], late=name == "head") for name in on_text},
    )


def _posterior(p: Tensor, q: Tensor, emitted: Tensor, source: Source) -> tuple[Tensor, Tensor]:
    """(P(accepted | emitted) float [n], a token int64 [n] of the law of rejected ones).

    p, q  float [n, V]; emitted int64 [n].  Where nothing is ever rejected the token is any.
    """
    mass_p, mass_q = (mass.gather(1, emitted[:, None]).squeeze(1) for mass in (p, q))
    accepted = torch.where(mass_q >= mass_p, mass_q > 0, mass_q / mass_p)
    surplus = (q - p).clamp(min=0)
    surplus = torch.where(surplus.sum(-1, keepdim=True) > 0, surplus, q)
    return accepted, source.categorical(surplus)


def _factors_of(q: Tensor, tokens: Tensor, scores: Tensor) -> dict[str, np.ndarray]:
    """The factor of each token by score, float64 [w], as `planner.policies.stopping` has it.

    q       float [w, V]  what the tokens, int64 [w], were drawn from
    scores  float [w]     the head's word on them
    """
    found = features(q.double(), FEATURES, scores).cpu().numpy().T
    drawn = q.gather(1, tokens[:, None]).squeeze(1).double().cpu().numpy()
    return {
        name: np.asarray(factor(place, drawn, found), np.float64)
        for place, name in enumerate(STOPPING_SCORES)
    }


def _visible(num_prompt: int, num_text: int, widths: list[int], device: torch.device) -> Tensor:
    """The rows that every branch's newest token sees: the text before its place, and its branch.

    widths  of all levels so far
    """
    branch = torch.arange(widths[-1], device=device)[:, None]
    before = torch.arange(num_text, device=device) < num_prompt + branch
    above = [torch.arange(width, device=device) == branch for width in widths]
    return torch.cat([before, *above], dim=1)
