"""Small pairs and texts for the tests of acceptance heads."""

from __future__ import annotations

import copy

import numpy as np
import torch

from planner.documents.head_card import HeadShape, HeadTraining
from planner.documents.sampling import Sampling
from runtime.heads import LabelledText, label_texts
from runtime.models import HuggingFaceModel
from runtime.pair import Pair
from runtime.table import TableModel
from tests.runtime.small_models import VOCABULARY, small_model

WARM = Sampling(temperature=0.7, top_k=20, top_p=0.9)


def small_pair(family: str = "llama") -> tuple[HuggingFaceModel, HuggingFaceModel]:
    """(target, draft), of random weights each."""
    attention = attention_of(family)
    return (
        HuggingFaceModel(small_model(family, seed=0, attention=attention), name="target"),
        HuggingFaceModel(small_model(family, seed=1, layers=1, attention=attention), name="draft"),
    )


def agreeing_pair(noise: float = 0.03) -> tuple[HuggingFaceModel, HuggingFaceModel]:
    """(target, draft): the draft is the target with `noise` on its weights; 0: the target."""
    module = copy.deepcopy(small_model("llama"))
    rng = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(noise * torch.randn(weight.shape, generator=rng))
    return small_pair()[0], HuggingFaceModel(module, name="draft")


def attention_of(family: str) -> str:
    """Gemma 2 comes without the other one."""
    return "eager" if family == "gemma2" else "sdpa"


def random_texts(count: int = 6, *, seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Prompts of 1 to 7 tokens and texts behind them, of any tokens: labels do not mind."""
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(VOCABULARY, size=1 + i % 7).tolist() for i in range(count)]
    return prompts, [rng.integers(VOCABULARY, size=3 + 2 * i).tolist() for i in range(count)]


def labelled(count: int = 6, sampling: Sampling = WARM) -> list[LabelledText]:
    return label_texts(Pair(*small_pair()), *random_texts(count), sampling, seed=3)


def shape(hidden_size: int = 32, depth: int = 2) -> HeadShape:
    return HeadShape(hidden_size=hidden_size, depth=depth)


def training(**change: object) -> HeadTraining:
    settings: dict = {
        "reject_weight": 6.0, "mix": 0.15, "epochs": 4, "batch_size": 2,
        "learning_rate": 1e-2, "seed": 1,
    }  # fmt: skip
    return HeadTraining(**settings | change)


class ShowingTable(TableModel):
    """A table whose hidden state of a token is the log-probabilities that it looks up."""

    def forward_with_hidden(self, tokens, positions, cache, visible=None, *, num_logits=None):
        logits = self.forward(tokens, positions, cache, visible, num_logits=num_logits)
        return logits, logits.softmax(-1)


def table(num_tokens: int, *, seed: int, order: int = 2) -> ShowingTable:
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn([num_tokens] * (order + 1), generator=rng, dtype=torch.float64) * 1.5
    return ShowingTable(logits)
