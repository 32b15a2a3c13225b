"""Texts to learn from: the target's own, one drafted token a position, exact acceptance.

Labels come from the same processed distributions as decoding: temperature, top-k and top-p first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from planner.documents.sampling import Sampling

from ..language_model import HiddenModel, read_text
from ..pair import Pair
from ..randomness import seeded_source
from ..token_distribution import distribution
from ..written import Written, logits_behind


@dataclass(frozen=True)
class LabelledText:
    """One text that the target wrote, and what the draft would have put in place of each token.

    prompt        the text's beginning, which is not learned from
    prompt_index  which of the prompts it is
    response      int64 [n]    tokens of the target
    drafts        int64 [n]    drawn from the draft's q behind the same tokens
    labels        float32 [n]  P(the drafted token is accepted) = min(1, p/q)
    """

    prompt: tuple[int, ...]
    prompt_index: int
    response: np.ndarray
    drafts: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.response)


def label_texts(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    seed: int,
    prompt_indices: Sequence[int] | None = None,
) -> list[LabelledText]:
    """Every response of at least one token with its drafted tokens and their labels.

    prompts, responses  token ids; response i is what the target wrote behind prompt i
    prompt_indices      which prompt each is, where some stand there more than once

    At temperature 0 the drafted token is the draft's most probable one, and its label is 1 where
    it is the target's too, else 0.  Above it the draft may have a temperature of its own.
    """
    device = pair.target.device
    source = seeded_source(seed, device)
    indices = range(len(prompts)) if prompt_indices is None else prompt_indices
    texts = []
    for index, prompt, response in zip(indices, prompts, responses, strict=True):
        if not response:
            continue
        written = Written(prompt, response)
        p, q = (
            distribution(logits_behind(model, written), own).to(device)
            for model, own in ((pair.target, sampling), (pair.draft, drawn_by(sampling)))
        )
        drafts = source.categorical(q)
        chances = (p.gather(1, drafts[:, None]) / q.gather(1, drafts[:, None])).squeeze(1)
        labels = chances.clamp(max=1).float().cpu().numpy()
        emitted = np.array(response, dtype=np.int64)
        texts.append(LabelledText(tuple(prompt), index, emitted, drafts.cpu().numpy(), labels))
    return texts


def drawn_by(sampling: Sampling) -> Sampling:
    """The sampling that a chain's tokens are drawn by: the draft's likeliest where it is greedy."""
    return sampling if sampling.is_greedy else sampling.of_draft


def training_rows(
    draft: HiddenModel, text: LabelledText, mix: float | None, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Hidden states of drafted tokens, float [m, H], and their labels, float32 [m], for one text.

    mix  share of the target's tokens in the one sequence that the draft reads (section 4.4), of
         whose drafted tokens the states are taken; None: states as in decoding, each drafted token
         behind the target's own text, for twice the work
    """
    if mix is None:
        return hidden_behind_text(draft, text), torch.from_numpy(text.labels)
    drafted = torch.from_numpy(rng.random(len(text)) >= mix)
    mixed = torch.where(drafted, torch.from_numpy(text.drafts), torch.from_numpy(text.response))
    hidden = _hidden_along(draft, text.prompt, mixed)
    return hidden[drafted.to(hidden.device)], torch.from_numpy(text.labels)[drafted]


def hidden_behind_text(draft: HiddenModel, text: LabelledText) -> Tensor:
    """float [n, H]: the draft's hidden state of drafted token i behind the first i of the target's.

    One pass over the text and one over all drafted tokens, each of which sees the text before its
    place and itself.
    """
    read = [*text.prompt, *text.response[:-1].tolist()]
    cache = draft.new_cache(len(read) + len(text))
    read_text(draft, read, cache, 0)
    places = torch.arange(len(text), device=draft.device) + len(text.prompt)
    before = torch.arange(len(read), device=draft.device) < places[:, None]
    itself = torch.eye(len(text), dtype=torch.bool, device=draft.device)
    drafts = torch.from_numpy(text.drafts).to(draft.device)
    visible = torch.cat([before, itself], dim=1)
    hidden = draft.forward_with_hidden(drafts, places, cache, visible)[1]
    return hidden.clone()  # may be learned from, as what comes out of inference mode may not


def hidden_size_of(draft: HiddenModel, prompt: Sequence[int]) -> int:
    """Units of the draft's hidden states, by looking at one."""
    return _hidden_along(draft, (), torch.tensor(prompt[:1])).shape[-1]


def _hidden_along(draft: HiddenModel, prompt: Sequence[int], tokens: Tensor) -> Tensor:
    """float [n, H]: hidden states of `tokens`, int64 [n], read as one text behind `prompt`."""
    read = torch.cat([torch.tensor(prompt, dtype=torch.int64), tokens]).to(draft.device)
    places = torch.arange(len(read), device=draft.device)
    cache = draft.new_cache(len(read))
    hidden = draft.forward_with_hidden(read, places, cache, num_logits=len(tokens))[1]
    return hidden.clone()  # as above
