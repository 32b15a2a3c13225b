"""Look-up drafts: their law against a plain twin, their rows, and that nothing is lost by them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

from planner import PlannerError, Tree
from planner.policies.fixed import FixedTree
from runtime import (
    VERIFIERS,
    Decoder,
    HuggingFaceModel,
    LanguageModel,
    LookupBeside,
    LookupModel,
    Session,
)
from runtime.pair import Pair
from runtime.probe import check_tree_passes
from runtime.randomness import seeded_source
from tests.policies.settings import chains, trees
from tests.runtime.exact_source import law_by_steps
from tests.runtime.small_models import plan, small_model
from tests.runtime.test_decode_law import (
    EXACT,
    LEVEL,
    PROMPT,
    SAMPLING,
    TREES,
    autoregressive_law,
    chi_square,
    decoding,
    distance,
    session_of,
    table,
)
from tests.verifiers.broken_verifiers import BROKEN, UnlikelyDropped
from tree_kernels.host.ngrams import ALONE, BESIDE, LONGEST, Contexts, fill_ngram_law

REPEATING = [1, 0, 0, 1, 1, 0, 1, *PROMPT]
"""A prompt with something to look up; what the tables say behind it is what they say behind
`PROMPT`, as they know two tokens."""


def twin(text: list[int], given: np.ndarray, contexts: Contexts) -> np.ndarray:
    """P_m for m from s on, word for word: float64 [V]; `given` is P_(s-1)."""
    probs = given.copy()
    for length in range(contexts.shortest, LONGEST + 1):
        context = text[len(text) - length :]
        places = [at for at in range(length, len(text)) if text[at - length : at] == context]
        followers = Counter(text[at] for at in places)
        for token in range(len(probs)):
            heard = followers[token] + contexts.doubt * probs[token]
            probs[token] = heard / (len(places) + contexts.doubt)
    return probs


def alone(text: list[int], vocab_size: int) -> np.ndarray:
    """The twin's distribution of a text where there is no model."""
    return twin(text, np.full(vocab_size, 1 / vocab_size), ALONE)


def found(
    text: list[int], given: np.ndarray, contexts: Contexts, dtype: type = np.float64
) -> np.ndarray:
    """The fast law of a whole text."""
    with np.errstate(divide="ignore"):
        logs = np.log(given)[None].astype(dtype)
    fill_ngram_law(logs, np.array(text), np.ones((1, 1), bool), contexts)
    return np.exp(logs[0])


def found_alone(text: list[int], vocab_size: int) -> np.ndarray:
    return found(text, np.full(vocab_size, 1 / vocab_size), ALONE)


def repetitive(rng: np.random.Generator, size: int, vocab_size: int) -> list[int]:
    """A text that often copies from itself."""
    text = [int(rng.integers(vocab_size))]
    while len(text) < size:
        start = int(rng.integers(len(text)))
        text += text[start : start + int(rng.integers(1, 14))]
        text.append(int(rng.integers(vocab_size)))
    return text[:size]


def test_a_small_text_by_hand():
    """0 1 0 among four tokens: (2, 1, 0, 0) of 3 places whatever is in front; behind the one 0 that
    is continued stands 1; the end 1 0 has not been before."""
    shorter = np.array([2 + 0.5, 1 + 0.5, 0.5, 0.5]) / 5
    expected = ([0, 1, 0, 0] + 2 * shorter) / 3
    assert expected == pytest.approx([1 / 3, 8 / 15, 1 / 15, 1 / 15])
    assert found_alone([0, 1, 0], 4) == pytest.approx(expected, abs=1e-15)
    assert alone([0, 1, 0], 4) == pytest.approx(expected, abs=1e-15)


def test_a_model_has_the_last_word_by_hand():
    """Behind 0 1 stood 2 once, and d = 4; behind 1 2 nothing did."""
    model = np.array([0.5, 0.25, 0.25, 0])
    assert found([0, 1, 2, 0, 1], model, BESIDE) == pytest.approx([0.4, 0.2, 0.4, 0])
    assert found([0, 1, 2], model, BESIDE) == pytest.approx(model)


@pytest.mark.parametrize("contexts", [ALONE, BESIDE, Contexts(3, 0.5)], ids=str)
@pytest.mark.parametrize("vocab_size", [2, 7, 63])
@pytest.mark.parametrize("size", [1, 2, 7, 63, 100])
def test_the_law_is_the_twins(size, vocab_size, contexts):
    rng = np.random.default_rng([size, vocab_size])
    for _ in range(3):
        text = repetitive(rng, size, vocab_size)
        given = rng.dirichlet(np.full(vocab_size, 0.5)) * (rng.random(vocab_size) < 0.8)
        expected = twin(text, given, contexts)
        assert found(text, given, contexts) == pytest.approx(expected, abs=1e-14)
        assert found(text, given, contexts, np.float32) == pytest.approx(expected, abs=1e-6)


