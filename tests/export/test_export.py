"""Every engine's file says what was planned for what the engine does."""

from __future__ import annotations

import ast
import json
from dataclasses import replace

import pytest

from planner import Plan, PlannerError, Tree
from planner.documents.engine import EngineFacts
from planner.documents.sampling import Sampling
from planner.estimates.step_costs import SharedErrors, step_costs
from planner.export import ENGINES, WITHOUT_MIN_P, export, sglang, trtllm
from planner.export.task import Task
from planner.export.ways import ASSISTED_CHAIN, CONFIDENT_CHAIN, MATCHED_TREE
from planner.optimizer import solve
from planner.optimizer.choice import Question, rank_candidates
from planner.policies import ConfidentDrafting, DynamicDrafting, TreeDrafting
from tests.optimizer import factory
from tests.optimizer.choosing import random_traces
from tests.optimizer.recorded_trees import in_profile, made_up

from .made_up import CHAINS, TABLES, costs, flags, profile_at

TREES = ("vllm-tree", "medusa", "eagle")


def planned(profile, *ways: tuple[str, str], batch_size: int = 1):
    """The fastest of (solver, verifier), the slow way: everything ranked."""
    found = [
        rank_candidates(profile, Question(solver=solver, verifier=verifier, batch_size=batch_size))[
            0
        ]
        for solver, verifier in ways
    ]
    return max(found, key=lambda each: each.tokens_per_ms)


def test_a_chain_for_vllm_is_the_fastest_of_either_sampling(profile, plan):
    result = export(plan, "vllm", profile=profile)
    config = json.loads(result.content)
    best = planned(profile, ("chain", "chain"), ("chain", "topk"))
    assert best.verifier == result.plan.verifier == "chain"
    assert config["draft_sample_method"] == "probabilistic"
    assert config["method"] == "draft_model"
    assert config["model"] == plan.made_from.draft.name
    assert result.plan.predicted == best.predicted
    longest = config["num_speculative_tokens"]
    assert longest == best.drafting.most_nodes - 1
    ranges = config["num_speculative_tokens_per_batch_size"]
    by_size = {}
    for first, last, tokens in ranges:
        assert first == len(by_size) + 1  # from 1, without gaps
        by_size |= {size: min(tokens, longest) for size in range(first, last + 1)}
    assert list(by_size) == list(range(1, 17))
    for size in (1, 4, 16):
        best = planned(profile, ("chain", "chain"), batch_size=size)
        assert by_size[size] == best.drafting.most_nodes - 1
    assert by_size[1] > by_size[16]
    assert by_size[2] == by_size[4]


def test_one_batch_size_gives_one_length(profile, plan):
    alone = profile.model_copy(update={"costs": profile.costs[:1]})
    plan = plan.model_copy(update={"made_from": None})
    result = export(plan, "vllm", profile=alone)
    assert "num_speculative_tokens_per_batch_size" not in result.content
    assert any("only 1 is known" in note for note in result.notes)
    assert any("--draft" in note for note in result.notes)  # which the plan does not name
    assert '"model": "mine"' in export(plan, "vllm", profile=alone, draft="mine").content


def test_chains_for_tensorrt_shorten_by_upper_bounds(profile, plan):
    yaml = pytest.importorskip("yaml")
    result = export(plan, "trtllm", profile=profile)
    config = yaml.safe_load(result.content)["speculative_config"]
    lengths = config["draft_len_schedule"]
    assert list(lengths) == sorted(lengths)
    assert lengths[min(lengths)] == config["max_draft_len"] == max(lengths.values())
    for size in (1, 4, 16):
        best = planned(profile, ("chain", "topk"), batch_size=size)
        upper = next(last for last in lengths if size <= last)
        assert lengths[upper] == best.drafting.most_nodes - 1
    assert config["decoding_type"] == "Draft_Target"
    assert config["speculative_model"] == plan.made_from.draft.name


def test_lengths_for_sglang_are_by_batch_size(profile, plan):
    slots = json.loads(export(plan, "sglang-adaptive", profile=profile).content)
    assert list(slots) == ["1", "4", "16"]
    for size, slot in slots.items():
        best = planned(profile, ("chain", "topk"), batch_size=int(size))
        assert slot["candidate_steps"] == [best.drafting.most_nodes - 1]


