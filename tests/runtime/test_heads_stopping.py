"""Rates along recorded texts are those of real decoding: exactly, by enumerating everything."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
import torch

from planner import Tree
from planner.documents.sampling import Sampling
from planner.policies.fixed import FixedTree
from runtime import VERIFIERS, Session, distribution
from runtime.heads import AcceptanceHead, label_texts
from runtime.heads.drafted_chains import Chains, Factors, chains_along
from runtime.heads.head_trial import MAX_DRAFTED, THRESHOLDS, binary_kl, evaluate, stopping_counts
from runtime.heads.stopping_counts import fixed_counts, threshold_counts
from runtime.pair import Pair
from runtime.randomness import seeded_source
from runtime.written import Written
from tests.runtime.exact_source import law
from tests.runtime.heads_factory import (
    agreeing_pair,
    labelled,
    random_texts,
    shape,
    small_pair,
    table,
)

EXACT = 1e-12
PROMPT = [1, 0]
SAMPLING = Sampling(temperature=0.9)
RULES = ("head", "confidence", "entropy", "probability")


def random_chains(num_places: int, depth: int, *, late: bool, seed: int) -> Chains:
    rng = np.random.default_rng(seed)
    accepted = rng.choice([0.0, 1.0, 0.5, 0.8], num_places) * rng.uniform(0.5, 1, num_places)
    factors = Factors(
        rng.uniform(0.3, 1, num_places), rng.uniform(0.3, 1, (num_places, depth)), late
    )
    return Chains(accepted, {"rule": factors})


def counts_by_hand(chains: Chains, stops, depth: int) -> tuple[float, float]:
    """(discarded, verified), one round and one token at a time.

    stops  (chance that all drafted so far are accepted) -> verify now?
    """
    num_places, factors = len(chains), chains.factors["rule"]

    def from_place(start: int) -> tuple[float, float]:
        if start == num_places:
            return 0.0, 0.0
        discarded, verified = 0.0, 1.0
        most = min(depth, num_places - 1 - start)
        survived = 1.0
        for first_rejected in range(most + 1):  # the last: none of them
            product_so_far, known, drafted = 1.0, 1.0, 0
            while drafted < most and not stops(known):
                place = start + drafted
                if drafted < first_rejected:
                    factor = factors.on_text[place]
                else:
                    factor = factors.off_text[start + first_rejected, drafted - first_rejected]
                drafted += 1
                if factors.late:  # what the next pass will tell
                    known, product_so_far = product_so_far, product_so_far * factor
                else:
                    known = product_so_far = product_so_far * factor
            if first_rejected >= drafted:  # none of the drafted ones
                rest = from_place(start + drafted + 1)
                return discarded + survived * rest[0], verified + survived * rest[1]
            chance = survived * (1 - chains.accepted[start + first_rejected])
            if chance > 0:
                rest = from_place(start + first_rejected + 1)
                discarded += chance * (drafted - first_rejected + rest[0])
                verified += chance * rest[1]
            survived *= chains.accepted[start + first_rejected]
        raise AssertionError

    return from_place(0)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("num_places", "depth"), [(1, 3), (2, 1), (5, 2), (7, 4), (6, 9)])
def test_counts_are_those_of_one_round_after_the_other(num_places, depth, late):
    for seed in range(3):
        chains = random_chains(num_places, depth, late=late, seed=seed)
        thresholds = [0.001, 0.2, 0.5, 0.8, 0.99]
        got = threshold_counts(chains, "rule", thresholds, depth)
        for place, threshold in enumerate(thresholds):
            expected = counts_by_hand(chains, lambda known, h=threshold: 1 - known > h, depth)
            assert (got.discarded[place], got.verified[place]) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("num_places", [1, 2, 6])
def test_fixed_lengths_never_stop(num_places):
    chains = random_chains(num_places, 5, late=False, seed=4)
    got = fixed_counts(chains, [1, 3, 5])
    for place, length in enumerate([1, 3, 5]):
        expected = counts_by_hand(chains, lambda known: False, length)
        assert (got.discarded[place], got.verified[place]) == pytest.approx(expected, abs=EXACT)


def test_a_text_by_hand():
    """Three tokens, chains of two; places 0 and 1 accept 1/2.  The first round drafts two: rejected
    at place 0 (1/2) it wastes both and leaves two tokens, whose round drafts one (1/2 wasted)."""
    chains = Chains(np.array([0.5, 0.5, 0.5]), {})
    counts = fixed_counts(chains, [2])
    # rejected at 0: 1/2, wastes 2, then from 1: drafts 1, wastes 1/2, verifies 1 + 1/2
    # rejected at 1: 1/4, wastes 1, then from 2: drafts none, verifies 1
    # none rejected: 1/4, the target adds the third token
    assert counts.discarded[0] == pytest.approx(0.5 * (2 + 0.5) + 0.25 * 1)
    assert counts.verified[0] == pytest.approx(1 + 0.5 * 1.5 + 0.25 * 1)


def target_texts(target, num_new: int) -> dict[tuple[int, ...], float]:
    found = {}
    for sequence in product(range(target.vocab_size), repeat=num_new):
        text = torch.tensor([*PROMPT, *sequence])
        logits = target.forward(text, torch.arange(len(text)), target.new_cache(0))
        probs = distribution(logits[len(PROMPT) - 1 : -1], SAMPLING)
        found[sequence] = float(probs[range(num_new), list(sequence)].prod())
    return found


def along_texts(target, draft, head, num_new: int, depth: int, count) -> tuple[float, float]:
    """Expectation of what `count(chains)` returns, over the target's texts and all that the draft
    may draft along them."""
    totals: dict[str, list[float]] = defaultdict(list)
    for text, chance in target_texts(target, num_new).items():
        outcomes = law(
            lambda rng, text=text: count(
                chains_along(
                    Pair(target, draft),
                    head,
                    Written(PROMPT, text),
                    SAMPLING,
                    depth=depth,
                    source=rng,
                )
            )
        )
        for (discarded, verified), mass in outcomes.items():
            totals["discarded"].append(chance * mass * discarded)
            totals["verified"].append(chance * mass * verified)
    return sum(totals["discarded"]), sum(totals["verified"])


def decoded(target, draft, head, rule, threshold, num_new, depth, rng) -> tuple[int, int]:
    """(discarded, verified) of a text decoded from the definition: draft, maybe stop, verify."""

    def read(model, text):
        places = torch.arange(len(text))
        logits, hidden = model.forward_with_hidden(torch.tensor(text), places, model.new_cache(0))
        return logits, hidden

    text, discarded, verified = list(PROMPT), 0, 0
    while (left := len(PROMPT) + num_new - len(text)) > 0:
        drafts, qs, chance = [], [], 1.0
        while len(drafts) < min(depth, left - 1):
            logits, hidden = read(draft, [*text, *drafts])
            if rule == "head" and drafts:
                chance *= float(head.scores(hidden[-1]))
            q = distribution(logits[-1], SAMPLING)
            drafts.append(int(rng.categorical(q[None])))
            qs.append(q)
            if rule == "confidence":
                chance *= float(q.max())
            elif rule == "entropy":
                chance *= float(torch.exp((q * q.log()).sum()))
            elif rule == "probability":
                chance *= float(q[drafts[-1]])
            if 1 - chance > threshold:
                break
        verified += 1
        ps = distribution(read(target, [*text, *drafts])[0][len(text) - 1 :], SAMPLING)
        accepted = 0
        for draft_token, q, p in zip([*drafts, None], [*qs, None], ps, strict=True):
            tokens = torch.tensor([] if draft_token is None else [draft_token], dtype=torch.long)
            rank, token = VERIFIERS["chain"].verify(p, p if q is None else q, tokens, rng)
            text.append(token)
            if rank < 0:
                break
            accepted += 1
        discarded += len(drafts) - accepted
    assert len(text) == len(PROMPT) + num_new
    return discarded, verified


def sharp_head(size: int) -> AcceptanceHead:
    """A head whose scores differ much from token to token."""
    head = AcceptanceHead(shape(size, 1), seed=5)
    with torch.no_grad():
        head.output.weight.copy_(torch.linspace(-4, 8, size))
        head.output.bias.fill_(1.0)
    return head


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.8])
def test_rates_along_texts_are_those_of_decoding(rule, threshold):
    """Expected totals over everything that may happen in decoding three tokens."""
    target, draft, head = table(3, seed=0), table(3, seed=1, order=1), sharp_head(3)

    def count(chains):
        counts = threshold_counts(chains, rule, [threshold], 2)
        return float(counts.discarded[0]), float(counts.verified[0])

    outcomes = law(lambda rng: decoded(target, draft, head, rule, threshold, 3, 2, rng))
    expected = [sum(mass * totals[i] for totals, mass in outcomes.items()) for i in (0, 1)]
    got = along_texts(target, draft, head, 3, 2, count)
    assert got == pytest.approx(expected, abs=1e-7)  # the head's scores are float32
    if rule != "head":
        assert got == pytest.approx(expected, abs=1e-10)


def test_a_late_rule_drafts_one_token_more_than_a_prompt_one():
    """So the twin above could not agree with the wrong one of the two."""
    late, prompt = (random_chains(7, 4, late=late, seed=0) for late in (True, False))
    one, other = (threshold_counts(chains, "rule", [0.5], 4) for chains in (late, prompt))
    assert one.discarded[0] > other.discarded[0] + 0.1


@pytest.mark.parametrize(("length", "own"), [(1, None), (2, None), (2, 0.3)])
def test_fixed_lengths_are_the_sessions(length, own, monkeypatch):
    """The runtime's own steps over a static chain, enumerated."""
    sampling = SAMPLING.model_copy(update={"draft_temperature": own})
    monkeypatch.setattr(f"{__name__}.SAMPLING", sampling)
    target, draft = table(3, seed=0), table(3, seed=1, order=1)
    policy = FixedTree(Tree(range(-1, length)))

    def session(rng):
        run = Session(target, draft, verifier=VERIFIERS["chain"], sampling=SAMPLING, rng=rng)
        run.prefill(PROMPT)
        discarded = verified = 0
        while (left := len(PROMPT) + 3 - len(run.tokens)) > 0:
            record = run.step(policy, max_tokens=left)
            discarded += record.num_nodes - 1 - len(record.path)
            verified += 1
        return discarded, verified

    def count(chains):
        counts = fixed_counts(chains, [length])
        return float(counts.discarded[0]), float(counts.verified[0])

    outcomes = law(session)
    expected = [sum(mass * totals[i] for totals, mass in outcomes.items()) for i in (0, 1)]
    assert along_texts(target, draft, sharp_head(3), 3, 2, count) == pytest.approx(
        expected, abs=1e-10
    )


