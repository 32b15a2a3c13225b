"""One step and the way back: what a round does, and that rewinding undoes it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner import PlannerError, Tree
from planner.documents.sampling import Sampling
from planner.policies.fixed import FixedTree
from runtime import VERIFIERS, HuggingFaceModel, Session, TableModel, Verifier
from runtime.randomness import seeded_source
from tests.runtime.small_models import VOCABULARY, small_model

TREES = [[-1], [-1, 0, 1, 2, 3], [-1, 0, 0, 0], [-1, 0, 0, 1, 1, 2, 3, 3, 5]]
CPU = torch.device("cpu")


def session(target, draft, *, temperature: float = 1.0, verifier: str = "rrsw", seed: int = 0):
    return Session(
        target,
        draft,
        verifier=VERIFIERS[verifier],
        sampling=Sampling(temperature=temperature),
        rng=seeded_source(seed, CPU),
        capacity=4,
    )


def pair(draft_seed: int = 0) -> tuple[HuggingFaceModel, HuggingFaceModel]:
    """Two tables; with seed 0 the draft is the target, so that much is accepted."""
    return (
        HuggingFaceModel(small_model("llama")),
        HuggingFaceModel(small_model("llama", seed=draft_seed)),
    )


@pytest.mark.parametrize("parents", TREES)
def test_a_step_records_what_it_did(parents):
    tree = Tree(parents)
    state = session(*pair())
    assert state.prefill([1, 2, 3]) >= 0
    for _ in range(5):
        before = list(state.tokens)
        step = state.step(FixedTree(tree))
        assert state.tokens == before + list(step.tokens)
        assert step.num_nodes == tree.num_nodes
        assert step.widths == tuple(tree.widths)
        assert len(step.draft_ms) == len(step.widths)
        assert len(step.tokens) == len(step.path) + 1 == len(step.ranks) + 1
        assert [0, *step.path][:-1] == [tree.parents[node] for node in step.path]
        assert list(step.ranks) == [tree.ranks[node] for node in step.path]
        parts = sum(step.draft_ms) + step.verify_ms + step.accept_ms
        assert 0 < parts <= step.total_ms


def test_a_draft_equal_to_the_target_is_always_accepted_at_temperature_zero():
    state = session(*pair(), temperature=0.0)
    state.prefill([5, 6])
    for _ in range(4):
        assert state.step(FixedTree(Tree([-1, 0, 1, 2]))).ranks == (0, 0, 0)


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_all_verifiers_are_one_verifier_at_temperature_zero(verifier):
    """The children are the draft's most probable tokens, not one token and then chance."""
    target, draft = pair(draft_seed=3)
    tree = FixedTree(Tree([-1, *[0] * 40]))
    state = session(target, draft, temperature=0.0, verifier=verifier)
    reference = session(target, draft, temperature=0.0, verifier="topk", seed=9)
    for each in (state, reference):
        each.prefill([5, 6])
    for _ in range(6):
        assert state.step(tree).ranks == reference.step(tree).ranks


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_children_at_temperature_zero_are_the_drafts_most_probable_tokens(verifier):
    """The target's choice, token 1, is the draft's third choice of 60."""
    target = TableModel(torch.eye(60)[1])
    draft = TableModel(torch.linspace(3, 0, 60)[torch.tensor([1, 2, 0, *range(3, 60)])])
    for num_children, ranks in ((1, ()), (2, ()), (3, (2,)), (9, (2,))):
        state = session(target, draft, temperature=0.0, verifier=verifier)
        state.prefill([0])
        assert state.step(FixedTree(Tree([-1, *[0] * num_children]))).ranks == ranks


def test_the_tree_is_cut_to_the_tokens_still_wanted():
    state = session(*pair(), temperature=0.0)
    state.prefill([5, 6])
    for wanted, num_nodes in ((1, 1), (2, 3), (3, 5), (9, 6)):
        step = state.step(FixedTree(Tree([-1, 0, 0, 1, 1, 3])), max_tokens=wanted)
        assert step.num_nodes == num_nodes
        assert len(step.tokens) <= wanted


@pytest.mark.parametrize("shorter", ["target", "draft"])
def test_nothing_is_drafted_beyond_the_last_position(shorter):
    """A table model refuses nothing, so count the positions that it is asked for."""
    asked: list[int] = []

    class Counting(TableModel):
        def forward(self, tokens, positions, cache, visible=None, *, num_logits=None):
            asked.extend(positions.tolist())
            return super().forward(tokens, positions, cache, visible, num_logits=num_logits)

    limits = {"target": 20, "draft": 20, shorter: 8}
    models = [Counting(torch.zeros(3, 3), max_positions=limits[name]) for name in limits]
    state = session(*models)
    state.prefill([0, 1, 2])
    chain = FixedTree(Tree([-1, 0, 1, 2, 3]))
    while len(state.tokens) <= 8:
        state.step(chain)
    assert max(asked) == 7
    with pytest.raises(PlannerError, match=r"text: got 9 tokens, expected at most 8 positions"):
        state.step(chain)