def best_in_wide_passes(profile, width) -> tuple[Tree, float, float]:
    """(tree, its step in ms, tokens per ms) where every pass below the root is `width(tree)` wide,
    the slow way."""
    found = []
    costs = step_costs(profile, verifier="topk")
    for each in rank_candidates(profile, Question(solver="fixed", verifier="topk")):
        tree = each.tree
        if each.speculates and (tree.depth == 1 or width(tree) <= costs.draft.last):
            ms = costs.draft_root.ms + costs.verify_ms(tree.num_nodes)
            ms += costs.overhead_ms(tree.num_nodes)
            ms += sum(costs.draft_ms(width(tree)) for _ in range(tree.depth - 1))
            found.append((tree, ms, each.tokens_per_step.value / ms))
    return max(found, key=lambda each: each[2])


def test_passes_of_a_width_of_their_own_are_as_unsure_as_others(profile):
    """Where that width is the tree's, a step takes what it takes here, with the same errors."""
    costs = replace(step_costs(profile, verifier="topk"), shared=SharedErrors(0.3))
    found = rank_candidates(profile, Question(solver="chain", verifier="topk"))
    chain = next(each for each in found if each.speculates)
    timed = replace(MATCHED_TREE, width=lambda tree: 1).timed(chain, costs)
    assert timed.step_ms == costs.step(chain.tree).estimate
    assert timed.speedup.high > chain.speedup.high


@pytest.mark.parametrize("engine", WITHOUT_MIN_P)
def test_vllm_refuses_min_p_and_so_does_its_export(plan, engine):
    cut = plan.sampling.model_copy(update={"min_p": 0.1})
    with pytest.raises(PlannerError, match=r"min-p: got 0\.1, expected none: vLLM refuses"):
        export(plan.model_copy(update={"sampling": cut}), engine)


def test_of_sglang_it_is_said_that_min_p_may_not_cut(plan):
    chain = plan.model_copy(
        update={
            "drafting": TreeDrafting(parents=[-1, 0]),
            "verifier": "topk",
            "made_from": None,
            "predicted": None,
        }
    )
    cut = chain.sampling.model_copy(update={"min_p": 0.1})
    notes = export(chain.model_copy(update={"sampling": cut}), "sglang").notes
    assert any("verify without min-p" in note for note in notes)
    assert not any("min-p" in note for note in export(chain, "sglang").notes)


def test_a_repetition_penalty_is_said(profile, plan):
    penal = plan.sampling.model_copy(update={"repetition_penalty": 1.1})
    chain = {"drafting": TreeDrafting(parents=[-1, 0]), "verifier": "topk", "made_from": None,
             "predicted": None}  # fmt: skip
    made = export(plan.model_copy(update=chain), "vllm")
    other = export(plan.model_copy(update=chain | {"sampling": penal}), "vllm")
    assert other.content == made.content
    (note,) = set(other.notes) - set(made.notes)
    assert "repetition penalty of 1.1" in note


@pytest.mark.parametrize("name", ["sglang", "trtllm-tree"])
def test_one_level_needs_no_pass_as_wide_as_itself(profile, plan, name):
    """A profile of narrow passes and larger trees, of which all late levels cost too much."""
    narrow = factory.costs(root=0.1, draft=lambda width: 50.0, counts=range(1, 17))
    passes = {"draft": narrow.draft.model_copy(
        update={each: getattr(narrow.draft, each)[:2]
                for each in ("counts", "median_ms", "low_ms", "high_ms")}
    )}  # fmt: skip
    profile = profile.model_copy(update={"costs": [narrow.model_copy(update=passes)]})
    result = export(plan.model_copy(update={"made_from": None}), name, profile=profile)
    assert result.plan.tree.depth == 1
    assert result.plan.tree.num_nodes > 3


