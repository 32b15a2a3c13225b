"""A head's file: what was saved comes back, and anything else is refused in one line."""

from __future__ import annotations

import json
import re
import struct

import pytest
import torch
from safetensors.torch import save_file

from planner import PlannerError
from planner.documents.head_card import HeadCard
from planner.documents.sampling import Sampling
from profiler.head_making import HeadSettings, make_head
from runtime.heads import file_sha256, load_card, load_head, save_head
from runtime.pair import Pair
from tests.runtime.heads_factory import random_texts, small_pair

SAMPLING = Sampling(temperature=0.7, top_k=20)
SETTINGS = HeadSettings(
    sampling=SAMPLING, num_texts=6, num_tokens=8, depth=2, epochs=1, batch_size=2
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(head, card, path of its file)."""
    head, card = make_head(Pair(*small_pair()), random_texts(4)[0], SETTINGS)
    path = tmp_path_factory.mktemp("made") / "head.safetensors"
    save_head(head, card, path)
    return head, card, path


def draft_info():
    return small_pair()[1].info


def refused(path, *wanted, **more) -> str:
    with pytest.raises(PlannerError) as caught:
        load_head(path, *wanted, **more)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def rewritten(path, to, change, weights=None):
    """A copy of the file with a changed metadata entry, and other bytes behind it."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = change(dict(header["__metadata__"]))
    text = json.dumps(header).encode()
    body = data[8 + length :] if weights is None else weights(data[8 + length :])
    to.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return to


def changed_card(**change):
    def of(metadata):
        return {"espalier": json.dumps(json.loads(metadata["espalier"]) | change)}

    return of


def test_what_was_saved_comes_back(made):
    head, card, path = made
    loaded = load_head(path, draft_info(), SAMPLING, file_sha256(path))
    hidden = torch.randn(5, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(loaded.scores(hidden), head.scores(hidden))
    assert torch.equal(loaded.probabilities(hidden), head.probabilities(hidden))
    assert loaded.shape == head.shape
    assert load_card(path) == card
    assert HeadCard.parse(card.model_dump(mode="json"), "card") == card


def test_the_card_says_where_the_head_comes_from(made):
    _, card, _ = made
    target, draft = small_pair()
    assert (card.target, card.draft) == (target.info, draft.info)
    assert card.sampling == SAMPLING
    assert card.data.num_prompts + card.data.held_out_prompts == 4
    assert card.data.num_texts + card.data.held_out_texts == 6
    assert card.data.num_tokens == 8 * card.data.num_texts
    assert card.machine.torch == torch.__version__
    assert len(card.losses) == (card.data.num_texts + 1) // 2


def test_saving_twice_writes_the_same_bytes(made, tmp_path):
    head, card, path = made
    save_head(head, card, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_head_for_another_draft_is_refused(made):
    line = refused(made[2], small_pair()[0].info)
    assert "trained for draft" in line
    assert "expected one for target" in line


@pytest.mark.parametrize(
    "other",
    [
        Sampling(temperature=0.7),
        Sampling(temperature=0.8, top_k=20),
        Sampling(temperature=0.7, top_k=20, top_p=0.9),
        Sampling(temperature=0),
    ],
    ids=str,
)
def test_a_head_for_other_sampling_is_refused(made, other):
    line = refused(made[2], draft_info(), other)
    assert f"trained for T=0.7 top-k=20, expected {other}" in line


def test_another_file_than_the_plans_is_refused(made):
    assert "which the plan was made with" in refused(made[2], sha256="0" * 64)


def test_a_missing_file_is_named(tmp_path):
    assert "no such file" in refused(tmp_path / "absent")
    assert "cannot be read" in refused(tmp_path)


@pytest.mark.parametrize("place", [0, 3, 100, 0.3, 0.9, -1])
def test_a_flipped_bit_is_seen(made, tmp_path, place):
    """Anywhere: in the length, the header, the metadata, the weights."""
    data = bytearray(made[2].read_bytes())
    at = int(place * len(data)) if isinstance(place, float) else place
    data[at] ^= 0x10
    (tmp_path / "head").write_bytes(data)
    refused(tmp_path / "head")


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.999])
def test_a_truncated_file_is_refused(made, tmp_path, share):
    data = made[2].read_bytes()
    (tmp_path / "head").write_bytes(data[: int(share * len(data))])
    assert "not a valid safetensors file" in refused(tmp_path / "head")


def test_files_of_something_else_are_refused(tmp_path):
    (tmp_path / "text").write_text('{"format": "plan"}')
    assert "not a valid safetensors file" in refused(tmp_path / "text")
    save_file({"a": torch.zeros(3)}, tmp_path / "weights")
    assert "safetensors file of something else" in refused(tmp_path / "weights")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "plan"}, "format: got 'plan'"),
        ({"version": 2}, "version: got 2"),
        ({"colour": "red"}, "colour: unknown key"),
        ({"sampling": {"temperature": -1}}, "sampling.temperature: got -1"),
        ({"shape": {"hidden_size": 32, "depth": 3}}, "for 3 blocks of 32"),
        ({"shape": {"hidden_size": 16, "depth": 2}}, "for 2 blocks of 16"),
        ({"weights_sha256": "0"}, "SHA-256 differs"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(made, tmp_path, change, words):
    path = rewritten(made[2], tmp_path / "head", changed_card(**change))
    assert words in refused(path)


def test_metadata_that_are_not_json_are_refused(made, tmp_path):
    path = rewritten(made[2], tmp_path / "head", lambda metadata: {"espalier": "{"})
    assert "not valid JSON" in refused(path)


def test_metadata_that_are_nested_without_end_are_refused(made, tmp_path):
    text = "[" * 100_000 + "]" * 100_000
    path = rewritten(made[2], tmp_path / "head", lambda metadata: {"espalier": text})
    assert "metadata: is nested too deeply" in refused(path)


@pytest.mark.parametrize("change", [{"hidden_size": 1 << 50}, {"depth": 10**18}])
def test_a_shape_that_finds_no_room_is_refused_by_the_weights(change, made, tmp_path):
    """Before a head of that shape is made."""
    shape = made[1].shape.model_dump() | change
    path = rewritten(made[2], tmp_path / "head", changed_card(shape=shape))
    assert "got shape" in refused(path)


def test_nothing_is_left_behind_where_nothing_can_be_written(made, tmp_path):
    head, card, _ = made
    with pytest.raises(PlannerError, match=re.escape("cannot be written")):
        save_head(head, card, tmp_path / "absent" / "head")
    assert list(tmp_path.iterdir()) == []
