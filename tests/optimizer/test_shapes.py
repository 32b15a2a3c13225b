"""Given shapes under given verifiers: graded as plans of the same trees are."""

from __future__ import annotations

import pytest

from planner import Plan, PlannerError
from planner.documents.sampling import Sampling
from planner.export.tree_words import tree_of_words
from planner.optimizer.choice import Question
from planner.optimizer.given import graded_beside
from planner.optimizer.shapes import graded_shapes
from planner.policies import TreeDrafting
from tests.export.made_up import profile_at
from tests.optimizer import factory

RATES = [0.5, 0.2, 0.1]
QUESTION = Question()


def flat(*verifiers: str):
    """Acceptance by rank alone, the same everywhere: sums can be worked out by hand."""
    return factory.profile([factory.positional([RATES] * 3, verifier=v) for v in verifiers])


def by_hand(words: str) -> float:
    """Tokens per step of k chains of d and of full k-ary trees, as geometric sums."""
    if "x" in words:
        count, length = map(int, words.split("x"))
        return 1 + sum(RATES[:count]) * sum(RATES[0] ** level for level in range(length))
    count, levels = map(int, words.split("^"))
    return sum(sum(RATES[:count]) ** level for level in range(levels + 1))


@pytest.mark.parametrize("words", ["1x4", "3x2", "2x5", "2^3", "3^2", "1^4"])
def test_tokens_are_the_geometric_sums(words):
    ((_, one),) = graded_shapes({words: tree_of_words(words)}, flat("rrsw"), QUESTION).graded
    assert one.tokens_per_step.value == pytest.approx(by_hand(words), rel=1e-12)
    # factory.costs: verify 10, a draft pass 1, overhead .1; a token alone 10
    step = 10 + one.tree.depth + 0.1
    assert one.step_ms.value == pytest.approx(step)
    assert one.speedup.value == pytest.approx(by_hand(words) * 10 / step)


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_a_shape_is_worth_what_a_plan_of_it_is(temperature):
    """The twin: planner compare, on traces."""
    profile, sampling = profile_at(temperature), Sampling(temperature=temperature)
    words = ("1x4", "2^2", "2x3")
    trees = {each: tree_of_words(each) for each in words}
    shapes = graded_shapes(trees, profile, Question(sampling=sampling), verifiers=["topk"])
    assert [name for name, _ in shapes.graded] == list(words)
    plans = {
        name: Plan(
            drafting=TreeDrafting(parents=tree.parents.tolist()), verifier="topk", sampling=sampling
        )
        for name, tree in trees.items()
    }
    standings = graded_beside(plans, profile, Question(solver="fixed"))
    compared = {each.name: each.candidate for each in standings}
    for name, one in shapes.graded:
        assert one.predicted == compared[name].predicted


def test_all_verifiers_are_asked_but_those_that_cannot_serve_a_tree():
    shapes = graded_shapes(
        {"3x1": tree_of_words("3x1"), "1x2": tree_of_words("1x2")},
        flat("rrsw", "spechub", "chain"),
        QUESTION,
    )
    served = {(name, one.verifier) for name, one in shapes.graded}
    assert served == {
        ("3x1", "rrsw"), ("1x2", "rrsw"), ("1x2", "spechub"), ("1x2", "chain"),
    }  # fmt: skip
    assert sorted(shapes.refused) == [
        "3x1, chain: serves at most 1 children a node, not 3",
        "3x1, spechub: serves at most 2 children a node, not 3",
    ]


def test_of_one_shape_the_fastest_verifier_comes_first():
    better = factory.positional([[0.7, 0.2]] * 3, verifier="naive")
    profile = factory.profile([factory.positional([[0.5, 0.2]] * 3), better])
    shapes = graded_shapes({"2x2": tree_of_words("2x2")}, profile, QUESTION)
    assert [one.verifier for _, one in shapes.graded] == ["naive", "rrsw"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [("4x1", "4 children, but the profile's acceptance has 3 ranks"), ("1x40", "got 41, but the")],
)
def test_what_was_not_measured_is_refused_where_nothing_else_is_asked(words, fault):
    tree = {words: tree_of_words(words)}
    with pytest.raises(PlannerError, match=fault):
        graded_shapes(tree, flat("rrsw"), QUESTION)
    both = graded_shapes(tree | {"2x1": tree_of_words("2x1")}, flat("rrsw"), QUESTION)
    assert [name for name, _ in both.graded] == ["2x1"]
    assert len(both.refused) == 1


def test_unknown_verifiers_are_named():
    with pytest.raises(PlannerError, match="measured only rrsw"):
        graded_shapes({"1x1": tree_of_words("1x1")}, flat("rrsw"), QUESTION, verifiers=["kseq"])
