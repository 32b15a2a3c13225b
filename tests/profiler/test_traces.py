"""Acceptance traces against enumeration of every rejection path, and against counted events."""

import numpy as np
import pytest
import torch

from profiler.traces import TRACERS, trace_rrsw, trace_topk
from runtime.randomness import TorchSource
from runtime.verifiers import VERIFIERS


def random_pair(rng: np.random.Generator, size: int, flavour: str) -> tuple[np.ndarray, np.ndarray]:
    p, q = rng.dirichlet(np.full(size, 0.7), size=2)
    if flavour == "zeros":
        p[rng.integers(size)] = 0
        q[rng.integers(size)] = 0
    elif flavour == "one-hot draft":
        q = np.eye(size)[rng.integers(size)]
    elif flavour == "equal":
        q = p
    elif flavour == "disjoint":
        half = np.arange(size) < size // 2
        p, q = np.where(half, p, 0), np.where(half, 0, q)
    return p / p.sum(), q / q.sum()


FLAVOURS = ("dense", "zeros", "one-hot draft", "equal", "disjoint")


def enumerate_rrsw(p, q, num_ranks):
    """a_r(x), float64 [num_ranks, V], by following every sequence of rejected tokens."""
    rates = np.zeros((num_ranks, len(p)))

    def follow(residual, draft, tried, weight, rank):
        if rank == num_ranks or weight == 0:
            return
        for x in range(len(p)):
            if draft[x] == 0:
                continue
            accept = min(1.0, residual[x] / draft[x])
            rates[rank, x] += weight * draft[x] * accept
            left = np.maximum(residual - draft, 0)
            if accept == 1 or left.sum() <= 1e-15:
                continue
            rest = np.where(np.isin(np.arange(len(p)), [*tried, x]), 0, draft)
            if rest.sum() == 0:
                rest = 1.0 * ~np.isin(np.arange(len(p)), [*tried, x])
            if rest.sum() == 0:
                continue
            step = weight * draft[x] * (1 - accept)
            follow(left / left.sum(), rest / rest.sum(), [*tried, x], step, rank + 1)

    follow(p, q, [], 1.0, 0)
    return rates


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("size", [2, 3, 5])
def test_rrsw_traces_average_to_the_enumerated_law(flavour, size):
    """Mean over many independent rejection paths within 5 standard errors, for every rank and y."""
    rng = np.random.default_rng(size)
    p, q = random_pair(rng, size, flavour)
    num_ranks, repeats = min(size, 4), 4000
    exact = enumerate_rrsw(p, q, num_ranks)
    for y in np.flatnonzero(p):
        rows = [torch.tensor(np.tile(row, (repeats, 1))) for row in (p, q)]
        emitted = torch.full((repeats,), int(y))
        generator = torch.Generator().manual_seed(int(y))
        traces = trace_rrsw(*rows, emitted, num_ranks, generator)
        for got, want in (
            (traces.expected, exact.sum(axis=1)),
            (traces.emitted, exact[:, y] / p[y]),
        ):
            values = got.double().numpy()
            error = values.std(axis=0) / np.sqrt(repeats)
            # 1e-6: float32 rounding of values up to one
            assert (np.abs(values.mean(axis=0) - want) <= 5 * error + 1e-6).all()


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_rank_zero_has_no_noise(flavour):
    p, q = random_pair(np.random.default_rng(1), 7, flavour)
    rows = [torch.tensor(np.tile(row, (50, 1))) for row in (p, q)]
    traces = trace_rrsw(*rows, torch.full((50,), int(p.argmax())), 2, torch.Generator())
    np.testing.assert_allclose(traces.expected[:, 0], np.minimum(p, q).sum(), atol=1e-6)


def test_topk_traces_are_exact():
    p, q = torch.tensor([[0.2, 0.5, 0.3]] * 2), torch.tensor([[0.1, 0.3, 0.6]] * 2)
    traces = trace_topk(p, q, torch.tensor([1, 0]), 2, torch.Generator())
    assert traces.expected.tolist() == [[pytest.approx(0.3), pytest.approx(0.5)]] * 2
    assert traces.emitted.tolist() == [[0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("verifier", TRACERS)
def test_traces_agree_with_the_runtime_accepting_and_rejecting(verifier):
    """The runtime's own verifier, run 20,000 times, accepts each rank as often as traced."""
    rng = np.random.default_rng(3)
    p, q = (torch.tensor(row) for row in random_pair(rng, 6, "dense"))
    num_ranks, repeats = 3, 20_000
    rule, source = VERIFIERS[verifier], TorchSource(torch.Generator().manual_seed(0))
    counts = np.zeros(num_ranks)
    for _ in range(repeats):
        rank, _ = rule.verify(p, q, rule.sample(q, num_ranks, source), source)
        if rank >= 0:
            counts[rank] += 1
    emitted = source.categorical(p.expand(4000, -1))
    traces = TRACERS[verifier](
        p.expand(4000, -1), q.expand(4000, -1), emitted, num_ranks, torch.Generator().manual_seed(1)
    )
    for rates in (traces.expected.double().numpy(), traces.emitted.double().numpy()):
        mean = rates.mean(axis=0)
        noise = np.sqrt(mean * (1 - mean) / repeats + rates.var(axis=0) / len(rates))
        assert (np.abs(counts / repeats - mean) <= 5 * noise + 1e-6).all()


@pytest.mark.parametrize("verifier", TRACERS)
def test_rows_never_sum_above_one(verifier):
    rng = torch.Generator().manual_seed(5)
    p = torch.randn(200, 63, generator=rng).mul(3).softmax(-1)
    q = torch.randn(200, 63, generator=rng).mul(3).softmax(-1)
    q[:100] = p[:100]
    emitted = TorchSource(rng).categorical(p)
    for rows in TRACERS[verifier](p, q, emitted, 16, rng):
        assert (rows >= 0).all()
        assert (rows.sum(-1) <= 1 + 1e-5).all()
