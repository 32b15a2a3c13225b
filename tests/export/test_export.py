"""Every engine's file says what was planned for what the engine does."""

from __future__ import annotations

import ast
import json

import pytest

from planner import Plan, PlannerError
from planner.drafting import ConfidentDrafting, DynamicDrafting, TreeDrafting
from planner.export import ENGINES, export
from planner.optimizer import rank_candidates, solve
from planner.profile import Sampling
from tests.optimizer import factory
from tests.optimizer.choosing import random_traces
from tests.optimizer.recorded_trees import in_profile, made_up

TREES, CHAINS = ("vllm-tree", "medusa", "eagle"), ("vllm", "trtllm", "sglang-adaptive")


def costs(batch_size: int):
    """Nodes are the dearer, the larger the batch."""
    return factory.costs(
        verify=lambda n: 10 + n * batch_size / 4,
        draft=lambda width: 0.4 + width * batch_size / 64,
        counts=range(1, 17),
        batch_size=batch_size,
    )


def profile_at(temperature: float):
    """Three batch sizes; of all verifiers, the tree's is the worse one."""
    scales = {"rrsw": 1.0, "chain": 0.95, "topk": 0.85}
    entries = [
        random_traces(seed, name, scale=scale, temperature=temperature)
        for seed, (name, scale) in enumerate(scales.items())
    ]
    profile = factory.profile(entries, [costs(1), costs(4), costs(16)])
    for name in ("rrsw", "topk") if temperature else ("topk",):
        trees = made_up(1, lengths=(40, 30, 50, 44), deterministic=name == "topk")
        profile = in_profile(profile, trees, verifier=name, temperature=temperature)
    return profile


@pytest.fixture(scope="module")
def profile():
    return profile_at(0.6)


@pytest.fixture(scope="module")
def plan(profile):
    """A tree, which half of the engines cannot draft."""
    chosen = solve(profile, solver="sequoia", verifier="rrsw")
    assert chosen.drafting.most_children > 1
    return chosen


def planned(profile, *ways: tuple[str, str], batch_size: int = 1):
    """The fastest of (solver, verifier), the slow way: everything ranked."""
    found = [
        rank_candidates(profile, solver=solver, verifier=verifier, batch_size=batch_size)[0]
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
    assert any("batch size 1" in note for note in result.notes)
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


def flags(result) -> dict[str, str]:
    words = result.content.split()
    return dict(zip(words[::2], words[1::2], strict=True))


def test_numbers_for_sglang_are_those_of_the_best_matched_tree(profile, plan):
    result = export(plan, "sglang", profile=profile)
    best = planned(profile, ("fixed", "topk"))
    assert result.plan.drafting == best.drafting
    assert result.plan.predicted == best.predicted
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
    assert result.plan.drafting == planned(profile, ("fixed", "topk")).drafting


def test_assisted_generation_is_tuned(profile, plan):
    result = export(plan, "hf", profile=profile)
    config = json.loads(result.content)
    best = planned(profile, ("chain", "chain"), ("assisted-tuned", "chain"))
    assert result.plan.drafting == best.drafting
    if isinstance(best.drafting, DynamicDrafting):
        assert config["num_assistant_tokens"] == best.drafting.num_tokens
        assert config["assistant_confidence_threshold"] == best.drafting.confidence
    else:
        assert config["num_assistant_tokens"] == best.drafting.most_nodes - 1
        assert config["assistant_confidence_threshold"] == 0
    assert config["num_assistant_tokens_schedule"] == "constant"


def test_llamacpps_confidence_is_tuned(profile, plan):
    result = export(plan, "llamacpp", profile=profile)
    given = flags(result)
    best = planned(profile, ("chain", "topk"), ("confident", "topk"))
    assert result.plan.drafting == best.drafting
    assert int(given["--spec-draft-n-max"]) == best.drafting.most_nodes - 1
    confident = isinstance(best.drafting, ConfidentDrafting)
    expected = best.drafting.confidence if confident else 0
    assert float(given["--spec-draft-p-min"]) == expected


def test_grown_chains_need_recorded_trees(profile, plan):
    """Without them the chain of one length is what can be graded."""
    bare = profile.model_copy(update={"replays": []})
    plan = plan.model_copy(update={"made_from": None})
    for engine, verifier in (("hf", "chain"), ("llamacpp", "topk")):
        result = export(plan, engine, profile=bare)
        assert result.plan.drafting == planned(bare, ("chain", verifier)).drafting


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
    expected = [1000 / ms for ms in curve.low_ms]
    assert table["sample_steps_per_sec"] == pytest.approx(expected, abs=1e-3)
    assert table["max_batch_tokens"] == curve.counts[-1]
    assert result.plan is None


@pytest.mark.parametrize("engine", ENGINES)
def test_at_temperature_zero_every_rule_is_the_same(engine):
    profile = profile_at(0.0)
    plan = solve(profile, solver="fixed")
    result = export(plan, engine, profile=profile)
    if result.plan is not None:
        assert result.plan.speculates
        assert result.plan.sampling.temperature == 0
        assert result.plan.predicted.speedup.value > 1


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - {"sglang-sps", "synthetic"}))
def test_without_a_profile_a_chain_is_exported_as_it_is(engine):
    plan = Plan(
        drafting=TreeDrafting(parents=[-1, 0, 1, 2]),
        verifier="topk",
        sampling=Sampling(temperature=0.6),
    )
    result = export(plan, engine, draft="a/draft")
    assert result.plan.drafting == plan.drafting
    assert "3" in result.content or "[0, 0, 0]" in result.content


