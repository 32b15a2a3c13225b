"""A draft of another padding, or of another tokenizer, drafts in the target's tokens."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from planner import PlannerError
from planner.cli.models import NamedPair
from runtime import Decoder, as_language_model, load_model
from runtime.vocabulary import Match, Tokens, matched, refit
from tests.runtime.small_models import VOCABULARY, plan, small_model

TEXTS = "the cat sat on the mat and the dog sat by the cat", "def total(values): return sum(values)"


@cache
def byte_level(text: str, num_tokens: int = 290) -> PreTrainedTokenizerFast:
    """Byte pairs learned from a text: those of another have other numbers."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=num_tokens, special_tokens=["<|end|>"], initial_alphabet=alphabet,
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator([text], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")


def pieces() -> PreTrainedTokenizerFast:
    """As SentencePiece writes tokens, single bytes among them."""
    words = ["</s>", "<0x0A>", "<0x61>", "a", "t", "th", "the", "\u2581the", "\u2581", "é"]
    vocabulary = [(word, -float(rank)) for rank, word in enumerate(words)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


def tokens(ids: dict[str, int], vocab_size: int, special: tuple[int, ...] = ()) -> Tokens:
    return Tokens(ids, frozenset(special), (None, None), vocab_size)


def test_the_same_tokenizer_padded_otherwise_leaves_every_row_where_it_is():
    same = byte_level(TEXTS[0])
    for mine, its in ((300, 320), (320, 300), (300, 300)):
        found = matched(Tokens.of(same, mine), Tokens.of(same, its), same)
        assert found.is_shared.tolist() == [token < its for token in range(mine)]
        assert found.rows[: min(mine, its)].tolist() == list(range(min(mine, its)))
        assert found.is_plain(its) == (mine == its)


def test_tokens_of_another_tokenizer_are_those_of_the_same_text():
    target, draft = (byte_level(text) for text in TEXTS)
    found = matched(Tokens.of(target, 300), Tokens.of(draft, 300), draft)
    names, own = target.get_vocab(), draft.get_vocab()
    assert not found.is_plain(300)
    for text, token in names.items():
        assert found.is_shared[token] == (text in own)
        assert int(found.rows[token]) == own.get(text, draft.encode(target.decode([token]))[-1])


def test_what_byte_level_and_sentencepiece_write_differently_is_one_token():
    target, draft = byte_level(TEXTS[0]), pieces()
    found = matched(Tokens.of(target, 290), Tokens.of(draft, 10), draft)
    names, own = target.get_vocab(), draft.get_vocab()
    pairs = {"\u0120the": "\u2581the", "\u0120": "\u2581", "\u010a": "<0x0A>", "a": "a"}
    for mine, its in {**pairs, "<|end|>": "</s>"}.items():
        assert found.is_shared[names[mine]], mine
        assert found.rows[names[mine]] == own[its], mine
    assert not found.is_shared[names["z"]]
    back = matched(Tokens.of(draft, 10), Tokens.of(target, 290), target)
    assert back.rows[own["<0x61>"]] == back.rows[own["a"]] == names["a"]
    assert back.is_shared[[own["a"], own["<0x61>"], own["<0x0A>"]]].tolist() == [True, False, True]
    assert not back.is_shared[own["é"]]  # of two bytes there, of which the last is read
    assert back.rows[own["é"]] == names["\u00a9"]


def test_special_tokens_of_one_number_are_the_same_unless_they_are_elsewhere():
    reasoning = tokens({"a": 0, "<think>": 1, "<user>": 2, "<end>": 3}, 6, (1, 2, 3))
    base = tokens({"a": 0, "<box>": 1, "<end>": 2}, 6, (1, 2))
    found = matched(reasoning, base, byte_level(TEXTS[0]))
    assert found.rows.tolist() == [0, 1, 0, 2, 4, 5]
    assert found.is_shared.tolist() == [True, True, False, True, True, True]


def test_a_token_of_the_draft_is_proposed_as_one_of_the_targets():
    own = Tokens({"a": 0, "</s>": 1, "<|end|>": 2}, frozenset({1, 2}), (None, 2), 3)
    other = Tokens({"a": 0, "</s>": 1}, frozenset({1}), (None, 1), 2)
    found = matched(own, other, byte_level(TEXTS[0]))
    assert found.rows.tolist() == [0, 1, 1]
    assert found.is_shared.tolist() == [True, False, True]


def test_a_letter_of_maltese_makes_no_vocabulary_one_of_bytes():
    names = {"\u0120": 0, "\u2581the": 1, "\u2581": 2, "é": 3}
    assert tokens(names, 4).spellings() == {0: "Ġ".encode(), 1: b" the", 2: b" ", 3: "é".encode()}


def test_a_draft_with_more_rows_than_the_target_may_have_its_padding_behind_them():
    model = small_model.__wrapped__("llama", seed=5)
    model.model.embed_tokens.padding_idx = 90
    refit(model, Match(torch.arange(80), torch.ones(80, dtype=torch.bool)))
    narrow = as_language_model(model)
    assert narrow.forward(torch.tensor([3]), torch.arange(1), narrow.new_cache(1)).shape == (1, 80)


def shuffled() -> Match:
    """More rows than the model has, in another order, a few of which are none of its own."""
    found = torch.randperm(VOCABULARY + 31, generator=torch.Generator().manual_seed(0))
    return Match(found.clamp(max=VOCABULARY - 1), found < VOCABULARY)


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_neox", "gpt2"])
def test_a_refitted_model_has_the_law_of_the_tokens_that_are_shared(family):
    attention = "eager" if family == "gemma2" else "sdpa"  # which caps logits: a cap of 30 remains
    plain = as_language_model(small_model(family, seed=5, attention=attention))
    found, text = shuffled(), torch.tensor([3, 14, 15, 92, 65])
    model = small_model.__wrapped__(family, seed=5, attention=attention)
    refit(model, found)
    refitted = as_language_model(model)
    assert refitted.vocab_size == refitted.info.vocab_size == VOCABULARY + 31
    assert refitted.info.matched_from == {"vocab_size": VOCABULARY, "shared": VOCABULARY}
    places, own = torch.arange(5), torch.argsort(found.rows + 1000 * ~found.is_shared)[text]
    law = refitted.forward(own, places, refitted.new_cache(8)).double().softmax(-1)
    expected = plain.forward(text, places, plain.new_cache(8)).double().softmax(-1)
    torch.testing.assert_close(law[:, found.is_shared], expected[:, found.rows[found.is_shared]])
    assert law[:, ~found.is_shared].sum() < (1e-6 if family == "gemma2" else 1e-300)


def test_the_embeddings_of_a_refitted_model_stay_its_output_layer():
    model = small_model.__wrapped__("llama", seed=5)
    model.lm_head.weight = model.model.embed_tokens.weight
    refit(model, shuffled())
    assert model.lm_head.weight is model.model.embed_tokens.weight


def saved(folder, *, vocab_size: int, text: str | None, seed: int):
    """A small model's folder, with a tokenizer that learned from `text`, if any."""
    model = small_model.__wrapped__("llama", seed=seed)
    model.resize_token_embeddings(vocab_size, mean_resizing=False)
    model.save_pretrained(folder)
    if text is not None:
        byte_level(text).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("sizes", [(300, 320), (320, 300)], ids=["wider", "narrower"])
@pytest.mark.parametrize("texts", [TEXTS[:1] * 2, TEXTS], ids=["padding", "tokenizer"])
def test_such_a_draft_drafts_and_the_text_stays_the_targets(tmp_path, sizes, texts, caplog):
    folders = [
        saved(tmp_path / role, vocab_size=size, text=text, seed=5)
        for role, size, text in zip(("target", "draft"), sizes, texts, strict=True)
    ]
    target, draft = load_model(folders[0]), load_model(folders[1], drafts_for=folders[0])
    assert f"{sizes[1]} tokens, matched to the {sizes[0]} of {folders[0]}" in caplog.text
    assert draft.info.matched_from is not None
    assert draft.info.matched_from["vocab_size"] == sizes[1]
    assert (draft.info.matched_from["shared"] == min(sizes)) == (texts[0] == texts[1])
    decoder = Decoder.from_plan(plan([-1, 0, 0, 1]), target, draft)
    made = decoder.generate([5, 9, 2], max_new_tokens=40)
    alone = Decoder.from_plan(plan([-1]), target, draft).generate([5, 9, 2], max_new_tokens=40)
    assert made.tokens == alone.tokens
    again = load_model(folders[1], drafts_for=folders[0])
    assert again.info == draft.info


@pytest.mark.parametrize("beside", ["", "+lookup"])
def test_commands_match_what_they_load(tmp_path, beside):
    names = [
        str(saved(tmp_path / role, vocab_size=size, text=TEXTS[0], seed=5))
        for role, size in (("target", 300), ("draft", 320))
    ]
    pair = NamedPair(names[0], names[1] + beside, "cpu", None, "sdpa", 1)
    assert [model.vocab_size for model in pair.load()] == [300, 300]


def test_models_without_tokenizers_are_taken_as_they_are_or_refused(tmp_path):
    target = saved(tmp_path / "target", vocab_size=300, text=TEXTS[0], seed=5)
    draft = saved(tmp_path / "draft", vocab_size=300, text=None, seed=6)
    assert load_model(draft, drafts_for=target).info.matched_from is None
    other = saved(tmp_path / "other", vocab_size=320, text=None, seed=6)
    with pytest.raises(PlannerError, match=r"got .*other with a vocabulary of 320, expected 300"):
        load_model(other, drafts_for=target)


def test_a_model_with_more_tables_of_tokens_is_refused():
    model = small_model.__wrapped__("llama", seed=5)
    model.model.more = torch.nn.Embedding(VOCABULARY, 4)
    with pytest.raises(PlannerError, match=r"got a llama model with tokens in model\.more, too"):
        refit(model, shuffled())
    assert model.config.vocab_size == VOCABULARY
