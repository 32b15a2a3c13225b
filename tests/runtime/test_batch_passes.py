"""One pass for several texts gives each the logits of a pass of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from planner import PlannerError
from runtime import (
    Decoder,
    HuggingFaceModel,
    LanguageModel,
    LookupBeside,
    as_language_model,
    attention,
    cache,
)
from runtime.compiled_pass import WholePass
from runtime.cores import FreeCores
from runtime.embedded import PAIRS, load_pair, load_prompts
from runtime.fused import FusedModel
from runtime.language_model import PassInput, answers, read_text
from runtime.llama_shape import FAMILIES as FUSED_FAMILIES
from tests.policies.settings import trees
from tests.runtime.small_models import POSITIONS, VOCABULARY, plan, small_model
from tests.runtime.test_fused import uneven
from tests.runtime.test_tree_passes import SERVED, assert_equal, random_tree
from tree_kernels.host.team import team_of

LENGTHS = (0, 9, 3, 0, 31)
"""Rows that the texts' caches hold before the pass."""
TREE = [-1, 0, 0, 0, 1, 1, 2, 4, 4, 7]


def asked_of(model: LanguageModel, *, hidden: bool = False) -> list[PassInput]:
    """Five texts: one from its start, whose logits nobody wants; a tree; a lone token; one from its
    start; another piece of a text."""
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 9)
    shapes = [
        (np.arange(12), None, 0),
        (9 + tree.depths.astype(np.int64), torch.from_numpy(tree.ancestors), None),
        (np.array([3]), None, 1),
        (np.arange(4), None, 3),
        (np.arange(31, 36), None, 2),
    ]
    inputs = []
    for length, (positions, visible, wanted) in zip(LENGTHS, shapes, strict=True):
        held = model.new_cache(2)
        if length > 0:
            read_text(model, rng.integers(VOCABULARY, size=length).tolist(), held, 0)
        tokens = torch.from_numpy(rng.integers(VOCABULARY, size=len(positions)))
        places = torch.from_numpy(positions)
        inputs.append(PassInput(model, tokens, places, held, visible, wanted, hidden))
    return inputs


def assert_as_alone(model: LanguageModel, *, hidden: bool = False) -> None:
    """The pass, and one behind it, by which its rows in the caches are seen."""
    together, apart = asked_of(model, hidden=hidden), asked_of(model, hidden=hidden)
    assert_same_answers(together, apart)
    assert_same_answers(*([next_token(asked) for asked in each] for each in (together, apart)))


def assert_same_answers(together: list[PassInput], apart: list[PassInput]) -> None:
    expected = [asked.answer() for asked in apart]
    for got, wanted, asked in zip(answers(together), expected, together, strict=True):
        assert got.logits.shape == wanted.logits.shape == (asked.num_wanted, VOCABULARY)
        if asked.num_wanted > 0:
            assert_equal(got.logits, wanted.logits)
        if asked.num_wanted > 0 and asked.hidden:
            assert_equal(got.hidden, wanted.hidden)


def next_token(asked: PassInput) -> PassInput:
    """A token behind some of what was read."""
    asked.cache.keep_rows(asked.cache.length - 4, [1, 3])
    end = torch.tensor([asked.cache.length])
    return asked._replace(tokens=torch.tensor([7]), positions=end, visible=None, num_logits=1)


@pytest.mark.parametrize(("family", "implementation"), SERVED)
def test_every_family_reads_for_many_texts_as_for_each(family, implementation):
    model = HuggingFaceModel(small_model(family, attention=implementation))
    assert_as_alone(model)
    assert_as_alone(model, hidden=True)


@pytest.mark.parametrize("row_counts", [(), range(41)])
@pytest.mark.parametrize("num_threads", [1, 2, 3])
@pytest.mark.parametrize("family", FUSED_FAMILIES)
def test_fused_passes_do_too(family, num_threads, row_counts, monkeypatch):
    """Passes in parts, and in one call, in which threads share the heads of all texts."""
    monkeypatch.setattr(FusedModel, "choose_ways", lambda self: None)
    monkeypatch.setattr(WholePass, "row_counts", row_counts)
    monkeypatch.setattr(WholePass, "team", team_of(num_threads))
    monkeypatch.setattr(FreeCores, "now", lambda self: num_threads)
    assert_as_alone(FusedModel(uneven(small_model(family))), hidden=True)


def test_look_up_beside_a_model_does_too():
    """The model's passes are one."""
    draft = FusedModel(small_model("llama"))
    asked = []
    draft.forward_batch = lambda inputs: (
        asked.append(len(inputs)) or FusedModel.forward_batch(draft, inputs)
    )
    assert_as_alone(LookupBeside(draft))
    assert asked == [5, 5]


