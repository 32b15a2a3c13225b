"""The recorded optimum against its twin in the optimizer, by hand, and above every verifier."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner import load
from planner.documents.profile import Acceptance, family_columns
from planner.documents.sampling import Sampling
from planner.optimizer import optimal_acceptance
from planner.verifiers import VERIFIERS, transport
from planner.verifiers.namespace import MAX_ELEMENTS
from planner.verifiers.transport import optimal_with_replacement, optimal_without_replacement
from profiler import Pair, Settings, measure_profile
from profiler import optimum as optimum_module
from profiler.acceptance import Tracing, measure_acceptance
from profiler.optimum import Optimum, evenly_spaced, num_chosen, optimal_entries
from runtime import TableModel
from tests.verifiers.test_traces import traced_alone

EPS = np.finfo(float).eps
BOUNDS = {True: optimal_with_replacement, False: optimal_without_replacement}


def rows_of(flavour: str, size: int, count: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """float64 [count, size] twice: target and draft distributions."""
    rng = np.random.default_rng(size)
    p, q = rng.dirichlet(np.full(size, 0.7), (2, count))
    token, half = np.arange(size), np.arange(size) < size // 2
    if flavour == "peaked":
        p, q = np.exp(25 * rng.normal(size=(2, count, size)))
    elif flavour == "flat":
        q = np.ones_like(q)
    elif flavour == "equal":
        p = q
    elif flavour == "disjoint":
        p, q = np.where(half, p, 0), np.where(half, 0, q)
    elif flavour == "zeros":
        p = np.where((rng.random(p.shape) < 0.5) | (token == 0), p, 0)
        q = np.where((rng.random(q.shape) < 0.4) | (token == size - 1), q, 0)
    elif flavour == "one-hot draft":
        q = np.eye(size)[rng.integers(size, size=count)]
    elif flavour == "one-hot target":
        p = np.eye(size)[rng.integers(size, size=count)]
    return p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)


FLAVOURS = ("dense", "peaked", "flat", "equal", "disjoint", "zeros", "one-hot draft",
            "one-hot target")  # fmt: skip


def found(p: np.ndarray, q: np.ndarray, num_children: int, replacement: bool) -> np.ndarray:
    return BOUNDS[replacement](torch.tensor(p), torch.tensor(q), num_children).numpy()


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("size", [2, 3, 4, 7, 30, 1000])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_it_is_what_the_optimizer_computes(flavour, size, replacement):
    """Closed forms to rounding; both quadratures are good to 1e-10 for up to 5 children."""
    p, q = rows_of(flavour, size)
    num_children = min(5, size)
    bounds = found(p, q, num_children, replacement)
    assert bounds.shape == (len(p), num_children)
    for k in range(1, num_children + 1):
        tolerance = 4 * size * EPS if replacement or k <= 2 else 1e-10
        twin = optimal_acceptance(p, q, k, replacement)
        np.testing.assert_allclose(bounds[:, k - 1], twin, rtol=0, atol=tolerance)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_eight_children_too(flavour):
    """The quadrature's own error grows with the number of children, to some 1e-9."""
    p, q = rows_of(flavour, 63)
    bounds = found(p, q, 8, False)
    for k in (6, 7, 8):
        np.testing.assert_allclose(bounds[:, k - 1], optimal_acceptance(p, q, k, False), atol=1e-8)


def test_values_by_hand():
    """Uniform draft over 4, target on one token: k draws find it with 1 - (3/4)^k, or k/4."""
    p, q = np.eye(4)[:1], np.full((1, 4), 0.25)
    independent = 1 - 0.75 ** np.arange(1, 5)
    np.testing.assert_allclose(found(p, q, 4, True)[0], independent, atol=8 * EPS)
    np.testing.assert_allclose(found(p, q, 4, False)[0], [0.25, 0.5, 0.75, 1], atol=1e-10)
    lone = np.ones((1, 1))
    assert found(lone, lone, 1, False) == found(lone, lone, 1, True) == 1


