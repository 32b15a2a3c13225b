"""Chains drafted along a recorded text, given that the target wrote that text.

Speculative decoding with one child a node, looked at from its output: where the target emitted x,
the drafted token was x and accepted with probability min(1, q(x)/p(x)), else it was drawn from
norm((q - p)+) and rejected, whatever x was.  What the draft would have gone on to draft behind a
rejected token is drafted here, so that every rule's wasted tokens can be counted exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from planner.documents.sampling import Sampling

from ..language_model import HiddenModel, LanguageModel
from ..randomness import Source
from ..sampling import distribution
from .data import logits_behind
from .head import AcceptanceHead


@dataclass(frozen=True)
class Factors:
    """What one rule multiplies to estimate that a chain's tokens are all accepted.

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
    factors   by rule
    prompt_index  which of the prompts the text continues
    """

    accepted: np.ndarray
    factors: dict[str, Factors]
    prompt_index: int = 0

    def __len__(self) -> int:
        return len(self.accepted)


@torch.inference_mode()
def chains_along(
    target: LanguageModel,
    draft: HiddenModel,
    head: AcceptanceHead,
    prompt: Sequence[int],
    response: Sequence[int],
    sampling: Sampling,
    *,
    depth: int,
    source: Source,
    prompt_index: int = 0,
) -> Chains:
    """Chains of up to `depth` tokens along `response`, a text that `target` wrote behind `prompt`.

    One pass of the target, one of the draft over the text, and one for each further level below
    all rejected tokens at once.
    """
    p = distribution(logits_behind(target, prompt, response), sampling).to(draft.device)
    walk = _Walk(draft, head, prompt, response, sampling, source)
    emitted = torch.tensor(response, device=draft.device)
    accepted, rejected = _posterior(p, walk.q, emitted, source)
    on_text = walk.text_factors()
    off_text = walk.branches(rejected, depth)
    return Chains(
        accepted.double().cpu().numpy(),
        {rule: Factors(on_text[rule], off_text[rule], late=rule == "head") for rule in on_text},
        prompt_index,
    )


@torch.inference_mode()
def score_text(
    head: AcceptanceHead, draft: HiddenModel, prompt: Sequence[int], text: Sequence[int]
) -> np.ndarray:
    """float32 [len(text)]: what `head` says of every token of `text` behind all before it."""
    tokens = torch.tensor([*prompt, *text], device=draft.device)
    places = torch.arange(len(tokens), device=draft.device)
    _, hidden = draft.forward_with_hidden(
        tokens, places, draft.new_cache(len(tokens)), num_logits=len(text)
    )
    return head.scores(hidden).cpu().numpy()


def _posterior(p: Tensor, q: Tensor, emitted: Tensor, source: Source) -> tuple[Tensor, Tensor]:
    """(P(accepted | emitted) float [n], a token int64 [n] of the law of rejected ones).

    p, q  float [n, V]; emitted int64 [n].  Where nothing is ever rejected the token is any.
    """
    mass_p, mass_q = (mass.gather(1, emitted[:, None]).squeeze(1) for mass in (p, q))
    accepted = torch.where(mass_q >= mass_p, mass_q > 0, mass_q / mass_p)
    surplus = (q - p).clamp(min=0)
    surplus = torch.where(surplus.sum(-1, keepdim=True) > 0, surplus, q)
    return accepted, source.categorical(surplus)


def _factors_of(q: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """Of tokens int64 [w] drawn from float [w, V]: what rules without a head multiply, float [w].

    confidence: the largest entry of q; entropy: exp(-H(q)); probability: q(token).
    """
    q = q.double()
    return {
        "confidence": q.amax(-1),
        "entropy": torch.special.entr(q).sum(-1).neg().exp(),
        "probability": q.gather(1, tokens[:, None]).squeeze(1),
    }


class _Walk:
    """The draft's passes over one text and below it, on one cache."""

    def __init__(
        self,
        draft: HiddenModel,
        head: AcceptanceHead,
        prompt: Sequence[int],
        response: Sequence[int],
        sampling: Sampling,
        source: Source,
    ) -> None:
        self._draft, self._head, self._source = draft, head, source
        self._sampling = sampling
        self._shown = sampling.of_draft
        self._first, self._num_places = len(prompt), len(response)
        read = torch.tensor([*prompt, *response], device=draft.device)
        self._emitted = read[len(prompt) :]
        self._cache = draft.new_cache(len(read))
        logits, hidden = draft.forward_with_hidden(
            read,
            torch.arange(len(read), device=draft.device),
            self._cache,
            num_logits=len(response) + 1,
        )
        self._logits, self._hidden = logits[:-1], hidden[1:]
        self.q = distribution(self._logits, sampling)

    def text_factors(self) -> dict[str, np.ndarray]:
        """By rule, float64 [n], of the text's own tokens."""
        found = _factors_of(distribution(self._logits, self._shown), self._emitted)
        found["head"] = self._head.scores(self._hidden)
        return {rule: values.double().cpu().numpy() for rule, values in found.items()}

    def branches(self, rejected: Tensor, depth: int) -> dict[str, np.ndarray]:
        """By rule, float64 [n, depth], of rejected tokens int64 [n] and of what follows them.

        The last token of a text is never drafted, since the target adds one behind every chain; so
        at level d only the first n - 1 - d places go on.
        """
        factors: dict[str, np.ndarray] = {}
        logits, tokens = self._logits, rejected
        widths: list[int] = []
        for level in range(min(depth, self._num_places - 1)):
            width = self._num_places - 1 - level
            tokens, logits = tokens[:width], logits[:width]
            found = _factors_of(distribution(logits, self._shown), tokens)
            widths.append(width)
            logits, hidden = self._read(tokens, widths)
            found["head"] = self._head.scores(hidden)
            for rule, values in found.items():
                rows = factors.setdefault(rule, np.ones((self._num_places, depth)))
                rows[:width, level] = values.double().cpu().numpy()
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
