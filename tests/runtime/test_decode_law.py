"""The whole decode loop emits what autoregressive sampling of the target emits: the same law.

Exactly, by enumerating every random decision of several steps, and statistically, with the real
source of randomness, on a larger vocabulary.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from planner import Tree
from planner.documents.sampling import Sampling
from planner.policies.fixed import FixedTree
from runtime import VERIFIERS, Session, TableModel, distribution
from runtime.held_tokens import held_by
from runtime.randomness import seeded_source
from runtime.table import TableCache
from tests.runtime.exact_source import EnumeratingSource, law, law_by_steps, to_the_end
from tests.verifiers.broken_verifiers import BROKEN, UnlikelyDropped
from tests.verifiers.whole_trees import MISTAKES, FromTheLeaves

EXACT = 1e-12
SAMPLING = Sampling(temperature=0.9)
PROMPT = [1, 0]

TREES = {
    "lone root": [-1],
    "chain of 1": [-1, 0],
    "chain of 3": [-1, 0, 1, 2],
    "two children": [-1, 0, 0],
    "a leaf beside a branch": [-1, 0, 0, 1],
    "the second child branches": [-1, 0, 0, 2, 2],
    "uneven levels": [-1, 0, 0, 1, 2, 2],
}

FEW = ("chain of 1", "two children", "a leaf beside a branch")
"""Trees for verifiers whose children may repeat: there are many more ways to go then."""

MANY_TOKENS = pytest.mark.parametrize("num_new", [4, pytest.param(5, marks=pytest.mark.soak)])
"""Every further token multiplies the ways to go."""

NUM_SEQUENCES = 1_000
"""Texts of the statistical tests: more than enough to show the bias of a broken verifier."""
MANY_SEQUENCES = int(os.environ.get("ESPALIER_SEQUENCES", "20000"))
"""Texts with `make soak`, which takes as many as it is told to."""
LEVEL = 1e-5
"""Chance that a lossless loop fails the statistical test of one verifier."""


def table(num_tokens: int, *, seed: int, order: int = 2, scale: float = 1.5) -> TableModel:
    """A random model in float64 with a few impossible tokens."""
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn([num_tokens] * (order + 1), generator=rng, dtype=torch.float64) * scale
    holes = torch.rand(logits.shape, generator=rng) < 0.15
    holes[..., seed % num_tokens] = False
    return TableModel(logits.masked_fill(holes, -torch.inf))


def autoregressive_law(
    target: TableModel, num_new: int, text: Sequence[int] = PROMPT
) -> dict[tuple[int, ...], float]:
    """P(sequence behind `text`) as the product of the target's own distributions."""
    if num_new == 0:
        return {(): 1.0}
    logits = target.forward(torch.tensor(text), torch.arange(len(text)), target.new_cache(0))
    held = torch.tensor([each in text for each in range(target.vocab_size)])
    return {
        (token, *others): probability * further
        for token, probability in enumerate(distribution(logits[-1], SAMPLING, held).tolist())
        if probability > 0
        for others, further in autoregressive_law(target, num_new - 1, [*text, token]).items()
    }


def state_of(session: Session, policy) -> tuple:
    """All that later steps depend on: the text, the rows of both caches, numbers that the policy
    keeps."""
    caches = session._target_cache, session._draft_cache
    kept = (item for item in vars(policy).items() if isinstance(item[1], int | float))
    return tuple(session.tokens), *map(rows_of, caches), tuple(kept)


def rows_of(cache) -> tuple:
    """What each row has read, or, of look-up, its token; and the rows of a model beside it."""
    if isinstance(cache, TableCache):
        return tuple(cache.texts)
    return tuple(cache.tokens.tolist()), cache.beside and rows_of(cache.beside)


