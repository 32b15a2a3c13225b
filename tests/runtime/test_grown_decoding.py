"""Trees that grow while they are drafted, through `Decoder` and `Session` on real passes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner import Plan, PlannerError, Report
from planner.documents.sampling import Sampling
from planner.policies import ConfidentDrafting
from planner.policies.compiled.drawn import drawn_values
from planner.policies.policy import FEATURES, Request
from planner.show.document_text import render
from runtime import VERIFIERS, Decoder, Session, TableModel, decode_prompts
from runtime.candidates import features, shown
from runtime.draft_tree import DraftTree, Room
from runtime.randomness import seeded_source
from tests.policies.settings import chains, trees
from tests.runtime.small_models import small_model

CPU = torch.device("cpu")
PROMPT = [11, 42, 7, 3, 19]
SURE = 0.06
"""Sure, as models of random weights go: their largest entries lie between .05 and .2."""
CHAINS = chains(6)
del CHAINS["stop by head"]
WAYS = trees(12, 3) | CHAINS
WAYS["confident"] = ConfidentDrafting(max_depth=6, confidence=SURE)


def plan(way: str, *, verifier: str = "rrsw", temperature: float = 0.0) -> Plan:
    return Plan(drafting=WAYS[way], verifier=verifier, sampling=Sampling(temperature=temperature))


def models():
    return small_model("llama"), small_model("llama", seed=1, layers=1, hidden=16)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("draft", ["another", "itself"])
def test_greedy_decoding_is_the_targets_own(way, draft):
    target, other = models()
    ids = torch.tensor([PROMPT])
    expected = target.generate(ids, do_sample=False, max_new_tokens=30, pad_token_id=0)
    decoder = Decoder.from_plan(plan(way), target, target if draft == "itself" else other)
    got = decoder.generate(ids, max_new_tokens=30)
    assert got.tokens == expected[0, len(PROMPT) :].tolist()
    if draft == "itself":
        assert got.report.measured.tokens_per_step > 1.5


@pytest.mark.parametrize("way", WAYS)
def test_the_same_seed_gives_the_same_tokens_and_another_seed_others(way):
    """Policies that learn from a text start anew with the next one."""
    decoder = Decoder.from_plan(plan(way, temperature=1.0), *models())
    runs = [decoder.generate(PROMPT, max_new_tokens=20, seed=seed).tokens for seed in (3, 3, 4)]
    if way != "price online":  # it follows the clock
        assert runs[0] == runs[1] != runs[2]


class Scripted:
    """Asks for what it is told to, answer by answer."""

    columns: tuple[str, ...] = ()

    def __init__(self, answers: list[list[Request]], num_nodes: int, max_children: int) -> None:
        self.answers, self.num_nodes, self.num_candidates = answers, num_nodes, max_children
        self.seen: list[list[int]] = []

    def start(self, max_depth: int) -> None:
        self._left = list(self.answers)

    def grow(self):
        return self._left.pop(0) if self._left else []

    def expanded(self, nodes, drawn, features) -> None:
        self.seen.append(list(nodes))

    def verified(self, path, step_ms) -> None:
        pass


MIXED = [
    [(0, 1)],  # 1
    [(0, 1), (1, 1)],  # 2 beside 1, 3 below 1
    [(3, 0), (2, 2), (0, 1)],  # passes of depths 2 and 1 at once; 4, 5 below 2; 6 beside 2
    [(1, 1), (3, 1), (5, 1), (8, 0)],  # 7 beside 3; 8 below 3, expanded at once; 9 below 5
    [(8, 1), (9, 0), (1, 1)],  # 10 below 8; 11 beside 7
]
PARENTS = [-1, 0, 0, 1, 2, 2, 0, 1, 3, 5, 8, 1]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_nodes_in_any_order_are_passed_and_kept_right(temperature):
    """Passes of mixed depth, children added later, siblings not numbered side by side: the table
    model checks every mask, position and kept row, and the law of large trees is checked where
    they are accepted whole, the draft being the target."""
    rng = torch.Generator().manual_seed(0)
    table = TableModel(torch.randn(4, 4, 4, generator=rng, dtype=torch.float64) * 3)
    policy = Scripted(MIXED, num_nodes=12, max_children=3)
    session = Session(
        table,
        table,
        verifier=VERIFIERS["rrsw"],
        sampling=Sampling(temperature=temperature),
        rng=seeded_source(0, CPU),
    )
    session.prefill([1, 0])
    depths = [0]
    for parent in PARENTS[1:]:
        depths.append(depths[parent] + 1)
    for _ in range(40):
        step = session.step(policy)
        assert step.num_nodes == len(PARENTS)
        assert step.depth == max(depths) == 4
        assert step.widths == (1, 1, 2, 2, 1) == tuple(map(len, policy.seen[-5:]))
        assert [PARENTS[node] for node in step.path] == [0, *step.path][:-1]
        for node, rank in zip(step.path, step.ranks, strict=True):
            assert rank == PARENTS[:node].count(PARENTS[node])
    assert session.tokens[:2] == [1, 0]


MANY = "node 0: got 3 children asked for, expected at most 2"


def test_asking_for_more_children_than_candidates_is_a_fault_of_the_policy():
    """Before they are drawn, and afterwards."""
    q, tokens = torch.full((1, 5), 0.2), torch.tensor([3, 4])
    tree = DraftTree(7, Room(CPU))
    tree.add([(0, 3)])
    with pytest.raises(ValueError, match=MANY):
        tree.draw([0], q, [2], tokens)
    tree = DraftTree(7, Room(CPU))
    tree.add([(0, 1)])
    tree.draw([0], q, [2], tokens)
    with pytest.raises(ValueError, match=MANY):
        tree.add([(0, 2)])


def test_a_large_tree_keeps_what_it_knew():
    """Beyond the first capacity; tokens of children revealed before and after their draws."""
    tree = DraftTree(7, Room(CPU))
    q = torch.full((1, 500), 1 / 500)
    tree.add([(0, 3)])
    tree.draw([0], q, [100], torch.arange(100, 200))
    tree.add([(0, 90)])
    tree.add([(2, 5)])
    tree.draw([2], q, [100], torch.arange(300, 400))
    assert tree.tokens.tolist() == [7, *range(100, 193), *range(300, 305)]
    assert tree.depths.tolist() == [0, *[1] * 93, *[2] * 5]
    assert tree.ancestors.sum(axis=1).tolist() == [1, *[2] * 93, *[3] * 5]
    assert tree.ancestors[94:, 2].all()


def test_drawn_values_are_chances_of_the_draw():
    """q = (.5, .3, .2): drawn in the order 1, 2, 0 they had chances .3, .2/.7, .5/.5."""
    mass = np.array([[0.3, 0.2, 0.5]])
    distinct = drawn_values(mass, distinct=True)
    assert distinct[0].tolist() == pytest.approx([0.3, 0.2 / 0.7, 1.0])
    assert drawn_values(mass, distinct=False)[0].tolist() == [0.3, 0.2, 0.5]


def test_a_token_drawn_only_because_nothing_else_is_left_had_no_chance():
    """float32 leaves some 1e-8 behind, which is nothing."""
    mass = np.array([[0.3, 0.7, 0.0], [1.0, 0.0, 0.0]], np.float32).astype(np.float64)
    drawn = drawn_values(mass, distinct=True)
    assert drawn[0].tolist() == pytest.approx([0.3, 1.0, 0.0], abs=1e-6)
    assert drawn[1].tolist() == [1.0, 0.0, 0.0]


def test_features_are_of_the_whole_distribution_and_only_what_is_asked_for():
    q = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]], dtype=torch.float64)
    every = features(q, FEATURES, torch.tensor([0.3, 0.9]))
    assert every[:, 0].tolist() == [0.5, 0.5]
    assert every[:, 1].tolist() == pytest.approx([np.log(2), 1.5 * np.log(2)])
    assert every[:, 2].tolist() == [0.5, 0.375]
    assert every[:, 3].tolist() == pytest.approx([0.3, 0.9])
    assert features(q, ()).shape == (2, 0)


def test_a_rule_is_shown_what_was_drawn_and_the_columns_that_it_asks_for():
    q = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]])
    candidates = torch.tensor([[1, 2], [2, 0]])
    seen = shown(q, candidates, ("score", "collision"), torch.tensor([0.25, 0.75]), distinct=True)
    np.testing.assert_allclose(seen.drawn, [[0.3, 0.2 / 0.7], [0.9, 1.0]], atol=1e-6)
    np.testing.assert_allclose(seen.features[:, 2:], [[0.38, 0.25], [0.82, 0.75]], atol=1e-6)
    assert np.isnan(seen.features[:, :2]).all()
    nothing = shown(q, candidates, (), distinct=False)
    assert np.isnan(nothing.features).all()
    np.testing.assert_allclose(nothing.drawn, [[0.3, 0.2], [0.9, 0.1]], atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_heads_word_may_be_of_any_precision(dtype):
    q, candidates = torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[1, 2]])
    score = torch.tensor([0.3], dtype=dtype)
    seen = shown(q, candidates, ("score",), score, distinct=True)
    assert seen.features[0, -1] == float(score)


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_the_host_the_same_is_shown_as_from_a_gpu(dtype, distinct):
    """One compiled pass against tensor operations; also where q is used up."""
    rng = torch.Generator().manual_seed(1)
    q = torch.randn(40, 30, generator=rng, dtype=dtype).mul(4).softmax(-1)
    q[0], q[1] = torch.eye(30, dtype=dtype)[:2]
    candidates = torch.stack([torch.randperm(30, generator=rng)[:9] for _ in q])
    candidates[0], candidates[1] = torch.arange(9), torch.arange(9)
    score = torch.rand(40, generator=rng, dtype=dtype)
    seen = shown(q, candidates, FEATURES, score, distinct=distinct)
    eps = torch.finfo(dtype).eps
    mass = q.gather(-1, candidates).double().numpy()
    # what is left is a difference of nine numbers of at most 1
    close = {"rtol": 20 * eps, "atol": 0} if not distinct else {"rtol": 1e-8, "atol": 1e-14}
    np.testing.assert_allclose(seen.drawn, drawn_values(mass, distinct=distinct), **close)
    np.testing.assert_allclose(seen.features, features(q, FEATURES, score), rtol=0, atol=40 * eps)


@pytest.mark.parametrize("way", ["greedy", "heuristic"])
def test_the_report_says_how_trees_differed(way, tmp_path):
    report = decode_prompts(
        plan(way, temperature=0.7), *models(), [PROMPT, PROMPT[:2]], max_new_tokens=20
    )
    measured = report.measured
    for counts, total in (
        (measured.steps_by_nodes, measured.num_drafted + measured.num_steps),
        (measured.steps_by_depth, None),
    ):
        assert counts is not None
        assert sum(counts) == measured.num_steps
        if total is not None:
            assert sum(n * count for n, count in enumerate(counts)) == total
    wasted = measured.num_drafted - measured.num_accepted
    assert measured.discard_rate == wasted / measured.num_tokens
    assert measured.verification_rate == measured.num_steps / measured.num_tokens
    report.save(tmp_path / "report.json")
    again = Report.load(tmp_path / "report.json")
    assert again == report
    for text in report.continuations:
        assert len(text.ms_by_step) == len(text.tokens_by_step)
        assert abs(sum(text.ms_by_step) - text.decode_ms) <= 0.0005 * len(text.ms_by_step) + 1e-9
    shown = render(again)
    assert f"{measured.discard_rate:.3f}" in shown
    assert f"{measured.verification_rate:.3f}" in shown
    assert "nodes verified" in shown
    assert "levels drafted" in shown


def test_more_candidates_than_tokens_are_refused():
    model = TableModel(torch.zeros(2))
    with pytest.raises(PlannerError, match=r"drafting.max_children: got 3 children"):
        Decoder.from_plan(plan("greedy"), model, model)


def test_a_head_needs_a_draft_that_shows_its_hidden_states():
    model = TableModel(torch.zeros(3, 3))
    session = Session(
        model,
        model,
        verifier=VERIFIERS["chain"],
        sampling=Sampling(temperature=1.0),
        rng=seeded_source(0, CPU),
        score=lambda hidden: hidden[:, 0],
    )
    session.prefill([0])
    policy = chains(3)["stop by head"].policy(deterministic=False)
    with pytest.raises(PlannerError, match="draft: got table, which does not give its hidden"):
        session.step(policy)
