"""Labels are what decoding accepts; hidden states are those of the texts they are said to be of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from planner import PlannerError, Tree
from planner.documents.sampling import Sampling
from planner.policies.fixed import FixedTree
from runtime import VERIFIERS, Session, distribution
from runtime.heads import hidden_size_of, label_texts
from runtime.heads.labelled_texts import hidden_behind_text, training_rows
from runtime.language_model import HiddenModel
from runtime.models import HuggingFaceModel
from runtime.pair import Pair
from runtime.table import TableModel
from tests.runtime.exact_source import law
from tests.runtime.heads_factory import (
    WARM,
    attention_of,
    labelled,
    random_texts,
    small_pair,
    table,
)
from tests.runtime.small_models import small_model

CLOSE = 2e-5  # float32 through two layers, summed in another order

SAMPLINGS = [
    Sampling(temperature=1.0),
    Sampling(temperature=0.7),
    Sampling(temperature=1.0, top_k=5),
    Sampling(temperature=1.3, top_p=0.8),
    WARM,
]


def plain(model: HuggingFaceModel, ids: list[int]):
    """The whole text in one pass without a cache, by transformers alone."""
    with torch.no_grad():
        return model.module(torch.tensor([ids]), output_hidden_states=True, use_cache=False)


def warped(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Logits [V] as transformers' own warpers leave them."""
    steps = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature)])
    if sampling.top_k:
        steps.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        steps.append(TopPLogitsWarper(sampling.top_p))
    return steps(torch.tensor([[0]]), logits[None].float()).softmax(-1)[0]


def labels_by_hand(text, sampling: Sampling) -> np.ndarray:
    """One label at a time: the text before it read anew by both models."""
    found = []
    for place, draft in enumerate(text.drafts.tolist()):
        before = [*text.prompt, *text.response[:place].tolist()]
        p, q = (warped(plain(model, before).logits[0, -1], sampling) for model in small_pair())
        found.append(min(1.0, float(p[draft] / q[draft])))
    return np.array(found)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_labels_are_of_the_distributions_that_decoding_samples(sampling):
    for text in labelled(4, sampling):
        assert text.labels == pytest.approx(labels_by_hand(text, sampling), abs=1e-4)


@pytest.mark.parametrize("sampling", SAMPLINGS[1:], ids=str)
def test_labels_of_another_processing_are_seen(sampling):
    """The same drafted tokens, but p/q of the plain softmax: far outside what the test lets by."""
    texts = labelled(4, sampling)
    wrong = np.concatenate([labels_by_hand(text, SAMPLINGS[0]) for text in texts])
    right = np.concatenate([text.labels for text in texts])
    assert np.abs(wrong - right).max() > 0.05


@pytest.mark.parametrize("own", [None, 0.3])
def test_a_label_is_the_chance_that_a_decoding_step_accepts_the_token(own):
    """Labels by enumerating all that one step of one drafted token can do, behind every place."""
    sampling = Sampling(temperature=0.8, top_k=4, top_p=0.97, draft_temperature=own)
    target, draft = table(5, seed=0), table(5, seed=1, order=1)
    prompts, responses = [[1, 0], [2]], [[3, 1, 4, 0], [2, 2, 0, 1, 3]]
    chain = FixedTree(Tree([-1, 0]))
    for text in label_texts(Pair(target, draft), prompts, responses, sampling, seed=2):
        for place, (token, label) in enumerate(zip(text.drafts, text.labels, strict=True)):
            before = [*text.prompt, *text.response[:place].tolist()]

            def step(rng, before=before):
                session = Session(
                    target, draft, verifier=VERIFIERS["chain"], sampling=sampling, rng=rng
                )
                session.prefill(before)
                record = session.step(chain)
                return record.tokens[0] if record.path else None

            places = torch.arange(len(before))
            logits = draft.forward(torch.tensor(before), places, draft.new_cache(0))[-1]
            q = float(distribution(logits, sampling.of_draft)[token])
            assert law(step).get(int(token), 0.0) == pytest.approx(q * float(label), abs=1e-6)


def test_drafted_tokens_follow_the_draft():
    """Chi-square at level 1e-5 over 20,000 tokens of a draft that forgets everything."""
    target, draft = table(6, seed=0, order=0), table(6, seed=1, order=0)
    sampling = Sampling(temperature=0.9)
    texts = label_texts(Pair(target, draft), [[0]] * 1000, [[0] * 20] * 1000, sampling, seed=0)
    drafts, labels = (np.concatenate([getattr(t, x) for t in texts]) for x in ("drafts", "labels"))
    p, q = (distribution(model._table[0], sampling).numpy() for model in (target, draft))
    expected = 20_000 * q
    statistic = ((np.bincount(drafts, minlength=6) - expected) ** 2 / expected).sum()
    assert chi2.sf(statistic, 5) > 1e-5
    accepted = np.minimum(p, q).sum()
    spread = 5 * labels.std() / np.sqrt(20_000)
    assert labels.mean() == pytest.approx(accepted, abs=spread)