def decoding(session, policy, num_new, *, whole=False, prompt=PROMPT, shapes=None):
    """A function of the source of randomness that decodes `num_new` tokens, from the prompt as it
    was read once, and yields the state behind every step.

    policy  makes one for every text
    whole   trees are drafted to the last, though not all tokens are used
    shapes  takes the shapes of the trees
    """
    session.prefill(prompt)

    def decode(rng):
        session.rng, own = rng, policy()
        session.rewind(len(prompt))
        while (left := len(prompt) + num_new - len(session.tokens)) > 0:
            step = session.step(own, max_tokens=None if whole else left)
            if shapes is not None:
                shapes.add((step.num_nodes, step.depth, step.widths))
            yield state_of(session, own)
        return tuple(session.tokens[len(prompt) :][:num_new])

    return decode


def session_of(target, draft, verifier, score=None) -> Session:
    """One whose source of randomness is still to be given."""
    rng = EnumeratingSource([])
    return Session(target, draft, verifier=verifier, sampling=SAMPLING, rng=rng, score=score)


def table_decoding(num_tokens, verifier, parents, num_new, *, whole=False):
    """`decoding` of fixed trees with small tables, and the target."""
    target, draft = table(num_tokens, seed=0), table(num_tokens, seed=1, order=1)
    policy = partial(FixedTree, Tree(parents))
    session = session_of(target, draft, verifier)
    return decoding(session, policy, num_new, whole=whole), target


def loop_law(num_tokens, verifier, parents, num_new, *, whole=False) -> tuple[dict, dict]:
    """(the law of the loop, the law of the target) over sequences of `num_new` tokens."""
    decode, target = table_decoding(num_tokens, verifier, parents, num_new, whole=whole)
    return law_by_steps(decode), autoregressive_law(target, num_new)


def distance(got: dict, expected: dict) -> float:
    return max(abs(got.get(key, 0.0) - expected.get(key, 0.0)) for key in got.keys() | expected)


def cases(names) -> list:
    """Every verifier with every tree that it serves; the longest enumeration in `make soak`."""
    return [
        pytest.param(
            verifier,
            name,
            id=f"{verifier.name}-{name}",
            marks=[pytest.mark.soak] * ((verifier.name, name) == ("spechub", "uneven levels")),
        )
        for verifier in VERIFIERS.values()
        for name in names
        if int(Tree(TREES[name]).num_children.max()) <= (verifier.max_children or len(TREES[name]))
        and (name in FEW or verifier.distinct)
    ]


@pytest.mark.parametrize(
    ("verifier", "name", "num_tokens", "num", "whole"),
    [
        (VERIFIERS["traversal"], "uneven levels", 2, 4, False),
        (VERIFIERS["lookahead"], "two children", 3, 3, False),
        (VERIFIERS["naive"], "chain of 1", 3, 2, True),
        (UnlikelyDropped(), "two children", 3, 3, False),
    ],
)
def test_the_law_by_steps_is_that_of_all_ways_to_the_end(verifier, name, num_tokens, num, whole):
    """The checks below, whose states meet again, see what they would see without that; of what is
    biased, too."""
    decode, _ = table_decoding(num_tokens, verifier, TREES[name], num, whole=whole)
    assert distance(law_by_steps(decode), law(to_the_end(decode))) < EXACT


@pytest.mark.parametrize(("verifier", "name"), cases(TREES))
def test_law_of_three_tokens_is_the_targets(verifier, name):
    """One to three steps over a vocabulary of three, trees cut to the tokens still wanted."""
    assert distance(*loop_law(3, verifier, TREES[name], 3)) < EXACT


@MANY_TOKENS
@pytest.mark.parametrize(("verifier", "name"), cases(TREES))
def test_law_of_many_tokens_is_the_targets(verifier, name, num_new):
    """Up to as many steps, over a vocabulary of two: the caches are kept and used again."""
    assert distance(*loop_law(2, verifier, TREES[name], num_new)) < EXACT


@pytest.mark.parametrize(
    ("verifier", "name"), cases(["chain of 3", "two children", "a leaf beside a branch"])
)
def test_law_is_the_targets_when_every_tree_is_drafted_whole(verifier, name):
    assert distance(*loop_law(3, verifier, TREES[name], 2, whole=True)) < EXACT


