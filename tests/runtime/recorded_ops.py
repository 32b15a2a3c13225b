"""A stand-in for CUDA graphs: the operations of a function, done again on the very same tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from runtime.graphs import Outputs, Run

READ_BY_THE_HOST = {"tolist", "item", "numpy", "cpu", "__bool__", "__int__", "__float__"}


class RecordedOps:
    """A `PassRecorder` that keeps every operation with its arguments, as a graph does: tensors by
    their memory, everything else as it was.  What would wait for a GPU raises."""

    def __init__(self) -> None:
        self.num_recorded = 0

    def record(self, run: Run) -> tuple[Outputs, Callable[[], object]]:
        self.num_recorded += 1
        with NothingRead(), Operations() as operations:
            outputs = run()
        return outputs, operations.again


class NothingRead(TorchFunctionMode):
    """Raises where a number is taken from a tensor."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in READ_BY_THE_HOST:
            raise RuntimeError(f"{func.__name__}: a recorded pass cannot wait for the device")
        return func(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    """All operations, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self._done: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._done.append((func, args, kwargs or {}, result))
        return result

    def again(self) -> None:
        """All of them once more; what they made anew then goes where it went."""
        for func, args, kwargs, result in self._done:
            given = {_memory(leaf) for leaf in tree_leaves((args, kwargs)) if _is_tensor(leaf)}
            pairs = zip(tree_leaves(result), tree_leaves(func(*args, **kwargs)), strict=True)
            for before, now in pairs:
                if _is_tensor(before) and _memory(before) not in given:
                    before.copy_(now)


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, Tensor)


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def attention_on_device(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    prefix_lengths: Tensor,
    ancestor_bits: Tensor,
    *,
    tree_rows: Tensor,
    scaling: float | None,
    blocks: None,
) -> Tensor:
    """`tree_attention` of one text, by no length that the host looks at."""
    group = query.shape[1] // key.shape[1]
    key, value = (rows.repeat_interleave(group, dim=1) for rows in (key, value))
    places, words = torch.arange(key.shape[2]), ancestor_bits.shape[2]
    of_tree = places - prefix_lengths
    word, bit = (of_tree.clamp(0, 32 * words - 1) // 32).long(), of_tree % 32
    seen = ((ancestor_bits[0][:, word] >> bit) & 1).bool()
    seen = seen & (of_tree >= 0) & (of_tree < tree_rows) | (of_tree < 0)
    scores = (query @ key.mT) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num(0.0)
    return weights @ value