@pytest.mark.parametrize("engine", [sglang, trtllm])
def test_trees_are_chosen_at_the_width_at_which_the_engine_drafts(profile, plan, engine):
    name = "sglang" if engine is sglang else "trtllm-tree"
    dear = [
        factory.costs(verify=lambda n: 10 + n / 4, draft=lambda width: 0.2 * width,
                      counts=range(1, 17))
    ]  # fmt: skip
    profile = profile.model_copy(update={"costs": dear})
    result = export(plan.model_copy(update={"made_from": None}), name, profile=profile)
    tree, ms, rate = best_in_wide_passes(profile, engine.least_width)
    assert result.plan.tree == tree
    predicted = result.plan.predicted
    assert predicted.step_ms.value == pytest.approx(ms, rel=1e-12)
    assert predicted.speedup.value == pytest.approx(rate * 10, rel=1e-12)
    assert tree != planned(profile, ("fixed", "topk")).tree  # whose late passes are narrow


def test_numbers_for_sglang_keep_its_rules(profile, plan):
    result = export(plan, "sglang", profile=profile)
    given = {name.removeprefix("--speculative-"): each for name, each in flags(result).items()}
    tree = result.plan.tree
    assert given["algorithm"] == "STANDALONE"
    assert int(given["num-steps"]) == tree.depth
    assert int(given["num-draft-tokens"]) == tree.num_nodes  # the root among them
    width = int(given["eagle-topk"])
    assert width >= int(tree.num_children.max())
    assert tree.num_nodes - 1 <= width + (tree.depth - 1) * width**2


def test_tensorrts_tree_keeps_its_rules(profile, plan):
    yaml = pytest.importorskip("yaml")
    result = export(plan, "trtllm-tree", profile=profile)
    config = yaml.safe_load(result.content)["speculative_config"]
    total, width = config["max_total_draft_tokens"], config["dynamic_tree_max_topK"]
    assert total == result.plan.tree.num_nodes - 1
    assert config["max_draft_len"] <= total <= width * config["max_draft_len"]
    assert config["use_dynamic_tree"] is True


def test_paths_have_no_more_ranks_than_there_are(plan):
    """Twelve children below the root would be best."""
    flat = factory.positional([[0.08] * 12] * 2, verifier="topk")
    cheap = factory.costs(verify=lambda n: 10.0, counts=range(1, 17))
    profile = factory.profile([flat], [cheap])
    plan = plan.model_copy(update={"made_from": None})
    assert planned(profile, ("fixed", "topk")).drafting.most_children > 10
    paths = json.loads(export(plan, "medusa", profile=profile).content)
    assert max(max(path) for path in paths) == 9


@pytest.mark.parametrize("engine", TREES)
def test_lists_of_paths_are_the_tree(profile, plan, engine):
    result = export(plan, engine, profile=profile)
    paths = json.loads(result.content)
    if engine == "vllm-tree":
        assert paths["num_speculative_tokens"] == result.plan.tree.num_nodes - 1
        paths = ast.literal_eval(paths["speculative_token_tree"])
    paths = [tuple(path) for path in paths]
    index = {(): 0} | {path: place for place, path in enumerate(paths, start=1)}
    assert [-1, *(index[path[:-1]] for path in paths)] == result.plan.drafting.parents
    solver = "uniform" if engine == "vllm-tree" else "fixed"
    assert result.plan.drafting == planned(profile, (solver, "topk")).drafting
    assert (result.plan.predicted is None) == (engine == "vllm-tree")  # which walks them as a list


def test_assisted_generation_is_tuned(profile, plan):
    """And weighed against chains of one length."""
    either = planned(profile, ("chain", "chain"), ("assisted-tuned", "chain"))
    assert export(plan, "hf", profile=profile).plan.drafting == either.drafting
    tuned = Task("hf", plan, profile).best((ASSISTED_CHAIN,), 1).plan
    assert isinstance(tuned.drafting, DynamicDrafting)
    assert tuned.drafting == planned(profile, ("assisted-tuned", "chain")).drafting
    assert json.loads(export(tuned, "hf").content) == {
        "num_assistant_tokens": tuned.drafting.num_tokens,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": tuned.drafting.confidence,
    }


