"""Fused passes compute what transformers' modules compute."""

from __future__ import annotations

import copy
import logging
import signal
import types

import numpy as np
import pytest
import torch
from torch.nn.functional import linear
from transformers import PreTrainedModel

from runtime import (
    HuggingFaceModel,
    LanguageModel,
    as_language_model,
    compiled_pass,
    fused_rows,
    packed,
    short_weights,
)
from runtime import fused as fused_passes
from runtime.cache import RowCache
from runtime.compiled_pass import MOST_ON_TILES, MOST_ROWS, WholePass
from runtime.cores import FreeCores
from runtime.fused import FusedModel, fused, is_fusable
from runtime.fused_rows import CompiledRows
from runtime.language_model import PassInput
from runtime.llama_shape import FAMILIES as FUSED_FAMILIES
from runtime.packed import can_pack, packed_product
from runtime.short_weights import to_eight_bits
from tests.runtime.small_models import VOCABULARY, small_model
from tests.runtime.test_tree_passes import assert_equal, random_tree
from tree_kernels.host.team import ALONE, team_of
from tree_kernels.host.tile_code import allowed
from tree_kernels.host.tiles import BLOCK, TILED_BFLOAT16

OTHERS = {
    "as many keys as queries": {"num_key_value_heads": 4},
    "a bias of queries, keys and values": {"model_type": "qwen2"},
    "llama 3's rotations": {
        "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
        }
    },
    "tied embeddings": {"tie_word_embeddings": True},
    "bfloat16": {"dtype": "bfloat16"},
}  # fmt: skip


def uneven(model: PreTrainedModel) -> PreTrainedModel:
    """A copy whose norms are not all ones and whose biases not all zeros."""
    copied = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in copied.parameters():
            if weight.ndim == 1:
                weight += 0.3 * torch.randn(weight.shape, generator=generator).to(weight.dtype)
    return copied


def changed(family: str, **settings: object) -> PreTrainedModel:
    model = small_model(str(settings.pop("model_type", family)))
    dtype = getattr(torch, str(settings.pop("dtype", "float32")))
    config = type(model.config)(**{**model.config.to_dict(), **settings})
    config._attn_implementation = "sdpa"
    torch.manual_seed(1)
    return uneven(type(model)(config).eval().to(dtype))


def logits_and_hidden(model: LanguageModel) -> list[torch.Tensor]:
    """Both of a text from its start, of another piece, a tree behind, and behind its kept path."""
    rng = np.random.default_rng(0)
    tree, cache = random_tree(rng, 9), model.new_cache(3)
    found = []
    for tokens, positions, visible, wanted in (
        (rng.integers(VOCABULARY, size=70), np.arange(70), None, 3),
        (rng.integers(VOCABULARY, size=5), np.arange(70, 75), None, None),
        (rng.integers(VOCABULARY, size=9), 75 + tree.depths, tree.ancestors, None),
        (rng.integers(VOCABULARY, size=1), np.array([77]), None, 1),
    ):
        found += passed(model, tokens, positions, cache, visible, wanted)
        if visible is not None:
            cache.keep_rows(75, [0, 1])
    return found


def logits_and_hidden_of_few(model: LanguageModel) -> list[torch.Tensor]:
    """Both of passes over few rows behind a text: a tree, two of which none sees the other, two
    that nobody asks for, and one."""
    rng = np.random.default_rng(0)
    tree, cache = random_tree(rng, 7), model.new_cache(3)
    found = []
    for tokens, positions, visible, wanted in (
        (rng.integers(VOCABULARY, size=30), np.arange(30), None, 1),
        (rng.integers(VOCABULARY, size=7), 30 + tree.depths, tree.ancestors, None),
        (rng.integers(VOCABULARY, size=2), np.array([34, 34]), np.eye(2, dtype=bool), 1),
        (rng.integers(VOCABULARY, size=2), np.array([35, 36]), None, 0),
        (rng.integers(VOCABULARY, size=1), np.array([37]), None, 1),
    ):
        found += passed(model, tokens, positions, cache, visible, wanted)
    return found


