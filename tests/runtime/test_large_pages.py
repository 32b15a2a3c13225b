"""What lies in large pages is what lay elsewhere."""

from __future__ import annotations

import mmap

import pytest
import torch

from runtime import as_language_model
from runtime.large_pages import PAGE, large_zeros
from tests.runtime.small_models import small_model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("shape", [(0, 3), (3, 5), (3, PAGE), (7, PAGE // 4 + 1)])
def test_they_are_zeros_of_the_shape_that_is_asked_for(shape, dtype):
    made = large_zeros(shape, dtype)
    assert torch.equal(made, torch.zeros(shape, dtype=dtype))
    made.fill_(1)  # all of it may be written
    assert made.sum(dtype=torch.int64) == made.numel()


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system has no large pages")
def test_they_begin_where_a_large_page_does():
    assert large_zeros((PAGE + 1,), torch.int8).data_ptr() % PAGE == 0


def test_a_system_without_them_has_others(monkeypatch):
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert torch.equal(large_zeros((2, PAGE), torch.int8), torch.zeros((2, PAGE)).to(torch.int8))


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system has no large pages")
def test_nor_does_one_fail_that_has_none_to_give(monkeypatch):
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 10_000)  # no such advice: the system refuses
    assert large_zeros((PAGE,), torch.int8).shape == (PAGE,)


def test_a_models_weights_move_there_and_stay_what_they_are():
    """Those that are tied stay tied: nothing is kept twice."""
    model = small_model("llama")
    before = {name: each.clone() for name, each in model.state_dict().items()}
    fused = as_language_model(model)
    assert fused.attention.endswith("fused")
    after = model.state_dict()
    assert all(torch.equal(after[name], each) for name, each in before.items())
    weights = fused._whole._kept
    assert weights[0].entries.data_ptr() == model.model.layers[0].self_attn.q_proj.weight.data_ptr()
    assert weights[-1].entries.data_ptr() == model.get_output_embeddings().weight.data_ptr()
    storages = {each.entries.untyped_storage().data_ptr() for each in weights}
    assert len(storages) == 1
