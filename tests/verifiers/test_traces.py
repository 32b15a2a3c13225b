"""Acceptance traces against enumeration of every rejection path, and against counted events."""

import numpy as np
import pytest
import torch

from planner.documents.profile import Acceptance, family_columns
from planner.verifiers import VERIFIERS
from planner.verifiers.namespace import MAX_ELEMENTS
from planner.verifiers.traced import Traced, traced_from
from profiler.acceptance import traced
from runtime.randomness import TorchSource
from tests.runtime.exact_source import law
from tests.verifiers.distributions import FLAVOURS, random_pair
from tests.verifiers.whole_trees import Drafted, FromTheLeaves


def traced_alone(name: str, pair, emitted, num_ranks: int, rng: torch.Generator) -> Traced:
    """One verifier's traces."""
    return traced([VERIFIERS[name]], pair, emitted, num_ranks, rng)[name]


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


def enumerate_verifier(name, p, q, num_ranks):
    """a_r(x), float64 [num_ranks, V], over all that the runtime's own verifier can do."""
    method, rows = VERIFIERS[name], (torch.tensor(p), torch.tensor(q))

    def experiment(rng):
        return method.verify(*rows, method.sample(rows[1], num_ranks, rng), rng)

    rates = np.zeros((num_ranks, len(p)))
    for (rank, token), mass in law(experiment).items():
        if rank >= 0:
            rates[rank, token] = mass
    return rates


def enumerate_entered(p, q, num_ranks, entered):
    """a_r(x) / entered, float64 [num_ranks, V], at a node of a whole tree, entered like this."""
    rows = torch.tensor(q)[None]

    def experiment(rng):
        drafts = rng.without_replacement(rows, num_ranks)[0].tolist()
        leaves = [[*range(1, num_ranks + 1)], *[[]] * num_ranks]
        tree = Drafted(leaves, [0, *drafts], rows)
        found = FromTheLeaves().ended(
            tree, torch.tensor(np.tile(p, (len(leaves), 1))), rng, entered
        )
        return (found[0] - 1, drafts[found[0] - 1]) if found and len(found) == 2 else None

    rates = np.zeros((num_ranks, len(p)))
    for outcome, mass in law(experiment).items():
        if outcome is not None:
            rates[outcome] = mass / entered
    return rates


def enumerate_columns(name, p, q, num_ranks):
    """a(x), float64 [columns, V]: of all siblings; or of one, of two, ... if it matters; where
    whole paths are judged, for every acceptance that a node may be entered with."""
    if VERIFIERS[name].whole_paths:
        every = VERIFIERS[name].entered
        return np.concatenate([enumerate_entered(p, q, num_ranks, each) for each in every])
    if VERIFIERS[name].by_rank_alone:
        return enumerate_verifier(name, p, q, num_ranks)
    return np.concatenate([enumerate_verifier(name, p, q, k) for k in range(1, num_ranks + 1)])


def families(name, num_columns):
    """Columns that are the children of one node."""
    if VERIFIERS[name].by_rank_alone:
        num_ranks = num_columns // len(VERIFIERS[name].entered)
        return [slice(n, n + num_ranks) for n in range(0, num_columns, num_ranks)]
    return [family_columns(count) for count in range(1, Acceptance.ranks_in(num_columns) + 1)]


def ranks_of(name: str, most: int) -> int:
    """So many ranks that enumerating them stays cheap."""
    most = most if VERIFIERS[name].distinct else min(most, 3)
    return min(most, VERIFIERS[name].max_children or most)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("verifier", VERIFIERS)
def test_traces_average_to_the_enumerated_law(verifier, flavour, size):
    """Mean over many independent rejection paths within 5 standard errors, for every rank and y."""
    rng = np.random.default_rng(size)
    p, q = random_pair(rng, size, flavour)
    repeats = 4000
    num_ranks = ranks_of(verifier, min(size, 3 if VERIFIERS[verifier].whole_paths else 4))
    exact = enumerate_columns(verifier, p, q, num_ranks)
    if verifier == "rrsw":
        np.testing.assert_allclose(exact, enumerate_rrsw(p, q, num_ranks), atol=1e-12)
    for y in np.flatnonzero(p):
        rows = tuple(torch.tensor(np.tile(row, (repeats, 1))) for row in (p, q))
        emitted = torch.full((repeats,), int(y))
        generator = torch.Generator().manual_seed(int(y))
        traces = traced_alone(verifier, rows, emitted, num_ranks, generator)
        for got, want in (
            (traces.expected, exact.sum(axis=1)),
            (traces.emitted, exact[:, y] / p[y]),
        ):
            values = got.double().numpy()
            error = values.std(axis=0) / np.sqrt(repeats)
            # 2e-6: float32 rounding of values up to one, and of the water-filling
            assert (np.abs(values.mean(axis=0) - want) <= 5 * error + 2e-6).all()


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    ("verifier", "exact_ranks"),
    [
        *(("chain", 1), ("naive", 4), ("topk", 4), ("rrs", 4), ("kseq", 3), ("rrsw", 1)),
        *(("spechub", 2), ("lookahead", 2), ("traversal", 1)),
    ],
)
def test_some_ranks_have_no_noise(verifier, exact_ranks, flavour):
    p, q = random_pair(np.random.default_rng(1), 7, flavour)
    num_ranks = ranks_of(verifier, exact_ranks)
    exact = enumerate_columns(verifier, p, q, num_ranks).sum(axis=1)
    rows = tuple(torch.tensor(np.tile(row, (50, 1))) for row in (p, q))
    emitted = torch.full((50,), int(p.argmax()))
    traces = traced_alone(verifier, rows, emitted, exact_ranks, torch.Generator())
    np.testing.assert_allclose(traces.expected[:, : len(exact)], np.tile(exact, (50, 1)), atol=2e-6)