@pytest.mark.parametrize(("verifier", "name"), cases(FEW))
def test_law_is_the_targets_when_the_draft_has_its_own_temperature(verifier, name, monkeypatch):
    own = SAMPLING.model_copy(update={"draft_temperature": 0.5})
    monkeypatch.setattr(f"{__name__}.SAMPLING", own)
    assert distance(*loop_law(3, verifier, TREES[name], 2)) < EXACT


@pytest.fixture
def penalty(monkeypatch):
    penal = SAMPLING.model_copy(update={"repetition_penalty": 1.7})
    monkeypatch.setattr(f"{__name__}.SAMPLING", penal)


@pytest.mark.parametrize(("verifier", "name"), cases(["lone root", *FEW]))
def test_law_is_the_targets_under_a_repetition_penalty(verifier, name, penalty):
    """A node's distributions depend on all tokens before it, those on its own path among them."""
    assert distance(*loop_law(4, verifier, TREES[name], 2)) < EXACT


def test_the_exact_check_sees_a_penalty_that_overlooks_drafted_tokens(penalty, monkeypatch):
    def overlooking(text, tree, nodes, vocab_size):
        return held_by(text, vocab_size, tree.tokens.device).expand(len(nodes), -1)

    monkeypatch.setattr("runtime.session.held_at_nodes", overlooking)
    assert distance(*loop_law(4, VERIFIERS["rrsw"], TREES["two children"], 3)) > 1e-3


@pytest.mark.parametrize("verifier", BROKEN, ids=lambda verifier: type(verifier).__name__)
def test_the_exact_check_sees_what_is_biased(verifier):
    assert distance(*loop_law(3, verifier, TREES["two children"], 2)) > 1e-3


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_exact_check_sees_a_mistake_in_verifying_from_the_leaves(mistake):
    verifier = FromTheLeaves(mistake)
    assert any(distance(*loop_law(3, verifier, TREES[name], 2, whole=True)) > 1e-3 for name in FEW)


def chi_square(
    verifier, policy, num_sequences: int, *, num_tokens: int = 5, seed: int = 2, drafts_by=None
) -> float:
    """p-value of so many decoded texts of 3 tokens under the target's law, cells under 5 merged.

    drafts_by  makes the draft of the target; None: another table
    """
    num_new, target = 3, table(num_tokens, seed=seed)
    draft = table(num_tokens, seed=seed + 1, order=1) if drafts_by is None else drafts_by(target)
    exact = autoregressive_law(target, num_new)
    session = Session(
        target,
        draft,
        verifier=verifier,
        sampling=SAMPLING,
        rng=seeded_source(0, torch.device("cpu")),
    )
    session.prefill(PROMPT)
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(num_sequences):
        session.rewind(len(PROMPT))
        while (left := len(PROMPT) + num_new - len(session.tokens)) > 0:
            session.step(policy, max_tokens=left)
        counts[tuple(session.tokens[len(PROMPT) :][:num_new])] += 1
    if not counts.keys() <= exact.keys():
        return 0.0
    expected = np.array(list(exact.values())) * num_sequences
    observed = np.array([counts[sequence] for sequence in exact])
    rare = expected < 5
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())
    filled = expected > 0
    statistic = ((observed - expected)[filled] ** 2 / expected[filled]).sum()
    return float(chi2.sf(statistic, filled.sum() - 1))


@pytest.mark.parametrize(
    "num_sequences", [NUM_SEQUENCES, pytest.param(MANY_SEQUENCES, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_sequences_follow_the_targets_law(verifier, num_sequences):
    parents = TREES["chain of 3" if verifier.max_children == 1 else "uneven levels"]
    assert chi_square(verifier, FixedTree(Tree(parents)), num_sequences) > LEVEL


def test_the_statistical_check_sees_what_is_biased():
    policy = FixedTree(Tree(TREES["uneven levels"]))
    assert chi_square(UnlikelyDropped(), policy, NUM_SEQUENCES) < LEVEL