def test_models_without_passes_for_many_texts_make_one_for_each():
    class Plain:
        def __init__(self) -> None:
            self.asked = 0

        def forward(self, *rows, num_logits):
            self.asked += 1
            return torch.tensor(self.asked)

    model = Plain()
    one = PassInput(model, torch.zeros(2), torch.zeros(2), None)
    assert [int(each.logits) for each in answers([one, one])] == [1, 2]


@pytest.mark.parametrize("wrong", ["mask", "caches"])
def test_texts_that_see_each_other_are_noticed(wrong, monkeypatch):
    """Wrong variants: one mask over all, or new rows in the neighbour's cache."""
    if wrong == "mask":
        monkeypatch.setattr(
            attention.torch,
            "block_diag",
            lambda *masks: _block_diag(*masks).logical_or_(_lower(masks)),
        )
    else:
        own = cache.CachesTogether.__init__

        def moved(self, caches, counts, *, apart):
            own(self, [*caches[1:], caches[0]], counts, apart=apart)

        monkeypatch.setattr(cache.CachesTogether, "__init__", moved)
    with pytest.raises((AssertionError, RuntimeError)):
        assert_as_alone(HuggingFaceModel(small_model("llama")))


_block_diag = torch.block_diag


def _lower(masks):
    """Everything left of the diagonal blocks: earlier texts' rows."""
    seen = torch.zeros((sum(each.shape[0] for each in masks), sum(each.shape[1] for each in masks)))
    row = column = 0
    for mask in masks:
        seen[row : row + len(mask), :column] = 1
        row, column = row + mask.shape[0], column + mask.shape[1]
    return seen.bool()


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("way", ["tree", "greedy"])
def test_greedy_texts_of_the_embedded_pair_are_those_of_each_alone(pair, way):
    """Five prompts of different lengths, three at a time."""
    try:
        target, draft = (as_language_model(model) for model in load_pair(pair))
    except (PlannerError, OSError) as error:
        pytest.skip(f"the pair is not there: {error}")
    made = plan(TREE)
    if way == "greedy":
        made = made.model_copy(update={"drafting": trees(8, 3)["greedy"]})
    decoder = Decoder.from_plan(made, target, draft)
    prompts = [prompt[: 10 + 13 * place] for place, prompt in enumerate(load_prompts()[:5])]
    limits = [24, 9, 16, 1, 20]
    together = decoder.generate_batch(prompts, max_new_tokens=limits, max_rows=3)
    for generation, prompt, limit in zip(together, prompts, limits, strict=True):
        alone = decoder.generate(prompt, max_new_tokens=limit)
        assert generation.tokens == alone.tokens


@pytest.mark.parametrize("implementation", ["sdpa", "eager", "tree"])
def test_greedy_texts_of_transformers_passes_are_those_of_each_alone(implementation):
    target, draft = (
        HuggingFaceModel(small_model("llama", seed=seed, attention=implementation))
        for seed in (0, 1)
    )
    decoder = Decoder.from_plan(plan(TREE), target, draft)
    prompts = [[11, 42, 7], [3], [19] * 30]
    for generation, prompt in zip(
        decoder.generate_batch(prompts, max_new_tokens=20), prompts, strict=True
    ):
        assert generation.tokens == decoder.generate(prompt, max_new_tokens=20).tokens


def test_positions_may_be_used_up_in_a_batch():
    target = as_language_model(small_model("llama"))
    decoder = Decoder.from_plan(plan(TREE), target, target)
    whole = [3] * (POSITIONS - 2)
    got = decoder.generate_batch([whole, [3]], max_new_tokens=[2, 9])
    assert [len(each.tokens) for each in got] == [2, 9]


@torch.inference_mode()
def test_another_threads_hidden_states_are_left_to_it():
    """The first pass waits amid itself for the second, on another thread, to end."""
    module = small_model.__wrapped__("llama", seed=1)
    model = HuggingFaceModel(module)
    rows = torch.arange(3)
    told = [PassInput(model, rows + first, rows, model.new_cache(3)) for first in (0, 5)]

    def meanwhile(*_):
        hook.remove()
        with ThreadPoolExecutor(1) as other:
            other.submit(model.forward_batch, told[1:]).result()

    hook = module.model.norm.register_forward_pre_hook(meanwhile)
    (found,) = model.forward_batch(told[:1])
    torch.testing.assert_close(module.lm_head(found.hidden), found.logits)