def passed(
    model: LanguageModel,
    tokens: np.ndarray,
    positions: np.ndarray,
    cache: RowCache,
    visible: np.ndarray | None,
    wanted: int | None,
) -> list[torch.Tensor]:
    """Logits and hidden states of a pass, where any are wanted."""
    where = torch.from_numpy(positions.astype(np.int64))
    seen = None if visible is None else torch.from_numpy(visible)
    ids = torch.from_numpy(tokens)
    read = model.forward_with_hidden(ids, where, cache, seen, num_logits=wanted)
    return [each for each in read if len(each)]


@pytest.fixture(
    params=["in one call", "by three threads", "in parts", "attention compiled",
            "attention by torch", "all by torch"]
)  # fmt: skip
def way(request, monkeypatch):
    """The ways to compute a pass: few rows in one call or in parts, and what is between these."""
    in_one_call = request.param in ("in one call", "by three threads")
    monkeypatch.setattr(
        WholePass, "row_counts", fused_passes.ALL if in_one_call else fused_passes.NONE
    )
    monkeypatch.setattr(WholePass, "team", team_of(3) if "three" in request.param else ALONE)
    monkeypatch.setattr(FreeCores, "now", lambda self: 3)
    monkeypatch.setattr(FusedModel, "choose_ways", lambda self: None)
    if request.param == "all by torch":
        monkeypatch.setattr(fused_rows, "CompiledRows", fused_rows.TorchRows)
    if request.param.startswith("attention"):
        monkeypatch.setattr(fused_rows, "MOST_SEEN", 2**30 if "compiled" in request.param else 0)


@pytest.mark.parametrize("entries_worth_packing", [0, packed.ENTRIES_WORTH_PACKING])
@pytest.mark.parametrize("family", FUSED_FAMILIES)
@pytest.mark.usefixtures("way")
def test_every_family_gets_the_logits_of_its_own_modules(
    family, entries_worth_packing, monkeypatch
):
    monkeypatch.setattr(packed, "ENTRIES_WORTH_PACKING", entries_worth_packing)
    assert_computed_by_fused(uneven(small_model(family)))


@pytest.mark.parametrize("settings", OTHERS.values(), ids=OTHERS)
@pytest.mark.usefixtures("way")
def test_other_configurations_do_too(settings):
    model = changed("llama", **settings)
    if not can_pack(model.dtype, 0):
        pytest.skip(f"this processor multiplies no {model.dtype}")
    assert is_fusable(model)
    assert_computed_by_fused(model)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.usefixtures("way")
def test_models_saved_in_16_bits_do_too(dtype):
    """Their weights are read so, in 32 bits they are the same numbers."""
    model = uneven(small_model("qwen3")).to(dtype).float()
    assert_computed_by_fused(model)
    kept = FusedModel(model)._whole._kept
    assert dtype in {each.entries.dtype for each in kept}


@pytest.mark.parametrize("eight_bits", [False, True])
@pytest.mark.usefixtures("way")
def test_models_whose_weights_fill_tiles_do_too(eight_bits):
    """They are multiplied on the processor's, where it has any."""
    model = changed("qwen3", hidden_size=128, intermediate_size=192, vocab_size=2 * BLOCK)
    if eight_bits:
        to_eight_bits(model)
    else:
        model = model.bfloat16().float()
    assert_computed_by_fused(model)
    tiled = {each.written_as >= TILED_BFLOAT16 for each in FusedModel(model)._whole._kept}
    assert allowed() in tiled


@pytest.mark.parametrize("family", FUSED_FAMILIES)
@pytest.mark.usefixtures("way")
def test_models_rounded_to_8_bits_do_too(family):
    """The logits are those of transformers' modules with the same rounded weights."""
    model = uneven(small_model(family))
    to_eight_bits(model)
    assert_computed_by_fused(model)
    quick = FusedModel(model)
    assert torch.int8 in {each.entries.dtype for each in quick._whole._kept}
    assert quick.dtype == "int8"


def assert_computed_by_fused(model: PreTrainedModel) -> None:
    """Its own dtype, beside transformers' modules, in 64 bits where its dtype has 32."""
    exact, rounding, asked = model, 0.03, [logits_and_hidden]  # 8 bits, over four rounded layers
    if model.dtype == torch.float32:
        exact, rounding = copy.deepcopy(model).double(), 4e-6  # 32 units of the last of 23 bits
        asked.append(logits_and_hidden_of_few)
    for of in asked:
        expected = of(HuggingFaceModel(exact))
        for got, wanted in zip(of(FusedModel(model)), expected, strict=True):
            assert got.shape == wanted.shape
            assert (got - wanted).abs().max() <= rounding * wanted.abs().max()