def test_llamacpps_confidence_is_tuned_where_it_was_measured_itself(profile, plan):
    greedy, cold = profile_at(0.0), plan.model_copy(update={"made_from": None})
    cold = cold.model_copy(update={"sampling": Sampling(temperature=0)})
    either = planned(greedy, ("chain", "topk"), ("confident", "topk"))
    engine = EngineFacts(
        name="llamacpp", version="1", verifier="topk", solvers=["chain", "confident"],
        most_tokens=8, target="target.gguf", draft="draft.gguf",
    )  # fmt: skip
    own = greedy.model_copy(update={"engine": engine})
    assert export(cold, "llamacpp", profile=own).plan.drafting == either.drafting
    chain = planned(greedy, ("chain", "topk"))
    assert export(cold, "llamacpp", profile=greedy).plan.drafting == chain.drafting
    tuned = Task("llamacpp", cold, greedy).best((CONFIDENT_CHAIN,), 1).plan
    assert isinstance(tuned.drafting, ConfidentDrafting)
    assert tuned.drafting == planned(greedy, ("confident", "topk")).drafting
    given = flags(export(tuned, "llamacpp"))
    assert int(given["--spec-draft-n-max"]) == tuned.drafting.max_depth
    assert float(given["--spec-draft-p-min"]) == tuned.drafting.confidence
    warm = export(plan, "llamacpp", profile=profile)
    assert warm.plan.drafting == planned(profile, ("chain", "topk")).drafting
    assert float(flags(warm)["--spec-draft-p-min"]) == 0


def test_grown_chains_need_recorded_trees(profile, plan):
    """Without them, and with those of one text, the chain of one length is what can be graded."""
    plan = plan.model_copy(update={"made_from": None})
    entries = [random_traces(0, "chain"), random_traces(1, "rrsw")]
    bare = factory.profile(entries, [costs(1)])
    for known in (bare, in_profile(bare, made_up(1, lengths=(40,)))):
        result = export(plan, "hf", profile=known)
        assert result.plan.drafting == planned(known, ("chain", "chain")).drafting


def test_synthetic_acceptance_adds_up_to_the_predicted_tokens(profile, plan):
    result = export(plan, "synthetic", profile=profile)
    config = json.loads(result.content)
    rates = config["synthetic_acceptance_rates"]
    assert len(rates) == config["num_speculative_tokens"]
    assert rates == sorted(rates, reverse=True)
    predicted = result.plan.predicted.tokens_per_step.value
    assert 1 + sum(rates) == pytest.approx(predicted, abs=1e-4 * len(rates))
    assert config["rejection_sample_method"] == "synthetic"


def test_the_table_of_times_is_what_was_measured(profile, plan):
    result = export(plan, "sglang-sps", profile=profile)
    table = json.loads(result.content)
    curve = profile.costs[0].verify
    assert table["sample_batch_tokens"] == curve.counts
    expected = [1000 / ms for ms in curve.median_ms]
    assert table["sample_steps_per_sec"] == pytest.approx(expected, abs=1e-3)
    assert table["max_batch_tokens"] == curve.counts[-1]
    assert result.plan is None


def test_at_temperature_zero_every_rule_is_the_same():
    """So the same chain is the best for all that draft chains of one length."""
    profile = profile_at(0.0)
    profile = profile.model_copy(update={"replays": []})
    plan = solve(profile, solver="fixed")
    best = planned(profile, ("chain", "topk"))
    for engine in (*CHAINS, "hf", "llamacpp", "synthetic", "nvidia-profile"):
        result = export(plan, engine, profile=profile)
        assert result.plan.drafting == best.drafting
        assert result.plan.predicted == best.predicted


