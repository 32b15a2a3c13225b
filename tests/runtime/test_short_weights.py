"""Weights are read in fewer bits where these hold them, and rounded where that is asked for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from planner.documents.document import PlannerError
from runtime import load_model, short_weights
from runtime.short_weights import TILED_AS, WRITTEN_AS, in_eight_bits, shortest, to_eight_bits
from tests.runtime.small_models import small_model
from tree_kernels.host.tiles import in_tiles


def uneven(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def test_weights_are_kept_as_they_are_where_fewer_bits_do_not_hold_them():
    exact = torch.ones((8, 32))
    exact[3, 5] = 1 + 2**-9
    assert shortest(exact).entries.dtype == torch.float16
    exact[3, 5] = 1 + 2**-12
    assert shortest(exact).entries is exact
    exact[3, 5:7] = torch.tensor([2.0**17, 3.0])
    assert shortest(exact).entries.dtype == torch.bfloat16
    exact[3, 5] = torch.nan
    assert shortest(exact).entries is exact


@pytest.mark.parametrize("shape", [(8, 24), (7, 32)])
def test_products_read_no_short_weights_of_odd_shapes(shape):
    assert shortest(torch.ones(shape)).entries.dtype == torch.float32


def test_rounded_rows_are_whole_numbers_times_a_scale():
    layer = nn.Linear(32, 8, bias=False)
    before = uneven(8, 32) * torch.logspace(-20, 3, 8)[:, None]
    before[2] = 0
    layer.weight.data.copy_(before)
    assert not in_eight_bits(layer)
    to_eight_bits(layer)
    assert in_eight_bits(layer)
    entries, scales, _ = shortest(layer.weight.detach())
    assert entries.dtype == torch.int8
    assert torch.equal(entries * scales[:, None], layer.weight)
    assert entries.abs().amax(-1).tolist() == [127, 127, 0, 127, 127, 127, 127, 127]
    assert ((layer.weight - before).abs() <= 0.51 * before.abs().amax(-1, keepdim=True) / 127).all()
    again = layer.weight.clone()
    to_eight_bits(layer)
    assert torch.equal(layer.weight, again)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8], ids=str)
@pytest.mark.parametrize("shape", [(128, 64), (48, 64), (64, 48)], ids=str)
def test_weights_lie_in_the_order_of_tiles_where_there_are_any(dtype, shape, monkeypatch):
    weight = torch.randint(-127, 127, shape, generator=torch.Generator().manual_seed(0)).float()
    weight[:, 0] = {torch.bfloat16: 2.0**20, torch.float16: 1 + 2**-9, torch.int8: 127.0}[dtype]
    as_it_was = shortest_where(monkeypatch, tiles=False, weight=weight)
    assert (as_it_was.entries.dtype, as_it_was.written_as) == (dtype, WRITTEN_AS[dtype])
    in_order = shortest_where(monkeypatch, tiles=True, weight=weight)
    if shape == (128, 64) and dtype != torch.float16:
        bits = torch.int8 if dtype == torch.int8 else torch.int16
        assert in_order.written_as == TILED_AS[dtype]
        entries = as_it_was.entries.view(bits).numpy()
        assert (in_order.entries.view(bits).numpy().reshape(-1) == in_tiles(entries)).all()
    else:
        assert in_order.written_as == as_it_was.written_as
        assert torch.equal(in_order.entries, as_it_was.entries)


def shortest_where(monkeypatch: pytest.MonkeyPatch, *, tiles: bool, weight: torch.Tensor):
    monkeypatch.setattr(short_weights, "allowed", lambda: tiles)
    return shortest(weight)


def test_a_model_is_rounded_when_it_is_loaded(tmp_path):
    small_model("llama").save_pretrained(tmp_path)
    assert load_model(tmp_path).dtype == "float32"
    model = load_model(tmp_path, dtype="int8")
    assert model.dtype == "int8"
    assert in_eight_bits(model.module)


def test_one_that_our_passes_do_not_serve_is_refused(tmp_path):
    small_model("gpt2").save_pretrained(tmp_path)
    with pytest.raises(PlannerError, match="got int8 for a gpt2 model on cpu, expected one of"):
        load_model(tmp_path, dtype="int8")