def test_at_temperature_0_the_counts_are_the_sessions():
    """Whole numbers, with real models, for every fixed length."""
    target, draft = small_pair()
    sampling, rng = Sampling(temperature=0), seeded_source(0, torch.device("cpu"))
    for length in (1, 2, 5):
        run = Session(target, draft, verifier=VERIFIERS["chain"], sampling=sampling, rng=rng)
        run.prefill([3, 4, 5])
        discarded = verified = 0
        while (left := 3 + 24 - len(run.tokens)) > 0:
            record = run.step(FixedTree(Tree(range(-1, length))), max_tokens=left)
            discarded += record.num_nodes - 1 - len(record.path)
            verified += 1
        chains = chains_along(
            Pair(target, draft), AcceptanceHead(shape()), Written([3, 4, 5], run.tokens[3:]),
            sampling, depth=5, source=rng,
        )  # fmt: skip
        assert set(chains.accepted.tolist()) <= {0.0, 1.0}
        counts = fixed_counts(chains, [length])
        assert (counts.discarded[0], counts.verified[0]) == (discarded, verified)


def test_factors_are_of_the_draft_behind_the_text():
    """Along the text by plain passes; below a rejected token by reading the branch anew."""
    target, draft = small_pair()
    head = AcceptanceHead(shape())
    torch.nn.init.normal_(head.output.weight, generator=torch.Generator().manual_seed(0))
    prompt, text = [3, 4], [5, 9, 11, 2, 7, 7]
    chosen: list[torch.Tensor] = []

    class Listening:
        def __init__(self) -> None:
            self.real = seeded_source(0, torch.device("cpu"))

        def categorical(self, probs):
            chosen.append(self.real.categorical(probs))
            return chosen[-1]

    sampling = Sampling(temperature=0.8, top_k=9)
    chains = chains_along(
        Pair(target, draft), head, Written(prompt, text), sampling, depth=3, source=Listening()
    )

    def looked_at(read):
        tokens, places = torch.tensor(read), torch.arange(len(read))
        logits, hidden = draft.forward_with_hidden(tokens, places, draft.new_cache(0))
        return distribution(logits, sampling).double(), head.scores(hidden)

    for place in range(len(text)):
        q, scores = looked_at([*prompt, *text[: place + 1]])
        on_text = {name: each.on_text[place] for name, each in chains.factors.items()}
        assert on_text["head"] == pytest.approx(float(scores[-1]), abs=1e-4)
        assert on_text["confidence"] == pytest.approx(float(q[-2].max()), abs=1e-4)
        assert on_text["probability"] == pytest.approx(float(q[-2][text[place]]), abs=1e-4)
        entropy = -sum(x * np.log(x) for x in q[-2].tolist() if x > 0)
        assert on_text["entropy"] == pytest.approx(np.exp(-entropy), abs=1e-4)
    for place in range(len(text) - 1):
        levels = min(3, len(text) - 1 - place)
        branch = [int(chosen[level][place]) for level in range(levels)]
        q, scores = looked_at([*prompt, *text[:place], *branch])
        for level, token in enumerate(branch):
            row = len(prompt) + place + level
            off = {name: each.off_text[place, level] for name, each in chains.factors.items()}
            assert off["head"] == pytest.approx(float(scores[row]), abs=1e-4)
            assert off["confidence"] == pytest.approx(float(q[row - 1].max()), abs=1e-4)
            assert off["probability"] == pytest.approx(float(q[row - 1][token]), abs=1e-4)
        for each in chains.factors.values():
            assert each.off_text[place, levels:].tolist() == [1.0] * (3 - levels)
    assert [name for name, each in chains.factors.items() if each.late] == ["head"]