def test_drafts_that_only_the_temperature_shapes_are_not_taken_for_cut_ones():
    """vLLM cuts the target's distribution alone; acceptance was measured with both cut."""
    cut = {"sampling": Sampling(temperature=0.6, top_p=0.9)}
    entries = [random_traces(0, "chain"), random_traces(1, "topk", scale=0.8)]
    entries = [(entry.model_copy(update=cut), arrays) for entry, arrays in entries]
    profile = factory.profile(entries, [costs(1)])
    plan = Plan(drafting=TreeDrafting(parents=[-1, 0]), verifier="chain", **cut)
    assert '"greedy"' in export(plan, "vllm", profile=profile).content
    assert export(plan, "hf", profile=profile).plan.verifier == "chain"


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - set(TABLES)))
def test_not_to_speculate_is_no_setting(engine):
    alone = Plan(
        drafting=TreeDrafting(parents=[-1]), verifier="rrsw", sampling=Sampling(temperature=0.6)
    )
    with pytest.raises(PlannerError, match=f"leave the speculative decoding of {engine} off"):
        export(alone, engine)


def test_where_only_our_tree_pays_the_engine_is_left_alone(plan):
    """Matched chains that are hardly ever accepted."""
    entries = [random_traces(0, "rrsw"), random_traces(1, "topk", scale=0.01)]
    poor = factory.profile(entries, [costs(1)])
    with pytest.raises(PlannerError, match="leave its speculative decoding off"):
        export(plan.model_copy(update={"made_from": None}), "trtllm", profile=poor)


def test_bad_input_is_said_in_one_line(profile, plan):
    with pytest.raises(PlannerError, match="engine: got 'vlm', expected one of vllm, "):
        export(plan, "vlm")
    other = profile.model_copy(update={"created": "2026-01-01T00:00:00+00:00"})
    with pytest.raises(PlannerError, match="another one than the plan was made from"):
        export(plan, "vllm", profile=other)
    bare = plan.model_copy(update={"made_from": None})
    lacking = factory.profile([random_traces(0, "rrsw")], [costs(1)])
    with pytest.raises(PlannerError, match=r"of rrsw at T=0\.6, expected topk, by"):
        export(bare, "medusa", profile=lacking)
    warm = bare.model_copy(update={"sampling": Sampling(temperature=0.6, top_p=0.9)})
    with pytest.raises(PlannerError, match=r"sampling: got T=0\.6 top-p=0\.9"):
        export(warm, "vllm", profile=profile)
    wide = Plan(
        drafting=TreeDrafting(parents=[-1, *[0] * 11]),
        verifier="topk",
        sampling=Sampling(temperature=1),
    )
    with pytest.raises(PlannerError, match="up to 11 children a node, which medusa cannot"):
        export(wide, "medusa")


def test_batches_are_those_that_were_measured_around_the_plans_context(profile):
    """A length for its own batch size and all others, whichever it was solved for."""
    few = [costs(1), costs(4), costs(16).model_copy(update={"context": 512})]
    profile = profile.model_copy(update={"costs": few})
    plan = solve(profile, solver="chain", verifier="topk", batch_size=4)
    slots = json.loads(export(plan, "sglang-adaptive", profile=profile).content)
    assert list(slots) == ["1", "4"]
    for size, slot in slots.items():
        best = planned(profile, ("chain", "topk"), batch_size=int(size))
        assert slot["candidate_steps"] == [best.drafting.most_nodes - 1]
    table = json.loads(export(plan, "sglang-sps", profile=profile).content)
    assert table["sample_batch_tokens"] == [4 * n for n in range(1, 17)]


def test_a_profile_without_batches_of_one(profile, plan):
    """And a plan that does not say for what it was made."""
    plan = plan.model_copy(update={"made_from": None})
    only = profile.model_copy(update={"costs": profile.costs[1:2]})
    for engine in ("vllm", "trtllm", "sglang-sps"):
        assert export(plan, engine, profile=only).content


def test_what_a_length_of_zero_does_to_tensorrt_is_said(profile, plan):
    """Nothing pays in batches of 16; where lengths are above 0, nothing is said."""
    result = export(plan, "trtllm", profile=profile)
    assert "    16: 0\n" in result.content
    assert trtllm.STALE_NOTE in result.notes
    small = profile.model_copy(update={"costs": profile.costs[:2]})
    result = export(plan.model_copy(update={"made_from": None}), "trtllm", profile=small)
    assert "draft_len_schedule" in result.content
    assert ": 0\n" not in result.content
    assert trtllm.STALE_NOTE not in result.notes