def test_the_module_stays_as_it_was():
    model = uneven(small_model("qwen3"))
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    served = FusedModel(model)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name])
    assert served.info.fingerprint == HuggingFaceModel(model).info.fingerprint


@pytest.mark.parametrize("num_rows", [1, 3, 4, 9])
@pytest.mark.parametrize("fewest", [1, packed.FULL_ROWS])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_products_are_products(num_rows, fewest, bias, monkeypatch):
    monkeypatch.setattr(packed, "fewest_rows", lambda dtype: fewest)
    generator = torch.Generator().manual_seed(num_rows)
    weight, x, shift = (
        torch.randn(shape, generator=generator) for shape in ((7, 5), (num_rows, 5), (7,))
    )
    shift = shift if bias else None
    assert_equal(packed_product(weight, shift)(x), linear(x, weight, shift))


@pytest.mark.parametrize(
    ("dtype", "why"), [(torch.float64, "a dtype oneDNN has not"), (torch.float32, "no room")]
)
def test_what_cannot_be_packed_is_left_to_transformers(dtype, why, monkeypatch):
    if why == "no room":
        little = types.SimpleNamespace(available=1000)
        monkeypatch.setattr(packed.psutil, "virtual_memory", lambda: little)
    assert type(as_language_model(small_model("llama").to(dtype))) is HuggingFaceModel


def test_a_forgotten_norm_is_caught_and_transformers_passes_are_taken(monkeypatch, caplog):
    attended = CompiledRows.attended
    monkeypatch.setattr(CompiledRows, "attended", lambda *most: attended(*most[:-1], None))
    with caplog.at_level(logging.WARNING):
        served = fused(uneven(small_model("qwen3")), name="mine")
    assert type(served) is HuggingFaceModel
    assert "mine: passes of transformers" in caplog.text


@pytest.mark.parametrize("num_rows", [1, 5])
def test_a_pass_in_one_call_that_is_wrong_is_caught_as_well(num_rows, monkeypatch):
    """It is wrong for so many rows alone."""
    right = compiled_pass.fill_logits

    def wrong(rows, *others):
        right(rows, *others)
        for each in (rows.logits, rows.hidden):
            each *= np.float32(1.01 if len(rows.x) == num_rows else 1)

    monkeypatch.setattr(FusedModel, "choose_ways", lambda self: None)
    assert type(fused(uneven(small_model("llama")))) is FusedModel
    monkeypatch.setattr(compiled_pass, "fill_logits", wrong)
    assert type(fused(uneven(small_model("llama")))) is HuggingFaceModel


def test_an_interruption_amid_a_pass_comes_out_as_one(monkeypatch):
    """A signal that comes while compiled code runs is seen behind it, by whoever interprets first.
    As long as that was numba, every other one was lost in a SystemError."""
    monkeypatch.setattr(FusedModel, "choose_ways", lambda self: None)
    model = fused(copy.deepcopy(small_model("llama", hidden=512)))
    tokens = torch.zeros(1, dtype=torch.long)

    def passes_until(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while True:
            model.forward(tokens, tokens, model.new_cache(8))

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for number in range(30):
            with pytest.raises(KeyboardInterrupt):
                passes_until(0.01 + number / 9e3)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "settings",
    [{"mlp_bias": True}, {"attention_bias": True}, {"hidden_act": "gelu"},
     {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}],
    ids=["bias of the MLP", "bias of the output", "gelu", "rotations that move"],
)  # fmt: skip
def test_what_fused_passes_do_not_know_is_left_to_transformers(settings):
    assert type(as_language_model(changed("llama", **settings))) is HuggingFaceModel


@pytest.mark.parametrize("attention", ["eager", "tree"])
def test_attention_that_was_asked_for_is_left_to_transformers(attention):
    model = small_model("llama", attention=attention)
    assert type(as_language_model(model)) is HuggingFaceModel


def test_documents_say_that_passes_were_fused():
    assert as_language_model(small_model("llama")).attention == "sdpa, fused"
    assert as_language_model(small_model("gemma")).attention == "sdpa"