def test_the_divergence_by_hand():
    labels = torch.tensor([0.0, 1.0, 0.4], dtype=torch.float64)
    scores = torch.tensor([0.5, 0.25, 0.4], dtype=torch.float64)
    by_hand = (np.log(2) + np.log(4) + 0) / 3
    assert binary_kl(labels, scores.logit()) == pytest.approx(by_hand, rel=1e-12)


@pytest.fixture(scope="module")
def evaluation():
    target, draft = small_pair()
    head, sampling = AcceptanceHead(shape(), reject_weight=6.0), Sampling(temperature=0.7)
    texts = labelled(8, sampling)
    found = evaluate(head, Pair(target, draft), texts, sampling, mean_acceptance=0.3, seed=0)
    return found, texts


def test_an_evaluation_adds_up(evaluation):
    found, texts = evaluation
    labels = np.concatenate([text.labels for text in texts]).astype(np.float64)
    assert sum(one.num_tokens for one in found.calibration) == len(labels)
    mean = sum(one.num_tokens * one.accepted for one in found.calibration) / len(labels)
    assert mean == pytest.approx(labels.mean(), rel=1e-9)
    assert {one.score for one in found.calibration} == {0.5}  # of a head that knows nothing
    assert found.calibration[0].predicted == pytest.approx(6 / 7)
    assert [len(curve.points) for curve in found.stopping] == [MAX_DRAFTED, *[len(THRESHOLDS)] * 4]
    assert [curve.rule for curve in found.stopping] == ["fixed", *RULES]