def test_longer_matches_are_surer_and_no_match_is_no_word():
    text = list(range(20))
    laws = [found_alone([*text, *text[:length]], 999) for length in range(LONGEST + 1)]
    likeliest = [law.max() for law in laws]
    assert all(shorter < longer for shorter, longer in pairwise(likeliest))
    assert likeliest[0] < 0.1
    for length in range(1, LONGEST + 1):
        assert likeliest[length] == pytest.approx(1 - (2 / 3) ** length, abs=0.04)
        assert laws[length].argmax() == length


def model(num_tokens: int = 3, *, seed: int = 0) -> LookupModel:
    return LookupModel(table(num_tokens, seed=seed))


@pytest.mark.parametrize(
    "draft",
    [model(13), LookupBeside(HuggingFaceModel(small_model("llama")))],
    ids=["alone", "beside"],
)
def test_it_is_a_language_model_that_computes_trees(draft):
    assert isinstance(draft, LanguageModel)
    check_tree_passes(draft)


def test_beside_a_model_the_law_is_the_twins_over_the_models_own():
    own = table(5, seed=1, order=1)
    draft = LookupBeside(own)
    text = repetitive(np.random.default_rng(0), 40, 5)
    tokens, places = torch.tensor(text), torch.arange(40)
    given = own.forward(tokens, places, own.new_cache(40)).softmax(-1).numpy()
    logits = draft.forward(tokens, places, draft.new_cache(40))
    for end in range(1, 41):
        expected = twin(text[:end], given[end - 1], BESIDE)
        assert logits[end - 1].exp().numpy() == pytest.approx(expected, abs=1e-14)
    assert draft.info.name == "table+lookup"
    assert draft.info.fingerprint not in (own.info.fingerprint, LookupModel(own).info.fingerprint)
    assert draft.info.num_parameters == own.info.num_parameters


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_what_they_see(seed):
    """Trees behind any row of a text, as in decoding (its last) and in recorded trees (any): every
    row has the law of its own text; what is kept and rewound is as if nothing else had been."""
    rng = np.random.default_rng(seed)
    draft, vocab_size = model(7), 7
    cache = draft.new_cache(2)
    for _ in range(4):
        text = cache.tokens.tolist()
        new = repetitive(rng, 6, vocab_size)
        logits = draft.forward(torch.tensor(new), torch.arange(6), cache, num_logits=3)
        for row, end in enumerate((4, 5, 6)):
            expected = alone([*text, *new[:end]], vocab_size)
            assert logits[row].exp().numpy() == pytest.approx(expected, abs=1e-14)
        text += new
        root = int(rng.integers(1, len(text) + 1))
        parents = [-1, *(int(rng.integers(-1, node)) for node in range(1, 5))]
        tokens = rng.integers(vocab_size, size=5).tolist()
        visible = np.zeros((5, len(text) + 5), bool)
        texts = []
        for node, parent in enumerate(parents):
            visible[node] = visible[parent] if parent >= 0 else False
            visible[node, :root] = True
            visible[node, len(text) + node] = True
            texts.append([*(texts[parent] if parent >= 0 else text[:root]), tokens[node]])
        logits = draft.forward(
            torch.tensor(tokens), torch.zeros(5).long(), cache, torch.from_numpy(visible)
        )
        for row, own in zip(logits, texts, strict=True):
            assert row.exp().numpy() == pytest.approx(alone(own, vocab_size), abs=1e-14)
        kept = [node for node in range(5) if rng.random() < 0.5]
        cache.keep_rows(len(text), kept)
        assert cache.tokens.tolist() == [*text, *(tokens[node] for node in kept)]
        cache.rewind(int(rng.integers(1, cache.length + 1)))


class Sure(LookupModel):
    """All on the likeliest tokens, if there are several, evenly: zeros everywhere else, and often
    fewer tokens than children."""

    def forward(self, *arguments, num_logits=None):
        logits = super().forward(*arguments, num_logits=num_logits)
        largest = logits.amax(-1, keepdim=True)
        return torch.where(logits < largest - 1e-9, -torch.inf, torch.zeros_like(logits))


def beside(target) -> LookupBeside:
    """Look-up beside a model that has its own mind."""
    return LookupBeside(table(target.vocab_size, seed=1, order=1))


DRAFTS = {"alone": LookupModel, "sure": Sure, "beside a model": beside}


