"""The acceptance head: from the draft's last hidden state of a token to P(it is accepted)."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planner.documents.head_card import HeadShape


class ResidualBlock(nn.Module):
    """x + SiLU(Wx + b), over float [..., hidden_size]."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + F.silu(self.linear(hidden))


class AcceptanceHead(nn.Module):
    """P(a drafted token is accepted | everything drafted before it was), SpecDec++ section 4.3.

        score = sigmoid(w . (B_D o ... o B_1)(hidden) + c),   B_i(x) = x + SiLU(W_i x + b_i)

    shape          every block has weights of its own: depth (H^2 + H) + H + 1 parameters
    reject_weight  of the loss it is trained with, which makes the scores pessimistic on purpose:
                   their odds tend to the true odds over this weight
    seed           of the initial weights

    The token's own hidden state is read, so a score is known only when the draft has read the
    token, one pass after it was drawn.
    """

    def __init__(self, shape: HeadShape, *, reject_weight: float = 1.0, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.reject_weight = reject_weight
        size = shape.hidden_size
        self.blocks = nn.ModuleList(ResidualBlock(size) for _ in range(shape.depth))
        self.output = nn.Linear(size, 1)
        # Small blocks, nearly the identity, different from the first step on; an output of zero,
        # that says 1/2 of everything.
        rng = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in self.parameters():
                if weight.dim() == 2:
                    weight.normal_(std=0.1 / size**0.5, generator=rng)
                else:
                    weight.zero_()
            self.output.weight.zero_()

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits, float32 [...], of float [..., hidden_size] in any precision."""
        hidden = hidden.to(self.output.weight.dtype)
        for block in self.blocks:
            hidden = block(hidden)
        return self.output(hidden).squeeze(-1)

    @torch.inference_mode()
    def scores(self, hidden: Tensor) -> Tensor:
        """float32 [...]: the factors that stop chains, as the head was trained to say them."""
        return self(hidden).sigmoid()

    @torch.inference_mode()
    def probabilities(self, hidden: Tensor) -> Tensor:
        """float32 [...]: the scores with the loss's weight undone."""
        return unweighted(self(hidden), self.reject_weight).sigmoid()


def unweighted(logits: Tensor, reject_weight: float) -> Tensor:
    """Logits of the acceptance that a weighted loss was minimised for.

    -P log s - w (1 - P) log(1 - s) is least where s / (1 - s) = P / (w (1 - P)).
    """
    return logits + log(reject_weight)
