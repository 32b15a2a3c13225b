"""The tokens that a text holds already, which a repetition penalty makes less likely."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .draft_tree import DraftTree


def held_by(tokens: Sequence[int], vocab_size: int, device: torch.device) -> Tensor:
    """The tokens of one text: bool [vocab_size]."""
    held = torch.zeros(vocab_size, dtype=torch.bool, device=device)
    held[torch.tensor(list(tokens), dtype=torch.long, device=device)] = True
    return held


def held_along(tokens: Sequence[int], vocab_size: int, device: torch.device) -> Tensor:
    """The tokens of all beginnings of a text of N: bool [N, V], row t of its first t + 1."""
    first = torch.zeros(len(tokens), vocab_size, dtype=torch.uint8, device=device)
    place = torch.arange(len(tokens), device=device)
    first[place, torch.tensor(list(tokens), dtype=torch.long, device=device)] = 1
    return first.cummax(0).values.bool()


def held_with(held: Tensor, paths: Tensor) -> Tensor:
    """The tokens of texts, and of what stands behind each: bool [w, V].

    held   bool [w, V], or [V] for one text
    paths  int64 [w, most tokens]; -1 where there is none
    """
    both = held.expand(len(paths), -1).clone()
    rows, columns = (paths >= 0).nonzero(as_tuple=True)
    both[rows, paths[rows, columns]] = True
    return both


def held_at_nodes(
    text: Sequence[int], tree: DraftTree, nodes: Sequence[int], vocab_size: int
) -> Tensor:
    """The tokens of a text, whose last is the tree's root, and of the paths to `nodes`, these
    included: bool [len(nodes), vocab_size].  All that stand on the paths must have been drawn."""
    above = tree.ancestors[list(nodes)]
    drawn = np.flatnonzero(above.any(axis=0)).tolist()
    tokens = tree.tokens_of(drawn)
    paths = tokens.where(torch.from_numpy(above[:, drawn]).to(tokens.device), -1)
    return held_with(held_by(text, vocab_size, tokens.device), paths)
