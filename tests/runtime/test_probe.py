"""The probe passes models that compute trees and refuses those that overlook something."""

from __future__ import annotations

import pytest
import torch

from planner import PlannerError
from runtime import HuggingFaceModel, TableModel
from runtime.models import TESTED_FAMILIES
from runtime.probe import check_tree_passes
from tests.runtime.small_models import FAMILIES, small_model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", ["llama", "gemma"])
def test_a_right_model_passes(family, dtype):
    model = small_model(family, seed=7).to(dtype)
    check_tree_passes(HuggingFaceModel(model))
    model.to(torch.float32)


def test_a_table_passes():
    check_tree_passes(TableModel(torch.randn(13, 13, 13)))


class Blind(HuggingFaceModel):
    """Overlooks one of the things that a tree needs."""

    overlooked = ""

    def forward(self, tokens, positions, cache, visible=None, *, num_logits=None):
        if self.overlooked == "mask":
            visible = None
        if self.overlooked == "positions":
            positions = torch.arange(cache.length, cache.length + len(tokens))
        return super().forward(tokens, positions, cache, visible, num_logits=num_logits)

    def new_cache(self, capacity):
        cache = super().new_cache(capacity)
        if self.overlooked == "kept rows":
            cache.keep_rows = lambda prefix, rows: cache.rewind(prefix + len(rows))
        if self.overlooked == "anything":
            cache.update = None
        return cache

    def forward_batch(self, inputs):
        if self.overlooked == "other texts":
            inputs = [inputs[0]._replace(tokens=inputs[0].tokens + 1), *inputs[1:]]
        if self.overlooked == "rows wanted":
            return [each._replace(logits=each.logits[:1]) for each in super().forward_batch(inputs)]
        return super().forward_batch(inputs)


@pytest.mark.parametrize(
    "overlooked", ["mask", "positions", "kept rows", "anything", "other texts", "rows wanted"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_overlooks_something_is_refused_in_one_line(overlooked, dtype):
    model = Blind(small_model("llama", seed=8).to(dtype))
    check_tree_passes(model)
    model.overlooked = overlooked
    with pytest.raises(PlannerError, match="does not compute token trees") as caught:
        check_tree_passes(model)
    assert "\n" not in str(caught.value)
    model.module.to(torch.float32)


def test_the_families_called_tested_are_those_of_the_tests():
    assert set(TESTED_FAMILIES) == FAMILIES.keys()