def test_a_draft_that_ran_out_goes_on_evenly():
    """The draft has token 0 alone, the target token 3: each child after the first finds it 1/4."""
    p, q = np.eye(5)[3:4], np.eye(5)[:1]
    np.testing.assert_allclose(found(p, q, 5, False)[0], [0, 0.25, 0.5, 0.75, 1], atol=8 * EPS)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_more_children_are_never_worse(flavour, replacement):
    bounds = found(*rows_of(flavour, 17), 8, replacement)
    assert (np.diff(bounds, axis=1) >= -1e-8).all()
    assert ((bounds >= 0) & (bounds <= 1)).all()


@pytest.mark.parametrize("replacement", [True, False])
def test_chunks_change_nothing(replacement, monkeypatch):
    """63 positions, in chunks of 7, few clocks and blocks of 4 tokens, and all at once."""
    p, q = rows_of("dense", 17, 63)
    q[::5] = np.eye(17)[3]
    whole = found(p, q, 5, replacement)
    monkeypatch.setitem(MAX_ELEMENTS, "cpu", 7 * 17)
    monkeypatch.setitem(transport.MAX_CLOCKS, "cpu", 100)
    monkeypatch.setattr(transport, "MIN_ROWS", 1)
    monkeypatch.setattr(transport, "BLOCK", 4)
    # other chunks have other late nodes: they add what comes after e^-80
    np.testing.assert_allclose(found(p, q, 5, replacement), whole, rtol=0, atol=1e-13)


def table(seed: int, size: int = 9) -> TableModel:
    rng = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(size, size, size, generator=rng, dtype=torch.float64)
    return TableModel(logits, name=f"table-{seed}")


PROMPTS = [[0, 1, 2], [3, 3, 1], [4, 0, 0], [1, 8, 5]]


@pytest.fixture(scope="module")
def piece():
    return measure_acceptance(
        Pair(table(0), table(1)), PROMPTS, Sampling(temperature=0.8),
        Tracing(num_ranks=8, seed=0), num_tokens=50,
    )  # fmt: skip


OTHER_LAWS = ("topk", "spechub")
"""Their children are drawn neither independently nor one after the other without replacement."""


@pytest.mark.parametrize("verifier", [name for name in VERIFIERS if name not in OTHER_LAWS])
def test_no_verifier_accepts_more_than_the_optimum_of_its_law(verifier, piece):
    """Over the same positions.  What its first ranks accept together has expectation <= optimum.

    Ranks without any noise must keep to it at every position, within float32 rounding.  Where
    paths of rejections are drawn, the sums at N positions are independent, given the texts, and in
    [0, 1]: their mean is above its expectation by more than sqrt(ln(1e6) / 2N) with probability
    1e-6 (Hoeffding).
    """
    expected = piece[f"{verifier}/expected"].astype(np.float64)
    expected = np.split(expected, len(VERIFIERS[verifier].entered), axis=1)[-1]  # as a root is
    law = "without" if VERIFIERS[verifier].distinct else "with"
    most = piece[f"optimal/{law}"]
    assert len(most) == len(expected) == piece["num_positions"].sum()  # small: all are chosen
    together = expected.cumsum(axis=1)
    if not VERIFIERS[verifier].by_rank_alone:
        families = map(family_columns, range(1, Acceptance.ranks_in(expected.shape[1]) + 1))
        together = np.stack([expected[:, family].sum(axis=1) for family in families], axis=1)
    surplus = together - most[:, : together.shape[1]]
    exact = {"chain": 1, "rrsw": 1, "traversal": 1, "lookahead": 2}.get(verifier, 8)
    assert surplus[:, :exact].max() <= 2e-6
    assert (surplus.mean(axis=0) <= np.sqrt(np.log(1e6) / (2 * len(surplus)))).all()


def test_a_lone_child_reaches_the_optimum(piece):
    for law in ("with", "without"):
        np.testing.assert_allclose(
            piece["chain/expected"][:, 0], piece[f"optimal/{law}"][:, 0], atol=1e-6
        )