def test_without_a_profile_predictions_of_other_rules_are_dropped(profile):
    plan = solve(profile, solver="chain", verifier="chain")
    assert export(plan, "vllm").plan.predicted == plan.predicted
    assert export(plan, "hf").plan.predicted == plan.predicted
    assert export(plan, "trtllm").plan.predicted is None
    with pytest.raises(PlannerError, match="profile: got none"):
        export(plan, "sglang-sps")


def test_without_a_profile_confidences_are_carried_over():
    sampling = Sampling(temperature=0.6)
    confident = ConfidentDrafting(max_depth=7, confidence=0.35)
    plan = Plan(drafting=confident, verifier="topk", sampling=sampling)
    given = flags(export(plan, "llamacpp"))
    assert (given["--spec-draft-n-max"], given["--spec-draft-p-min"]) == ("7", "0.35")
    dynamic = DynamicDrafting(max_depth=9, num_tokens=5, schedule="heuristic", confidence=0.2)
    plan = Plan(drafting=dynamic, verifier="chain", sampling=sampling)
    assert json.loads(export(plan, "hf").content) == {
        "num_assistant_tokens": 5,
        "num_assistant_tokens_schedule": "heuristic",
        "assistant_confidence_threshold": 0.2,
    }


@pytest.mark.parametrize("engine", [*CHAINS, "llamacpp", "hf", "synthetic"])
def test_without_a_profile_a_tree_is_refused_where_chains_are_drafted(plan, engine):
    with pytest.raises(PlannerError, match=f"which {engine} cannot carry out; give the profile"):
        export(plan, engine)


def test_synthetic_acceptance_needs_a_prediction():
    plan = Plan(
        drafting=TreeDrafting(parents=[-1, 0]), verifier="chain", sampling=Sampling(temperature=1)
    )
    with pytest.raises(PlannerError, match="predicts no acceptance"):
        export(plan, "synthetic")


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - {"sglang-sps"}))
def test_not_to_speculate_is_no_setting(engine):
    alone = Plan(
        drafting=TreeDrafting(parents=[-1]), verifier="rrsw", sampling=Sampling(temperature=0.6)
    )
    with pytest.raises(PlannerError, match=f"nothing that {engine} can do is faster"):
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
    with pytest.raises(PlannerError, match="a node with 11 children, expected at most 10"):
        export(wide, "medusa")
