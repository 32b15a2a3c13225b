"""The trees that a report keeps are those that were drafted, and keeping them changes nothing."""

from __future__ import annotations

import pytest
import torch

from planner import Plan, PlannerError, Report
from planner.documents.sampling import Sampling
from planner.plans.plan import TreeDrafting
from planner.policies import Drafting, ThresholdDrafting
from planner.verifiers import VERIFIERS
from runtime import Decoder, Session, TableModel, decode_prompts
from runtime.decode import prompt_seed
from runtime.draft_tree import DraftTree
from runtime.ending import Ending
from runtime.randomness import seeded_source
from runtime.step_trees import reached_by_the_draft
from runtime.writer import Wanted
from tests.documents import samples

VOCABULARY = 5
RNG = torch.Generator().manual_seed(3)
TARGET, DRAFT = (
    TableModel(torch.randn(VOCABULARY, VOCABULARY, generator=RNG, dtype=torch.float64), name=name)
    for name in ("target", "draft")
)
SAMPLING = Sampling(temperature=0.8)
GROWING = ThresholdDrafting(num_nodes=7, max_depth=3, max_children=3, threshold=0.1)
PROMPTS = [[1, 2], [3], [4, 0, 1]]
FIXED = TreeDrafting(parents=[-1, 0, 0, 1, 1, 2])


def report(drafting: Drafting = GROWING, *, readable: bool = True) -> Report:
    plan = Plan(drafting=drafting, verifier="rrsw", sampling=SAMPLING)
    to_text = (lambda tokens: "".join("abcde"[token] for token in tokens)) if readable else None
    return decode_prompts(plan, TARGET, DRAFT, PROMPTS, max_new_tokens=30, to_text=to_text)


@pytest.mark.parametrize("drafting", [GROWING, FIXED])
def test_three_steps_by_powers_of_two_are_kept_and_the_text_is_the_same_without(drafting):
    kept, plain = report(drafting), report(drafting, readable=False)
    assert plain.trees is None
    assert [each.tokens for each in kept.continuations] == [
        each.tokens for each in plain.continuations
    ]
    decoder = Decoder.from_plan(kept.plan, TARGET, DRAFT)
    drafted = []
    for index, prompt in enumerate(PROMPTS):
        writer = decoder.writer(Wanted(prompt, 30, Ending(frozenset()), prompt_seed(0, index)))
        list(writer.steps())
        drafted += [(index, n) for n, one in enumerate(writer.run.steps) if one.num_nodes > 1]
    most = len(drafted).bit_length()
    expected = [drafted[2**power - 1] for power in range(most - 3, most)]
    assert [(each.continuation, each.step) for each in kept.trees] == expected


@pytest.mark.parametrize("drafting", [GROWING, FIXED])
def test_what_was_accepted_is_what_the_text_goes_on_with(drafting):
    kept = report(drafting)
    for each in kept.trees:
        one = kept.continuations[each.continuation]
        start, num = sum(one.tokens_by_step[: each.step]), one.tokens_by_step[each.step]
        emitted = "".join([*(each.tokens[node] for node in each.path), each.bonus])
        written = one.text[start : start + num]
        assert emitted[:num] == written
        assert len(emitted) == num or each.step == len(one.tokens_by_step) - 1  # cut at 30 tokens
        assert each.before.endswith(one.text[:start][-12:])
        assert each.tokens[0] == each.before[-1]


def test_reach_is_the_product_of_the_drafts_chances():
    """The table's own softmax, token by token from the root down."""
    table = torch.softmax(DRAFT._table / SAMPLING.temperature, -1)
    for each in report().trees:
        tokens = ["abcde".index(token) for token in each.tokens]
        expected = [1.0]
        for node in range(1, len(tokens)):
            parent = each.parents[node]
            expected.append(expected[parent] * float(table[tokens[parent], tokens[node]]))
        assert each.reach == pytest.approx(expected, rel=6e-3)  # three digits are kept


def test_a_session_shows_the_tree_of_its_last_step():
    session = Session(TARGET, DRAFT, verifier=VERIFIERS["rrsw"], sampling=SAMPLING,
                      rng=seeded_source(0, TARGET.device))  # fmt: skip
    session.prefill([1, 2])
    assert session.tree is None
    record = session.step(GROWING.policy(deterministic=False))
    assert isinstance(session.tree, DraftTree)
    assert session.tree.num_nodes == record.num_nodes
    reach = reached_by_the_draft(session.tree)
    assert all(reach[node] <= reach[session.tree.parents[node]] for node in range(1, len(reach)))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"parents": [-1, 1, 0]}, r"a tree in level order"),
        ({"tokens": ["a"]}, r"tokens of 3 entries, one a node, not 1"),
        ({"path": [2, 1]}, r"path of children from the root down, not \[2, 1\]"),
        ({"step": 2}, r"trees of steps that there were, not of step 2 of continuation 0"),
    ],
)
def test_trees_that_cannot_be_are_refused(change, fault):
    content = samples.report_content()
    tree = {
        "continuation": 0, "step": 1, "before": "x", "parents": [-1, 0, 0],
        "tokens": ["a", "b", "c"], "reach": [1.0, 0.5, 0.25], "path": [2], "bonus": "d",
    }  # fmt: skip
    Report.parse(content | {"trees": [tree]}, "sample")
    with pytest.raises(PlannerError, match=fault):
        Report.parse(content | {"trees": [tree | change]}, "sample")