def test_paths_of_rejections_average_below_the_optimum():
    """One position 4000 times: the mean of the paths is within 5 standard errors of a true rate."""
    p, q = (torch.tensor(rows[:1]) for rows in rows_of("dense", 7))
    most = optimal_without_replacement(p, q, 5)[0].numpy()
    for verifier in ("rrsw", "lookahead"):
        rows, zeros = (p.expand(4000, -1), q.expand(4000, -1)), torch.zeros(4000, dtype=torch.int64)
        paths = traced_alone(verifier, rows, zeros, 5, torch.Generator().manual_seed(0))
        rows = paths.expected.double().numpy().cumsum(axis=1)
        error = rows.std(axis=0) / np.sqrt(len(rows))
        assert (rows.mean(axis=0) <= most + 5 * error + 2e-6).all()


def test_the_profile_holds_it_for_every_sampling_that_samples(tmp_path):
    samplings = tuple(Sampling(temperature=t) for t in (0.0, 0.6, 1.0))
    settings = Settings(samplings=samplings, contexts=(3,), max_nodes=3, num_tokens=11,
                        num_ranks=3, repeats=2)  # fmt: skip
    measure_profile(Pair(table(0), table(1)), PROMPTS, settings).save(tmp_path / "p.json")
    profile = load(tmp_path / "p.json")
    kinds = [(entry.sampling.temperature, entry.replacement) for entry in profile.optimal]
    assert kinds == [(0.6, True), (0.6, False), (1.0, True), (1.0, False)]
    for entry in profile.optimal:
        assert entry.num_children == 8
        assert [prompt.num_positions for prompt in entry.prompts] == [11] * 4
        assert entry.mean().shape == (8,)
    by_rule = {(e.sampling.temperature, e.verifier): e for e in profile.acceptance}
    for entry in profile.optimal:
        rate = by_rule[entry.sampling.temperature, "chain"].mean()[0]
        assert entry.mean()[0] == pytest.approx(rate, abs=1e-6)


def test_an_interrupted_measurement_does_not_compute_it_again(tmp_path, monkeypatch):
    settings = Settings(samplings=(Sampling(temperature=1.0),), contexts=(3,), max_nodes=3,
                        num_tokens=7, num_ranks=3, repeats=2)  # fmt: skip
    arguments = Pair(table(0), table(1)), PROMPTS, settings
    before = measure_profile(*arguments, output=tmp_path / "p.json")

    def never(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(optimum_module, "optimal_with_replacement", never)
    after = measure_profile(*arguments, output=tmp_path / "p.json")
    assert after.optimal == before.optimal != []


def test_the_positions_chosen_are_evenly_spaced():
    assert evenly_spaced(5, 5) == [0, 1, 2, 3, 4]
    assert evenly_spaced(128, 3) == [21, 64, 106]
    assert evenly_spaced(7, 1) == [3]
    for num_positions in (1, 2, 7, 63, 100):
        for vocab_size in (1, 63, 1000, 100_000):
            chosen = evenly_spaced(num_positions, num_chosen(num_positions, vocab_size))
            assert len(set(chosen)) == len(chosen) >= num_positions / optimum_module.ONE_IN
            assert 0 <= chosen[0] <= chosen[-1] < num_positions


def test_texts_are_kept_apart(monkeypatch):
    """Texts of several lengths, some positions of each, worked off several texts at a time."""
    monkeypatch.setattr(optimum_module, "CHEAP_ELEMENTS", 4 * 7)
    monkeypatch.setattr(optimum_module, "MIN_ROWS", 6)
    optimum, texts = Optimum(), []
    for count in (9, 1, 4, 100):
        p, q = (torch.tensor(rows) for rows in rows_of("dense", 7, count))
        optimum.add(p, q)
        texts.append((p, q))
    piece = {"num_positions": np.array([9, 1, 4, 100])} | optimum.piece()
    independent, distinct = optimal_entries(piece, Sampling(temperature=1.0))
    assert [prompt.num_positions for prompt in independent.prompts] == [9, 1, 4, 100]
    assert [prompt.num_positions for prompt in distinct.prompts] == [4, 1, 4, 4]
    for (p, q), whole, some in zip(texts, independent.prompts, distinct.prompts, strict=True):
        chosen = evenly_spaced(len(p), some.num_positions)
        np.testing.assert_allclose(
            whole.acceptance, optimal_with_replacement(p, q, 7).mean(0), atol=1e-7
        )
        np.testing.assert_allclose(
            some.acceptance, optimal_without_replacement(p[chosen], q[chosen], 7).mean(0), atol=1e-7
        )
