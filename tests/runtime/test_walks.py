"""The walk by one call is the verifier's own: the same decisions by the same random numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from planner import PlannerError
from planner.documents.sampling import Sampling
from planner.policies import GreedyDrafting
from planner.verifiers import VERIFIERS
from runtime import Decoder, Session, TableModel, session
from runtime.randomness import seeded_source
from runtime.walks import METHODS, walk_at_once, walked, walked_greedily
from tests.runtime.small_models import plan
from tree_kernels import verify_walk
from tree_kernels.judges import BELOW_ONE
from tree_kernels.verified import METHODS as KINDS

NUM_TOKENS = 6
GREEDY = Sampling(temperature=0.0)


@dataclass
class Given:
    """A `Source` of known coins, in their order."""

    coins: Tensor
    used: list[float] = field(default_factory=list)

    def next_coin(self) -> float:
        self.used.append(float(self.coins[len(self.used)]))
        return self.used[-1]

    def accept(self, share: float, total: float) -> bool:
        return self.next_coin() * total < share

    def categorical(self, probs: Tensor) -> Tensor:
        sums = probs.cumsum(-1, dtype=torch.float64)
        return torch.searchsorted(sums, self.next_coin() * BELOW_ONE * sums[-1:], right=True)[0]

    def uniforms(self, shape: tuple[int, ...], device: torch.device) -> Tensor:
        assert shape == (len(self.coins),)
        return self.coins.to(device)


def table(seed: int) -> TableModel:
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(NUM_TOKENS, NUM_TOKENS, generator=generator, dtype=torch.float64)
    return TableModel(logits.softmax(-1))


def policies(name: str):
    if name == "chain":
        return [plan([-1, 0, 1, 2])]
    if VERIFIERS[name].max_children == 2:
        return [plan([-1]), plan([-1, 0, 0, 1, 1, 2, 4, 4]), plan([-1, 0, 0, 2, 2, 4])]
    fixed = [plan([-1]), plan([-1, 0, 0, 0, 1, 1, 2, 4, 4]), plan([-1, 0, 0, 2, 2, 2])]
    if not VERIFIERS[name].grows or VERIFIERS[name].deterministic:
        return fixed
    drafting = GreedyDrafting(num_nodes=7, max_depth=3, max_children=3)
    return [*fixed, plan([-1]).model_copy(update={"drafting": drafting})]


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("name", METHODS)
def test_decisions_are_the_verifiers(name, temperature, monkeypatch):
    generator, lengths = torch.Generator().manual_seed(5), set()

    def compared(verifier, tree, target_probs, rng):
        coins = torch.rand(tree.num_nodes, generator=generator, dtype=torch.float64)
        own = verifier.walk(tree, target_probs, Given(coins))
        assert walk_at_once(METHODS[verifier.name], tree, target_probs, Given(coins)) == own
        lengths.add(len(own.path))
        return own

    monkeypatch.setattr(session, "walked", compared)
    decode(name, Sampling(temperature=temperature))
    assert len(lengths) > 2


@pytest.mark.parametrize("name", METHODS)
def test_at_temperature_0_the_targets_tokens_say_all(name, monkeypatch):
    """As every verifier decides about distributions that are points, by itself and by one call."""
    lengths = set()

    def compared(tree, chosen):
        found = walked_greedily(tree, chosen)
        points = torch.nn.functional.one_hot(chosen, NUM_TOKENS).double()
        rng = seeded_source(0, torch.device("cpu"))
        assert VERIFIERS["topk"].walk(tree, points, rng) == found
        assert walk_at_once("sampled", tree, points, rng) == found
        lengths.add(len(found.path))
        return found

    monkeypatch.setattr(session, "walked_greedily", compared)
    decode(name, Sampling(temperature=0.0))
    assert len(lengths) > 2 or name == "chain"


def decode(name: str, sampling: Sampling) -> None:
    """A text with each of a verifier's policies."""
    for number, wanted in enumerate(policies(name)):
        text = Session(
            table(number), table(number + 10), verifier=VERIFIERS[name], sampling=sampling,
            rng=seeded_source(number, torch.device("cpu")),
        )  # fmt: skip
        text.prefill([0])
        policy = wanted.drafting.policy(deterministic=sampling.is_greedy)
        for _ in range(40):
            text.step(policy)


def test_on_a_cpu_a_verifier_walks_itself(monkeypatch):
    def unasked(*arguments):
        raise AssertionError("the kernel")

    monkeypatch.setattr("runtime.walks.verify_walk", unasked)
    text = Session(
        table(0), table(1), verifier=VERIFIERS["rrsw"], sampling=Sampling(temperature=1.0),
        rng=seeded_source(0, torch.device("cpu")),
    )  # fmt: skip
    text.prefill([0])
    assert text.step(plan([-1, 0, 0]).drafting.policy(deterministic=False)).tokens
    assert walked.__module__ == "runtime.walks"


def test_every_way_of_the_kernel_is_some_verifiers():
    assert set(METHODS) <= set(VERIFIERS)
    assert set(METHODS.values()) == set(KINDS)


def test_what_is_no_number_is_one_line():
    text = Session(
        table(0), table(1), verifier=VERIFIERS["rrs"], sampling=Sampling(temperature=1.0),
        rng=seeded_source(0, torch.device("cpu")),
    )  # fmt: skip
    text.prefill([0])
    text.step(plan([-1, 0, 0]).drafting.policy(deterministic=False))
    probs = torch.full((3, NUM_TOKENS), torch.nan, dtype=torch.float64)
    with pytest.raises(PlannerError, match=r"logits: got NaN"):
        walk_at_once("independent", text.tree, probs, seeded_source(0, torch.device("cpu")))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_no_number_is_one_line_where_greedy_too(bad):
    """As soon as the text comes to it: the target is wrong behind token 2 alone."""
    logits = torch.zeros(NUM_TOKENS, NUM_TOKENS).index_fill(1, torch.tensor([2]), 1.0)
    target = TableModel(logits.index_fill(0, torch.tensor([2]), bad))
    text = Decoder.from_plan(plan([-1]).model_copy(update={"sampling": GREEDY}), target)
    assert text.generate([0], max_new_tokens=1).tokens == [2]
    with pytest.raises(PlannerError, match=r"logits: got NaN"):
        text.generate([0], max_new_tokens=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "greedy"}, r"method: got 'greedy', expected one of independent, distinct"),
        ({"target_probs": torch.ones(3)}, r"target_probs: got torch.float32 \[3\], expected float"),
        ({"draft_probs": torch.ones(1, 9)}, r"draft_probs: got \[1, 9\], expected \[m, 4\]"),
        ({"draft_probs": torch.ones(1, 4).double()}, r"got torch.float64, expected torch.float32"),
        ({"uniforms": torch.ones(2)}, r"uniforms: got torch.float32 \[2\], expected torch.float64"),
    ],
)
def test_arguments_that_do_not_fit_are_named(change, message):
    from tree_kernels import VerifiedTree

    tree = VerifiedTree(
        torch.zeros(2, dtype=torch.int32),
        torch.tensor([0, 1, 1], dtype=torch.int32),
        torch.ones(1, dtype=torch.int32),
        torch.zeros(2, dtype=torch.int64),
    )
    arguments = {
        "target_probs": torch.ones(2, 4), "draft_probs": torch.ones(1, 4), "tree": tree,
        "uniforms": torch.zeros(2).double(), "method": "independent",
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        verify_walk(**{**arguments, **change})