@pytest.mark.parametrize(("dtype", "most"), [("bfloat16", MOST_ON_TILES), ("float32", MOST_ROWS)])
def test_more_rows_may_be_in_one_call_where_all_products_are_on_tiles(dtype, most, monkeypatch):
    """Else passes over more than those are always made in one way, and give the same each time."""
    monkeypatch.setattr(short_weights, "allowed", lambda: True)
    settings = {"hidden_size": 128, "intermediate_size": 192, "vocab_size": 128, "head_dim": 32}
    model = changed("llama", dtype=dtype, **settings).float()
    assert WholePass(model, 1e-6).most_rows == most


@pytest.mark.parametrize(
    "quick",
    [range(0), range(1, 3), range(1, 40), range(1, 99), {1, *range(6, 50)}, range(2, 256)],
    ids=str,
)
@pytest.mark.parametrize("most_rows", [MOST_ROWS, MOST_ON_TILES])
def test_passes_are_made_in_one_call_where_that_is_faster(most_rows, quick, monkeypatch):
    """The clock says here of which numbers of rows it is: up to a quarter of them the model knows,
    of some three it does not."""
    model = FusedModel(small_model("llama"))
    whole = model._whole
    assert whole.most_rows == MOST_ROWS
    whole.most_rows = most_rows

    def seconds(num_rows):
        return 1.0 + (len(whole.row_counts) > 0) * (-0.5 if num_rows in quick else 1)

    monkeypatch.setattr(model, "_seconds", seconds)
    model.choose_ways()
    assert max(whole.row_counts, default=0) <= most_rows
    for number in range(1, most_rows + 1):
        near = {number, *range(round(0.8 * number), round(1.25 * number) + 1)}
        if len(near & {*quick}) in (0, len(near)):
            assert (number in whole.row_counts) == (number in quick)


def test_numbers_beyond_two_that_are_slower_are_not_asked_about(monkeypatch):
    model, asked = FusedModel(small_model("llama")), set()
    whole = model._whole

    def seconds(num_rows):
        asked.add(num_rows)
        return 1.0 + (len(whole.row_counts) > 0 and num_rows > 1)

    monkeypatch.setattr(model, "_seconds", seconds)
    model.choose_ways()
    assert whole.row_counts == {1}
    assert asked == {1, 2, 3, 7}


@pytest.mark.parametrize("gain", [-1, 1])
def test_as_many_threads_as_torch_has_or_one_by_the_clock(gain, monkeypatch):
    """The clock is asked again once torch has another number of them."""
    model, asked = FusedModel(small_model("llama")), []
    model._threads_timed = 0
    monkeypatch.setattr(
        fused_passes, "team_of", lambda num_threads: ALONE._replace(size=num_threads)
    )
    monkeypatch.setattr(WholePass, "read", lambda self, *_: asked.append(self.team.size))
    monkeypatch.setattr(model, "_seconds", lambda num_rows: 9 - gain * model._whole.team.size)
    for num_threads in (4, 4, 3, 1):
        monkeypatch.setattr(fused_passes.torch, "get_num_threads", lambda found=num_threads: found)
        model._read([PassInput(model, torch.zeros(1, dtype=torch.int64), None, model.new_cache(1))])
    assert asked == ([4, 4, 3, 1] if gain > 0 else [1] * 4)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_team_gets_what_one_thread_gets_to_the_last_bit(size, monkeypatch):
    """Two heads of keys, so that some threads have none."""
    monkeypatch.setattr(FusedModel, "choose_ways", lambda self: None)
    model = FusedModel(uneven(small_model("qwen3")))
    alone = logits_and_hidden_of_few(model)
    monkeypatch.setattr(WholePass, "team", team_of(size))
    monkeypatch.setattr(FreeCores, "now", lambda self: size)
    for got, expected in zip(logits_and_hidden_of_few(model), alone, strict=True):
        assert torch.equal(got, expected)


def test_the_clock_times_a_pass_of_so_many_rows(monkeypatch):
    model, seen = FusedModel(small_model("llama")), []

    monkeypatch.setattr(model, "_read", lambda inputs, **_: seen.extend(inputs))
    assert model._seconds(2) > 0
    (asked,) = seen
    assert (asked.tokens.tolist(), asked.positions.tolist()) == ([0, 0], [fused_passes.SEEN] * 2)
    assert asked.cache.length == fused_passes.SEEN