@pytest.mark.parametrize("entered", [0.01, 0.4, 1.0])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_compiled_traces_are_those_of_the_masses(flavour, entered):
    """The same random numbers reject the same tokens: equal but for rounding, until no token is
    left, over vocabularies of less and of more than one block."""
    verifier, rng = VERIFIERS["traversal"], np.random.default_rng(0)
    for size in (5, 63, 130):
        p, q = (torch.tensor(np.array(rows)) for rows in zip(
            *(random_pair(rng, size, flavour) for _ in range(40)), strict=True
        ))  # fmt: skip
        tokens = torch.tensor(rng.integers(size, size=(40, 1)))
        ranks = min(size, 9)
        ours, twins = (torch.Generator().manual_seed(size) for _ in range(2))
        masses = verifier.masses_entered(entered, p, q, ranks, twins)
        slow = traced_from(masses, p, tokens, entered)
        for one, other in zip(
            verifier.traced(entered, p, q, tokens, ranks, ours), slow, strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_chunks_change_nothing_but_the_noise(verifier, monkeypatch):
    """63 positions, in chunks of 7 and all at once; whatever is exact is equal."""
    generator = torch.Generator().manual_seed(6)
    p, q = (torch.randn(63, 17, generator=generator).softmax(-1) for _ in range(2))
    emitted = TorchSource(generator).categorical(p)
    found = []
    for elements in (7 * 17, 10**6):
        monkeypatch.setitem(MAX_ELEMENTS, "cpu", elements)
        found.append(traced_alone(verifier, (p, q), emitted, 3, torch.Generator().manual_seed(0)))
    for one, other in zip(*found, strict=True):
        if one is None:
            continue
        assert one.shape == other.shape
        np.testing.assert_allclose(one[:, 0], other[:, 0], atol=1e-6)


def test_topk_traces_are_exact():
    p, q = torch.tensor([[0.2, 0.5, 0.3]] * 2), torch.tensor([[0.1, 0.3, 0.6]] * 2)
    traces = traced_alone("topk", (p, q), torch.tensor([1, 0]), 2, torch.Generator())
    assert traces.expected.tolist() == [[pytest.approx(0.3), pytest.approx(0.5)]] * 2
    assert traces.emitted.tolist() == [[0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_traces_agree_with_the_runtime_accepting_and_rejecting(verifier):
    """The runtime's own verifier, run 5,000 times, accepts each rank as often as traced."""
    rng = np.random.default_rng(3)
    p, q = (torch.tensor(row) for row in random_pair(rng, 6, "dense"))
    num_ranks, repeats = ranks_of(verifier, 3), 5_000
    method, source = VERIFIERS[verifier], TorchSource(torch.Generator().manual_seed(0))
    counts = np.zeros(num_ranks)
    for _ in range(repeats):
        rank, _ = method.verify(p, q, method.sample(q, num_ranks, source), source)
        if rank >= 0:
            counts[rank] += 1
    emitted = source.categorical(p.expand(4000, -1))
    rows, again = (p.expand(4000, -1), q.expand(4000, -1)), torch.Generator().manual_seed(1)
    traces = traced_alone(verifier, rows, emitted, num_ranks, again)
    for rates in (traces.expected.double().numpy(), traces.emitted.double().numpy()):
        rates = rates[:, families(verifier, rates.shape[1])[-1]]
        mean = rates.mean(axis=0)
        noise = np.sqrt(mean * (1 - mean) / repeats + rates.var(axis=0) / len(rates))
        assert (np.abs(counts / repeats - mean) <= 5 * noise + 1e-6).all()


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_rows_never_sum_above_one(verifier):
    rng = torch.Generator().manual_seed(5)
    p = torch.randn(200, 63, generator=rng).mul(3).softmax(-1)
    q = torch.randn(200, 63, generator=rng).mul(3).softmax(-1)
    q[:100] = p[:100]
    emitted = TorchSource(rng).categorical(p)
    traces = traced_alone(verifier, (p, q), emitted, 16, rng)
    for rows in traces[:2]:
        assert (rows >= 0).all()
        for family in families(verifier, rows.shape[1]):
            assert (rows[:, family].sum(-1) <= 1 + 1e-5).all()