def test_at_temperature_0_a_token_is_accepted_if_both_models_find_it_likeliest():
    models = small_pair()
    for text in labelled(6, Sampling(temperature=0)):
        read = [*text.prompt, *text.response.tolist()]
        best = [plain(m, read).logits[0, len(text.prompt) - 1 : -1].argmax(-1) for m in models]
        assert text.drafts.tolist() == best[1].tolist()
        assert text.labels.tolist() == (best[0] == best[1]).float().tolist()


def test_a_seed_decides_the_drafted_tokens():
    pair, texts = small_pair(), random_texts()
    one, same, other = (label_texts(Pair(*pair), *texts, WARM, seed=seed) for seed in (3, 3, 4))
    assert all((a.drafts == b.drafts).all() for a, b in zip(one, same, strict=True))
    assert any((a.drafts != b.drafts).any() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt2", "gpt_neox", "olmo2"])
def test_hidden_states_are_what_the_output_layer_reads(family):
    model = HuggingFaceModel(small_model(family, attention=attention_of(family)))
    ids = list(range(3, 12))
    tokens, places = torch.tensor(ids), torch.arange(len(ids))
    cache = model.new_cache(20)
    model.forward(tokens[:4], places[:4], cache)
    logits, hidden = model.forward_with_hidden(tokens[4:], places[4:], cache, num_logits=3)
    whole = plain(model, ids)
    assert torch.allclose(logits, whole.logits[0, -3:], atol=CLOSE)
    assert torch.allclose(hidden, whole.hidden_states[-1][0, -3:], atol=CLOSE)
    head = model.module.get_output_embeddings()
    if family != "gemma2":  # its logits are bent afterwards
        with torch.no_grad():
            assert torch.allclose(head(hidden.clone()), logits, atol=CLOSE)
    assert hidden_size_of(model, ids) == hidden.shape[1]
    assert not head._forward_pre_hooks
    none = model.forward_with_hidden(tokens[:1], places[:1], model.new_cache(1), num_logits=0)
    assert [len(part) for part in none] == [0, 0]


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2"])
def test_a_drafted_token_is_read_behind_the_targets_own_text(family):
    target, draft = small_pair(family)
    for text in label_texts(Pair(target, draft), *random_texts(4), WARM, seed=0):
        hidden = hidden_behind_text(draft, text)
        for place, token in enumerate(text.drafts.tolist()):
            read = [*text.prompt, *text.response[:place].tolist(), token]
            alone = plain(draft, read).hidden_states[-1][0, -1]
            assert torch.allclose(hidden[place], alone, atol=CLOSE)


@pytest.mark.parametrize("mix", [0.0, 0.15, 0.6])
def test_mixed_rows_are_the_drafted_tokens_of_one_mixed_text(mix):
    _, draft = small_pair()
    for number, text in enumerate(labelled()):
        hidden, labels = training_rows(draft, text, mix, np.random.default_rng(number))
        drafted = np.random.default_rng(number).random(len(text)) >= mix
        mixed = np.where(drafted, text.drafts, text.response)
        alone = plain(draft, [*text.prompt, *mixed.tolist()]).hidden_states[-1][0]
        assert torch.allclose(hidden, alone[len(text.prompt) :][drafted], atol=CLOSE)
        assert labels.tolist() == text.labels[drafted].tolist()
        assert mix > 0 or drafted.all()


def test_the_mixed_share_is_the_targets():
    draft, rng = table(6, seed=1), np.random.default_rng(0)
    texts = label_texts(Pair(table(6, seed=0), draft), [[0]] * 400, [[1] * 20] * 400, WARM, seed=0)
    learned = sum(len(training_rows(draft, text, 0.15, rng)[1]) for text in texts)
    deviation = (8000 * 0.15 * 0.85) ** 0.5
    assert 8000 - learned == pytest.approx(1200, abs=5 * deviation)


def test_without_mixing_every_drafted_token_is_learned_from():
    _, draft = small_pair()
    text = labelled()[3]
    hidden, labels = training_rows(draft, text, None, np.random.default_rng(0))
    assert torch.equal(hidden, hidden_behind_text(draft, text))
    assert labels.tolist() == text.labels.tolist()


def test_a_draft_that_shows_nothing_or_speaks_otherwise_is_refused():
    target, draft = small_pair()
    assert Pair(target, draft).hidden_draft is draft
    assert isinstance(draft, HiddenModel)
    hidden_from_view = TableModel(torch.zeros(97, 97))
    assert not isinstance(hidden_from_view, HiddenModel)
    with pytest.raises(PlannerError, match="does not show its hidden states"):
        _ = Pair(target, hidden_from_view).hidden_draft
    with pytest.raises(PlannerError, match="vocabulary of 5, expected 97"):
        Pair(target, table(5, seed=0))