def test_a_draft_that_is_the_target_is_always_accepted():
    """Nothing is discarded, and no number comes out infinite."""
    target, draft = agreeing_pair(noise=0)
    sampling = Sampling(temperature=1.0)
    texts = label_texts(Pair(target, draft), *random_texts(4), sampling, seed=0)
    head = AcceptanceHead(shape())
    found = evaluate(head, Pair(target, draft), texts, sampling, mean_acceptance=1.0, seed=0)
    assert {one.accepted for one in found.calibration} == {1.0}
    assert found.kl == pytest.approx(np.log(2))
    assert found.kl_constant == pytest.approx(-np.log(1 - 0.5 / 24))  # of 24 tokens
    for curve in found.stopping:  # two passes over one text differ in their last digits
        assert max(point.discard_rate for point in curve.points) < 1e-5
    assert all(row.change == {} for row in found.compared)


def test_more_risk_means_fewer_passes_and_more_waste(evaluation):
    for curve in evaluation[0].stopping:
        verified = [point.verification_rate for point in curve.points]
        discarded = [point.discard_rate for point in curve.points]
        assert verified == sorted(verified, reverse=True)
        assert discarded == sorted(discarded)
        settings = [point.setting for point in curve.points]
        assert settings == sorted(settings)


def test_a_head_that_says_one_thing_is_a_fixed_length():
    """Scores of 1/2: one of the fixed lengths at every threshold, and no gain against them."""
    target, draft = small_pair()
    head = AcceptanceHead(shape())
    chains = [
        chains_along(
            Pair(target, draft), head, Written(text.prompt, text.response.tolist()), SAMPLING,
            depth=MAX_DRAFTED, source=seeded_source(0, torch.device("cpu")),
        )
        for text in labelled(6, SAMPLING)
    ]  # fmt: skip
    counts = stopping_counts(chains)
    fixed = counts["fixed"].discarded.sum(0)
    for value in counts["head"].discarded.sum(0):
        assert np.abs(fixed - value).min() < 1e-9