@pytest.mark.parametrize("num_tokens", [3, 4, 6])
def test_rewinding_and_stepping_again_gives_the_logits_of_a_fresh_start(num_tokens):
    """A text behind a rewind is decoded as from a fresh session over the same tokens."""
    target, draft = pair(draft_seed=0)
    state = session(target, draft, temperature=0.0)
    state.prefill([1, 2, 3])
    tree = FixedTree(Tree([-1, 0, 0, 1, 1, 2, 3]))
    for _ in range(4):
        state.step(tree)
    decoded = list(state.tokens)
    state.rewind(num_tokens)
    assert state.tokens == decoded[:num_tokens]
    for _ in range(2):
        state.step(tree)
    length = min(len(state.tokens), len(decoded))
    assert state.tokens[:length] == decoded[:length]


def test_rewinding_leaves_the_caches_exactly_as_they_were():
    """Bit for bit: the next step's distributions are those of the first try."""
    target, draft = pair(draft_seed=3)
    seen: list[torch.Tensor] = []

    class Spy(Verifier):
        name = "spy"

        def sample(self, q, k, rng):
            seen.append(q.clone())
            return VERIFIERS["topk"].sample(q, k, rng)

        def verify(self, p, q, drafts, rng):
            seen.append(p.clone())
            return VERIFIERS["topk"].verify(p, q, drafts, rng)

    state = session(target, draft)
    state._verifier = Spy()
    state.prefill(list(range(20)))
    tree = FixedTree(Tree([-1, 0, 0, 1, 2, 2]))
    lone_root = FixedTree(Tree([-1]))
    tries = []
    for policy in (tree, lone_root, tree, FixedTree(Tree([-1, 0, 1, 2])), tree):
        seen.clear()
        state.step(policy)
        if policy is tree:
            tries.append([tensor.clone() for tensor in seen[:3]])  # both draft passes, the root
        state.rewind(20)
    for other in tries[1:]:
        assert all(torch.equal(a, b) for a, b in zip(tries[0], other, strict=True))


def test_a_draft_that_fell_behind_reads_what_it_missed():
    """After lone-root steps the draft proposes as if it had read along."""
    target, draft = pair()
    state = session(target, draft, temperature=0.0)
    state.prefill([7, 8, 9])
    for _ in range(5):
        state.step(FixedTree(Tree([-1])))
    step = state.step(FixedTree(Tree([-1, 0, 1, 2])))
    assert step.ranks == (0, 0, 0)  # the draft is the target


def test_prefill_starts_over():
    state = session(*pair(), temperature=0.0)
    tree = FixedTree(Tree([-1, 0, 0, 1]))
    state.prefill([7, 8, 9])
    first = [state.step(tree).tokens for _ in range(3)]
    state.prefill([1])
    state.step(tree)
    state.prefill([7, 8, 9])
    assert [state.step(tree).tokens for _ in range(3)] == first


@pytest.mark.parametrize("num_tokens", [0, 5, -1])
def test_rewinding_to_nowhere_is_refused(num_tokens):
    state = session(*pair())
    state.prefill([1, 2, 3, 4])
    with pytest.raises(PlannerError, match=r"num_tokens: got .*, expected 1 to 4 tokens"):
        state.rewind(num_tokens)


def test_a_policy_that_drafts_needs_a_draft_model():
    state = session(pair()[0], None)
    state.prefill([1, 2])
    state.step(FixedTree(Tree([-1])))
    with pytest.raises(PlannerError, match="draft: got none"):
        state.step(FixedTree(Tree([-1, 0])))


def test_tokens_per_step_of_a_static_tree_are_what_acceptance_by_rank_predicts():
    """Context-free tables: every node accepts alike, so G = sum over nodes of the product of the
    acceptance on the path (Sequoia, section 3.1), with acceptance r of `topk` = p of the r-th most
    probable token under q.  400 steps; 5 standard errors of the mean."""
    rng = torch.Generator().manual_seed(0)
    target = TableModel(torch.randn(6, generator=rng).double())
    draft = TableModel(torch.randn(6, generator=rng).double())
    tree = Tree([-1, 0, 0, 1, 1, 2, 3])
    state = session(target, draft, verifier="topk")
    state.prefill([0])
    emitted = []
    for _ in range(400):
        emitted.append(len(state.step(FixedTree(tree)).tokens))
        state.rewind(1)
    logits = [
        model.forward(*[torch.tensor([0])] * 2, model.new_cache(0))[0] for model in (target, draft)
    ]
    p, q = (each.softmax(-1) for each in logits)
    acceptance = p[q.argsort(descending=True)].numpy()
    reach = np.ones(tree.num_nodes)
    for node in range(1, tree.num_nodes):
        reach[node] = reach[tree.parents[node]] * acceptance[tree.ranks[node]]
    error = np.std(emitted) / len(emitted) ** 0.5
    assert abs(np.mean(emitted) - reach.sum()) < 5 * error


def test_vocabulary_is_the_small_models():
    assert pair()[0].vocab_size == VOCABULARY
