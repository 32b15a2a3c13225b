"""Trees, caches and texts for the kernels' tests."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def chain(n: int) -> Tensor:
    return torch.arange(-1, n - 1, dtype=torch.int32)


def star(n: int) -> Tensor:
    return torch.tensor([-1] + [0] * (n - 1), dtype=torch.int32)


def random_tree(n: int, seed: int) -> Tensor:
    """Every node hangs below a random earlier one."""
    rng = np.random.default_rng(seed)
    return torch.tensor([-1, *(int(rng.integers(i)) for i in range(1, n))], dtype=torch.int32)


def path_to(parents: Tensor, node: int) -> list[int]:
    """The nodes from the root to `node`, both included."""
    path = [node]
    while parents[path[-1]] >= 0:
        path.append(int(parents[path[-1]]))
    return path[::-1]


def stacked(*trees: Tensor) -> Tensor:
    """int32 [B, n]: trees of different sizes, padded with -1."""
    return torch.nn.utils.rnn.pad_sequence(list(trees), batch_first=True, padding_value=-1)


def int32(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32)
