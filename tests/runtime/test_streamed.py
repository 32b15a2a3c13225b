"""Layers that are read anew in every pass compute what they compute in memory."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch

from planner import PlannerError
from planner.cli.models import NamedPair
from runtime import Decoder, load_model
from runtime.embedded import load_tokenizer
from runtime.models import HuggingFaceModel
from runtime.streamed import GB, ReadLayer, StreamedLayers, placed
from tests.runtime.small_models import plan, small_model

pytest.importorskip("accelerate")
TEXT = torch.tensor([5, 9, 2, 14, 3, 77])


def saved(folder, family="llama", *, layers=6, dtype=torch.float32):
    model = small_model.__wrapped__(family, layers=layers, seed=3)
    model.to(dtype).save_pretrained(folder)
    return folder


def room(model, num_layers: int) -> float:
    """GB of so many of its layers, which are alike."""
    return num_layers * sum(w.nbytes for w in model.model.layers[0].parameters()) / GB


def logits(model):
    cache = model.new_cache(16)
    first = model.forward(TEXT[:2], torch.arange(2), cache)
    return torch.cat([first, model.forward(TEXT[2:], torch.arange(2, 6), cache)])


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt_neox"])
@pytest.mark.parametrize(
    ("kept_in", "dtype"),
    [(torch.float32, "float32"), (torch.float32, "bfloat16"), (torch.bfloat16, "float32")],
)
def test_passes_and_fingerprints_are_those_of_a_model_in_memory(tmp_path, family, kept_in, dtype):
    saved(tmp_path, family, dtype=kept_in)
    streamed = load_model(tmp_path, dtype=dtype, attention="sdpa", memory=0)
    assert streamed.attention == "sdpa, 6 of 6 layers read in each pass"
    whole = load_model(tmp_path, dtype=dtype, attention="sdpa")
    plain = HuggingFaceModel(whole.module)
    for _ in range(2):
        assert torch.equal(logits(streamed), logits(plain))
    assert streamed.info == whole.info


def test_an_output_layer_that_is_the_embedding_stays_it(tmp_path):
    model = small_model.__wrapped__("llama", seed=3)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    model.save_pretrained(tmp_path)
    streamed, whole = load_model(tmp_path, memory=0), load_model(tmp_path)
    assert streamed.module.lm_head.weight is streamed.module.model.embed_tokens.weight
    assert torch.equal(logits(streamed), logits(HuggingFaceModel(whole.module)))
    assert streamed.info == whole.info


@pytest.mark.parametrize(
    ("num_layers", "fit", "num_kept"),
    [(6, 0, 0), (6, 1, 0), (6, 2, 2), (6, 5, 4), (6, 6, None), (5, 0, 1), (5, 4, 3), (1, 0, None)],
)
def test_as_many_layers_are_kept_as_fit_and_an_even_number_is_read(num_layers, fit, num_kept):
    model = small_model("llama", layers=num_layers)
    found = placed(model.config, room(model, fit), torch.device("cpu"), torch.float32)
    assert (found and found.num_kept) == num_kept
    if found is not None:
        read = [f"model.layers.{place}" for place in range(num_kept, num_layers)]
        assert [name for name, place in found.modules.items() if place == "disk"] == read


def test_half_the_layers_kept_or_a_pass_broken_off_change_nothing(tmp_path, monkeypatch):
    saved(tmp_path)
    model = load_model(tmp_path, memory=room(small_model("llama"), 3))
    expected = logits(HuggingFaceModel(load_model(tmp_path).module))
    assert torch.equal(logits(model), expected)
    fails = model.module.model.layers[3].mlp
    with monkeypatch.context() as patch:
        patch.setattr(fails, "forward", lambda x: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            logits(model)
    assert torch.equal(logits(model), expected)


def test_memory_holds_two_layers_of_those_that_are_read(tmp_path):
    model = load_model(saved(tmp_path), memory=0).module
    places = {
        weight.untyped_storage().data_ptr(): weight.untyped_storage().nbytes()
        for weight in model.model.layers.parameters()
    }
    one = sum(weight.nbytes for weight in model.model.layers[0].parameters())
    assert len(places) == 2
    assert one <= max(places.values()) <= 1.1 * one


def test_a_text_is_the_same_and_commands_take_the_memory(tmp_path):
    names = [str(saved(tmp_path / role, layers=n)) for role, n in (("target", 6), ("draft", 2))]
    whole = [load_model(name, attention="sdpa") for name in names]
    texts = []
    for memory in (None, 0):
        target = load_model(names[0], memory=memory)
        decoder = Decoder.from_plan(plan([-1, 0, 0, 1]), target, whole[1])
        texts.append(decoder.generate([5, 9, 2], max_new_tokens=30).tokens)
    assert texts[0] == texts[1]
    pair = NamedPair(*names, "cpu", None, "sdpa", 1, target_memory=0)
    assert "6 of 6 layers read" in pair.load()[0].attention


def test_threads_take_turns_with_the_two_places(tmp_path):
    model = load_model(saved(tmp_path), memory=0)
    expected = logits(model)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda number: logits(model), range(40)))
    assert all(torch.equal(each, expected) for each in found)


@pytest.mark.parametrize("content", [None, b"short"], ids=["gone", "another"])
def test_a_file_that_is_replaced_meanwhile_is_read_as_it_was(tmp_path, content):
    model = load_model(saved(tmp_path), memory=0)
    expected = logits(model)
    path = tmp_path / "model.safetensors"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert torch.equal(logits(model), expected)


def test_a_pass_waits_for_its_weights_on_its_own_gpu_whichever_is_current(monkeypatch):
    waited = []

    class Stream:
        def __init__(self, device=None):
            self.device = device
            self.wait_stream = self.record_event = lambda *_: "read"
            self.wait_event = lambda event: waited.append((device, event))

    device = torch.device("cuda:1")
    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, Stream)
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    layer = torch.nn.Identity()
    read = ReadLayer(layer, {}, torch.empty(0))
    StreamedLayers([read], device)
    layer(torch.zeros(1))
    assert waited == [(device, "read")]


def test_a_draft_is_read_in_parts_in_its_targets_tokens(tmp_path):
    target, draft = saved(tmp_path / "target"), saved(tmp_path / "draft", layers=2)
    model = load_model(draft).module
    model.resize_token_embeddings(120, mean_resizing=False)
    model.save_pretrained(draft)
    for each in (target, draft):
        load_tokenizer().save_pretrained(each)
    streamed, whole = (load_model(draft, drafts_for=target, memory=each) for each in (0, None))
    assert streamed.vocab_size == load_model(target).vocab_size
    assert torch.equal(logits(streamed), logits(HuggingFaceModel(whole.module)))
    assert streamed.info == whole.info


def test_a_file_that_is_written_to_meanwhile_ends_a_pass_in_one_line(tmp_path):
    model = load_model(saved(tmp_path), memory=0)
    logits(model)  # the first layer has been read again, the second has not
    path = tmp_path / "model.safetensors"
    with path.open("r+b") as file:
        file.write(bytes(100))
    with pytest.raises(PlannerError, match="safetensors: was written to meanwhile; load the model"):
        logits(model)


def test_a_folder_that_is_saved_anew_is_read_as_it_is_now(tmp_path):
    first = load_model(saved(tmp_path), memory=0)
    logits(first)
    saved(tmp_path, dtype=torch.bfloat16)  # other weights, at other places of the file
    again, whole = (load_model(tmp_path, dtype="float32", memory=memory) for memory in (0, None))
    assert torch.equal(logits(again), logits(HuggingFaceModel(whole.module)))


def test_what_cannot_be_streamed_is_refused_in_one_line(tmp_path):
    saved(tmp_path)
    with pytest.raises(PlannerError, match="target memory: got dtype int8, expected one that"):
        load_model(tmp_path, memory=0, dtype="int8")
    for absurd in (math.nan, -1, "1"):
        with pytest.raises(PlannerError, match=f"target memory: got {absurd!r}, expected GB, 0"):
            load_model(tmp_path, memory=absurd)
    pair = NamedPair("embedded/target", "embedded/draft", "cpu", None, "sdpa", 1, None, 0.0)
    with pytest.raises(PlannerError, match="got embedded/target, which is made in memory"):
        pair.load()
