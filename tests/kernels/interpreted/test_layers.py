"""A layer's kernels between its products, interpreted, against torch."""

import pytest
import torch

from tests.kernels.interpreted.guarded import guarded_allocations
from tree_kernels import layers
from tree_kernels.layers import HeadTurns

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}
"""The interpreter cuts numbers of 16 bits off, where a GPU rounds."""
DTYPES = list(TOLERANCE)


def by_torch(monkeypatch):
    monkeypatch.setattr(layers, "unavailable", lambda device: "for once")


def assert_close(got, expected):
    error = (got.double() - expected.double()).abs().max() / expected.double().abs().max()
    assert error <= TOLERANCE[got.dtype]


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("num_features", [32, 80])
@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_are_torchs(dtype, num_features, added, monkeypatch):
    x, more, weight = (torch.randn(rows, num_features).to(dtype) for rows in (5, 5, 1))
    more, kept = more if added else None, x.clone()
    got = layers.add_and_norm(kept, more, weight[0], 1e-5)
    by_torch(monkeypatch)
    expected = layers.add_and_norm(x, more, weight[0], 1e-5)
    assert_close(got, expected)
    assert_close(kept, x)


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("head_dim", [8, 20])
@pytest.mark.parametrize("dtype", DTYPES)
def test_turned_heads_are_torchs_and_go_to_their_places(dtype, head_dim, normed, monkeypatch):
    weights = (torch.rand(head_dim).to(dtype), torch.rand(head_dim).to(dtype))
    heads = HeadTurns(4, 2, torch.randn(2, 30, head_dim), weights if normed else None, 1e-5)
    qkv = torch.randn(3, 8 * head_dim).to(dtype)
    positions, places = torch.tensor([7, 9, 29]), torch.tensor([11, 3, 0])
    store = torch.zeros((2, 2, 12, head_dim), dtype=dtype)
    other = store.clone()
    got = layers.turn_and_store(qkv.clone(), heads, positions, places, *store)
    by_torch(monkeypatch)
    expected = layers.turn_and_store(qkv, heads, positions, places, *other)
    assert got.shape == expected.shape == (3, 4, head_dim)
    assert_close(got, expected)
    assert_close(store, other)
    assert torch.equal(store[1], other[1])  # values are copied
    untouched = [place for place in range(12) if place not in places]
    assert not store[:, :, untouched].any()


@pytest.mark.parametrize("num_units", [7, 1500])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gates_are_torchs(dtype, num_units, monkeypatch):
    gate_up = (10 * torch.randn(3, 2 * num_units)).to(dtype)
    with guarded_allocations():
        got = layers.gated(gate_up)
    by_torch(monkeypatch)
    assert_close(got, layers.gated(gate_up))


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_gate_that_is_far_shut_lets_nothing_through():
    gate_up = torch.tensor([[-200.0, 200.0, 3.0, 2.0]])
    assert layers.gated(gate_up).tolist() == [[0.0, 400.0]]


@pytest.mark.parametrize("num_tokens", [1, 300, 9000])
@pytest.mark.parametrize("temperature", [1e-30, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_softened_logits_are_a_softmax(dtype, temperature, num_tokens, monkeypatch):
    """Torch's own, too, but float32 knows its quotients of 128 to 256 to 7.6e-6 only, and p (1 - p)
    of twice that is up to 3.8e-6."""
    logits = (20 * torch.randn(3, num_tokens)).to(dtype)[:, :num_tokens]
    logits[1, : num_tokens // 2] = -torch.inf
    assert layers.is_softened(logits)
    got = layers.softened(logits, temperature)
    assert got.dtype == torch.float32
    expected = (logits.double() / temperature).softmax(-1)
    assert (got - expected).abs().max() <= 1e-6
    by_torch(monkeypatch)
    assert (layers.softened(logits, temperature) - expected).abs().max() <= 1e-6 + 3.8e-6
    assert_close(got.sum(-1), torch.ones(3))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_no_number_stays_none():
    logits = torch.tensor([[1.0, torch.nan, 2.0], [1.0, torch.inf, 2.0]])
    assert layers.softened(logits, 1.0).isnan().all(dim=1).tolist() == [True, True]
