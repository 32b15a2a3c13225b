"""A step on a GPU as far as a CPU can tell: how often the host reads from it, and what it launches
outside of the models' passes.  The branches for a GPU are taken, and launches of kernels stand for
themselves."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from planner.documents.sampling import Sampling
from planner.policies import GreedyDrafting, TreeDrafting
from planner.verifiers import VERIFIERS
from profiler.times.cost_grid import typical_tree
from runtime import (
    HuggingFaceModel,
    Session,
    candidates,
    draft_tree,
    randomness,
    session,
    token_distribution,
    walks,
)
from runtime import cache as caches
from runtime.randomness import TorchSource, seeded_source
from runtime.walks import METHODS, walk_at_once
from tests.runtime.recorded_ops import READ_BY_THE_HOST
from tests.runtime.small_models import small_model
from tree_kernels import reference

ROOT = Path(__file__).parents[2]
VIEWS = {"view", "transpose", "unsqueeze", "slice", "select", "expand", "_unsafe_view", "t",
         "as_strided", "permute", "detach", "alias", "empty", "squeeze", "reshape", "empty_like",
         "lift_fresh", "split", "unflatten", "new_empty", "split_with_sizes", "detach_",
         "resolve_conj", "resolve_neg"}  # fmt: skip


class Reads(TorchFunctionMode):
    """Counts what waits for a GPU, by where it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        blocking = name == "to" and not kwargs.get("non_blocking") and _names_a_device(args)
        made_there = name == "tensor" and kwargs.get("device") is not None
        if quiet == 0 and (name in READ_BY_THE_HOST - {"numpy"} or blocking or made_there):
            self.found[f"{name} {_where()}"] += 1
        return func(*args, **kwargs)


class Launches(TorchDispatchMode):
    """Counts operations that are kernels of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if quiet == 0 and func._schema.name.removeprefix("aten::") not in VIEWS:
            self.found[func._schema.name.removeprefix("aten::")] += 1
        return func(*args, **(kwargs or {}))


quiet = 0
"""Calls under way that stand for one launch, or for a model's pass."""


@contextmanager
def not_counted() -> Iterator[None]:
    global quiet
    quiet += 1
    try:
        yield
    finally:
        quiet -= 1


kernels: Counter[str] = Counter()
"""Launches of the project's own."""


def passed(function: Any) -> Any:
    """A model's pass, in which nothing counts."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with not_counted():
            return function(*args, **kwargs)

    return call


def launched(function: Any) -> Any:
    """One launch, whatever is done in it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        kernels[function.__name__] += 1
        return passed(function)(*args, **kwargs)

    return call


def speeds(probs: torch.Tensor, seeds: torch.Tensor) -> torch.Tensor:
    return probs / torch.empty_like(probs).exponential_()


def _names_a_device(args: Any) -> bool:
    return any(isinstance(each, torch.device) for each in args[1:])


def _where() -> str:
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        if path.is_relative_to(ROOT) and path.name != Path(__file__).name:
            return f"{path.relative_to(ROOT)}:{frame.lineno}"
    return "?"


@pytest.fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "verify_walk", launched(walks.verify_walk))
    monkeypatch.setattr(
        session, "walked", lambda verifier, *others: walk_at_once(METHODS[verifier.name], *others)
    )
    monkeypatch.setattr(caches, "keep_rows_", launched(caches.keep_rows_))
    no_words = property(lambda cache: None, lambda cache, words: None)
    monkeypatch.setattr(caches.TreeCache, "_words", no_words, raising=False)
    monkeypatch.setattr(HuggingFaceModel, "forward", passed(HuggingFaceModel.forward))
    monkeypatch.setattr(candidates, "_shown_on_host", candidates.shown_from_device)

    monkeypatch.setattr(token_distribution, "is_softened", lambda logits: True)
    monkeypatch.setattr(token_distribution, "softened", launched(token_distribution.softened))

    def kept(room: Any, drawn: torch.Tensor) -> None:
        room.drawn, room.host_drawn = drawn, None

    monkeypatch.setattr(draft_tree.Room, "keep_drawn", kept)

    def raced(source: TorchSource, probs: torch.Tensor, k: int) -> torch.Tensor:
        return source.by_kernel(probs, k)

    monkeypatch.setattr(TorchSource, "without_replacement", raced)
    monkeypatch.setattr(randomness, "race_speeds", launched(speeds))
    monkeypatch.setattr(randomness, "has_kernels", lambda device: True)
    monkeypatch.setattr(randomness, "inverted", launched(reference.inverted))
    monkeypatch.setattr(TorchSource, "uniforms", TorchSource.pooled)


def counted(verifier: str, drafting: Any, temperature: float) -> tuple[Counter[str], float, float]:
    """Waits and launches of a step, and draft passes in one, over ten steps of a text."""
    sampling = Sampling(temperature=temperature)
    target, draft = (
        HuggingFaceModel(small_model("llama", seed=seed, layers=1, attention="tree"))
        for seed in (0, 1)
    )
    text = Session(
        target, draft, verifier=VERIFIERS[verifier], sampling=sampling,
        rng=seeded_source(1, target.device),
    )  # fmt: skip
    policy = drafting.policy(deterministic=sampling.is_greedy)
    text.prefill(list(range(20)))
    text.step(policy)
    passes, num_steps = 0, 10
    with Reads() as reads:
        for _ in range(num_steps):
            passes += len(text.step(policy).widths)
    kernels.clear()
    with torch.inference_mode(False), Launches() as launches:
        for _ in range(num_steps):
            text.step(policy)
    waits = Counter({where: count / num_steps for where, count in reads.found.items()})
    return waits, (launches.found + kernels).total() / num_steps, passes / num_steps


LAUNCHES_OF_A_PASS = {"independent": 4, "without replacement": 5, "top": 4, "hub": 8}
"""Most launches around a draft pass, by how its children are drawn."""


@pytest.mark.parametrize("temperature", [0.0, 0.6])
@pytest.mark.parametrize("verifier", METHODS)
def test_a_step_of_a_fixed_tree_waits_once(verifier, temperature):
    most = VERIFIERS[verifier].max_children or 8
    parents = typical_tree(6 if most == 1 else 64, most).parents.tolist()
    waits, num_launches, num_passes = counted(verifier, TreeDrafting(parents=parents), temperature)
    assert sum(waits.values()) == 1, waits
    law = VERIFIERS[verifier].law if temperature > 0 else "top"
    assert num_launches <= 10 + LAUNCHES_OF_A_PASS[law] * num_passes


def test_a_step_of_a_growing_tree_waits_once_more_a_level():
    drafting = GreedyDrafting(num_nodes=16, max_depth=5, max_children=4)
    waits, num_launches, num_passes = counted("rrsw", drafting, 0.6)
    assert sum(waits.values()) == pytest.approx(1 + num_passes), waits
    assert num_launches <= 10 + 14 * num_passes
