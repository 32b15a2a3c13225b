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
from ..language_model import HiddenModel
from ..pair import Pair
from ..randomness import Source
from ..token_distribution import distribution
from ..written import Written
from .acceptance_head import AcceptanceHead
from .labelled_texts import logits_behind


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
    all rejected tokens at once.
    """
    draft = pair.hidden_draft
    p = distribution(logits_behind(pair.target, written), sampling).to(draft.device)
    passes = _DraftPasses(draft, head, written, sampling, source)
    emitted = torch.tensor(written.text, device=draft.device)
    accepted, rejected = _posterior(p, passes.q, emitted, source)
    on_text = passes.text_factors()
    off_text = passes.branches(rejected, depth)
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


class _DraftPasses:
    """The draft's passes over one text and below it, on one cache."""

    def __init__(
        self,
        draft: HiddenModel,
        head: AcceptanceHead,
        written: Written,
        sampling: Sampling,
        source: Source,
    ) -> None:
        self._draft, self._head, self._source = draft, head, source
        self._sampling = sampling
        self._shown = sampling.of_draft
        self._first, self._num_places = map(len, written)
        read = torch.tensor([*written.prompt, *written.text], device=draft.device)
        self._emitted = read[self._first :]
        self._cache = draft.new_cache(len(read))
        logits, hidden = draft.forward_with_hidden(
            read,
            torch.arange(len(read), device=draft.device),
            self._cache,
            num_logits=self._num_places + 1,
        )
        self._logits, self._hidden = logits[:-1], hidden[1:]
        self.q = distribution(self._logits, sampling)

    def text_factors(self) -> dict[str, np.ndarray]:
        """The factors of the text's own tokens, by score, float64 [n]."""
        q = distribution(self._logits, self._shown)
        return _factors_of(q, self._emitted, self._head.scores(self._hidden))

    def branches(self, rejected: Tensor, depth: int) -> dict[str, np.ndarray]:
        """The factors by score, float64 [n, depth], of rejected tokens and of what follows them.

        rejected  int64 [n]

        The last token of a text is never drafted, since the target adds one behind every chain; so
        at level d only the first n - 1 - d places go on.
        """
        factors: dict[str, np.ndarray] = {}
        logits, tokens = self._logits, rejected
        widths: list[int] = []
        for level in range(min(depth, self._num_places - 1)):
            width = self._num_places - 1 - level
            tokens, logits = tokens[:width], logits[:width]
            q = distribution(logits, self._shown)
            widths.append(width)
            logits, hidden = self._read(tokens, widths)
            for name, values in _factors_of(q, tokens, self._head.scores(hidden)).items():
                rows = factors.setdefault(name, np.ones((self._num_places, depth)))
                rows[:width, level] = values
            if width > 1 and level + 1 < depth:
                going_on = distribution(logits[:-1], self._sampling)
                tokens = self._source.categorical(going_on)
        empty = np.ones((self._num_places, depth))  # of a text that is a single token
        return factors or dict.fromkeys(self.text_factors(), empty)

    def _read(self, tokens: Tensor, widths: list[int]) -> tuple[Tensor, Tensor]:
        """(logits, hidden) of the newest token of every branch; `widths` of all levels so far."""
        device = self._draft.device
        branch = torch.arange(widths[-1], device=device)
        num_text = self._first + self._num_places
        before = torch.arange(num_text, device=device) < self._first + branch[:, None]
        above = [torch.arange(width, device=device) == branch[:, None] for width in widths]
        places = self._first + branch + len(widths) - 1
        visible = torch.cat([before, *above], dim=1)
        return self._draft.forward_with_hidden(tokens, places, self._cache, visible)
