"""The times of trees that grow: which clock ticks end up where."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner.documents.sampling import Sampling
from planner.policies.slot_policy import SlotPolicy
from planner.policies.stopping import Stopping
from planner.verifiers import VERIFIERS
from profiler import Pair
from profiler.times.cost_grid import CostGrid, chain_sizes, powers_of_two
from profiler.times.sweeps import CostSweeps
from runtime import TableModel, session

V = 6
DRAFTING, TREES, CHAINS, SAMPLING = 1.0, 100.0, 200.0, 300.0
"""Seconds that the clock below is put forward by a draft pass, by asking a rule once, and by
sampling once."""


class ShownTable(TableModel):
    """A table whose hidden states are its logits."""

    def forward_with_hidden(self, tokens, positions, cache, visible=None, *, num_logits=None):
        logits = self.forward(tokens, positions, cache, visible, num_logits=num_logits)
        return logits, logits


def table(seed: int) -> TableModel:
    rng = torch.Generator().manual_seed(seed)
    return ShownTable(torch.randn(V, V, V, generator=rng, dtype=torch.float64))


@pytest.fixture
def clock(monkeypatch):
    """Time passes only where it is said to."""
    now = [0.0]
    monkeypatch.setattr(session, "perf_counter", lambda: now[0])

    def slower(owner, name, seconds):
        plain = getattr(owner, name)

        def slow(*arguments, **settings):
            now[0] += seconds
            return plain(*arguments, **settings)

        monkeypatch.setattr(owner, name, slow)

    return slower


@pytest.mark.parametrize("num_nodes", [2, 6, 16])
def test_deciding_is_overhead_of_what_grows_and_of_nothing_else(clock, num_nodes):
    draft = table(1)
    clock(draft, "forward", DRAFTING)
    clock(SlotPolicy, "grow", TREES)
    clock(Stopping, "grow", CHAINS)
    grid = CostGrid.up_to(num_nodes, V, ("rrsw", "topk"))
    sweeps = CostSweeps(
        Pair(table(0), draft), [0, 1, 2, 3], grid, Sampling(temperature=1), seed=0,
        heads={"a": lambda hidden: torch.ones(len(hidden))},
    )  # fmt: skip
    times = sweeps.sweep()
    assert not any(np.isnan(each).any() for each in times.values())
    for name, each in times.items():
        if name.endswith(("draft", "draft_root")):
            np.testing.assert_allclose(each, 1e3 * DRAFTING)
        elif not name.endswith("overhead"):
            np.testing.assert_allclose(each, 1e3 * DRAFTING if name == "draft_step" else 0)
    chains = chain_sizes(num_nodes)
    for name in ("chains", "a"):  # asked once a token and once more
        np.testing.assert_allclose(times[f"{name}/overhead"], 1e3 * CHAINS * np.array(chains))
    trees = times["growing/overhead"] / (1e3 * TREES)
    assert len(trees) == len(powers_of_two(num_nodes))
    assert (trees >= 2).all()
    np.testing.assert_allclose(trees, trees.round())


def test_a_verifiers_own_sampling_counts_with_its_walk(clock):
    clock(type(VERIFIERS["topk"]), "sample", SAMPLING)
    grid = CostGrid.up_to(16, V, ("rrsw", "topk", "spechub"))
    pair = Pair(table(0), table(1))
    sweeps = CostSweeps(pair, [0, 1, 2, 3], grid, Sampling(temperature=1), seed=0)
    times = sweeps.sweep()
    passes = [grid.tree(size, "topk").depth for size in grid.few_nodes]
    assert passes[:2] == [1, 1]
    assert passes[2] > 1
    own = times["more overhead/topk"]
    np.testing.assert_allclose(own, 1e3 * SAMPLING * np.array(passes))
    assert not any(np.nansum(each) for each in times.values() if each is not own)
    times = {name: ms if name.startswith("more") else ms + 1 for name, ms in times.items()}
    times["overhead/rrsw"] += np.arange(1, 17)
    costs = sweeps.costs([times] * 2)
    expected = 1 + np.arange(1, 17) + np.interp(np.arange(1, 17), grid.few_nodes, own)
    for ms in (costs.overhead["topk"].low_ms, costs.overhead["topk"].high_ms):
        np.testing.assert_allclose(ms, expected)
    assert costs.overhead["spechub"] == costs.overhead["rrsw"]


def test_greedy_steps_are_the_same_under_every_verifier(clock):
    clock(type(VERIFIERS["topk"]), "sample", SAMPLING)
    grid = CostGrid.up_to(4, V, ("rrsw", "spechub"))
    pair = Pair(table(0), table(1))
    sweeps = CostSweeps(pair, [0, 1, 2, 3], grid, Sampling(temperature=0), seed=0)
    times = sweeps.sweep()
    assert not any("spechub" in name for name in times)
    costs = sweeps.costs([{name: ms + 1 for name, ms in times.items()}] * 2)
    assert costs.overhead["spechub"] == costs.overhead["rrsw"]


def test_sizes():
    assert powers_of_two(2) == (2,)
    assert powers_of_two(7) == (2, 4)
    assert powers_of_two(64) == (2, 4, 8, 16, 32, 64)
    assert [chain_sizes(n) for n in (2, 7, 8, 64)] == [(2, 4), (2, 4), *[(2, 4, 8)] * 2]