def loop_law(verifier, policy, num_new, *, num_tokens=3, kind=LookupModel):
    """(law of the loop, law of the target) over texts behind `REPEATING`.

    policy  makes a new one for every text
    """
    target = table(num_tokens, seed=0)
    draft = kind(target)
    session = session_of(target, draft, verifier)
    got = law_by_steps(decoding(session, policy, num_new, prompt=REPEATING))
    return got, autoregressive_law(target, num_new)


def fixed(name: str):
    return lambda: FixedTree(Tree(TREES[name]))


def served(names) -> list:
    """Every verifier with every tree that it serves."""
    return [
        pytest.param(verifier, name, id=f"{verifier.name}-{name}")
        for verifier in VERIFIERS.values()
        for name in names
        if int(Tree(TREES[name]).num_children.max()) <= (verifier.max_children or 9)
    ]


@pytest.mark.parametrize("kind", DRAFTS.values(), ids=DRAFTS)
@pytest.mark.parametrize(("verifier", "name"), served(["chain of 3", "a leaf beside a branch"]))
def test_the_loops_law_is_the_targets(verifier, name, kind):
    """Exactly, under every verifier, also where q has zeros and fewer tokens than children."""
    num_new = 3 if kind is Sure else 2
    assert distance(*loop_law(verifier, fixed(name), num_new, kind=kind)) < EXACT


@pytest.mark.parametrize("name", ["rrsw", "topk", "traversal"])
def test_the_loops_law_is_the_targets_over_many_steps(name):
    """Caches are kept and used again."""
    for kind in (LookupModel, beside):
        policy = fixed("two children")
        assert distance(*loop_law(VERIFIERS[name], policy, 4, num_tokens=2, kind=kind)) < EXACT


GROWN = trees(4, 2, 3) | {name: each for name, each in chains(3).items() if name != "stop by head"}


@pytest.mark.parametrize("kind", DRAFTS.values(), ids=DRAFTS)
@pytest.mark.parametrize("way", GROWN)
def test_the_loops_law_is_the_targets_where_trees_grow(way, kind):
    for name in ("rrsw", "topk"):
        settings, verifier = GROWN[way], VERIFIERS[name]

        def policy(settings=settings, verifier=verifier):
            return settings.policy(deterministic=verifier.deterministic)

        assert distance(*loop_law(verifier, policy, 3, kind=kind, num_tokens=2)) < EXACT


@pytest.mark.parametrize("verifier", BROKEN, ids=lambda verifier: type(verifier).__name__)
def test_the_exact_check_sees_what_is_biased(verifier):
    assert distance(*loop_law(verifier, fixed("two children"), 2)) > 1e-3


def test_sequences_follow_the_targets_law():
    policy = FixedTree(Tree(TREES["uneven levels"]))
    assert chi_square(VERIFIERS["rrsw"], policy, 1_000, drafts_by=LookupModel) > LEVEL


def test_the_statistical_check_sees_what_is_biased():
    policy = FixedTree(Tree(TREES["uneven levels"]))
    assert chi_square(UnlikelyDropped(), policy, 1_000, drafts_by=LookupModel) < LEVEL


def test_a_confident_chain_drafts_where_the_text_repeats_itself_and_nothing_elsewhere():
    """Drafts behind a text that has said it before, and behind a token that is new."""
    target = table(9, seed=0)
    session = Session(
        target, LookupModel(target), verifier=VERIFIERS["topk"], sampling=SAMPLING,
        rng=seeded_source(0, target.device),
    )  # fmt: skip
    policy = chains(4)["confident"].policy(deterministic=True)
    for prompt, num_drafted in (([1, 2, 3, 4, 5, 6, 7, 1, 2, 3], 4), ([1, 2, 3, 4, 5, 6, 7, 8], 0)):
        session.prefill(prompt)
        assert session.step(policy).num_nodes == 1 + num_drafted


def test_plans_name_it_and_are_carried_out_with_it():
    target = small_model("llama")
    decoder = Decoder.from_plan(
        plan([-1, 0, 0, 1], temperature=0.6),
        target,
        LookupModel(Decoder.from_plan(plan([-1]), target).target),
    )
    generation = decoder.generate([5, 6, 7, 5, 6], max_new_tokens=12)
    assert len(generation.tokens) == 12
    assert generation.report.draft.is_lookup
    assert generation.report.draft.num_parameters == 0


def test_heads_have_nothing_to_read_in_it():
    target = table(3, seed=0)
    with pytest.raises(PlannerError, match=r"draft: got lookup, which does not show its hidden"):
        Pair(target, LookupModel(target)).check_hidden()
