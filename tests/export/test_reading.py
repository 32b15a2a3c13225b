"""An engine's setting is read back as what was planned for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product

import pytest

from planner import Plan, PlannerError, Tree
from planner.documents.sampling import Sampling
from planner.export import ENGINES, READERS, Export, export, read
from planner.export.notations import rank_paths, tree_of
from planner.policies import ConfidentDrafting, DynamicDrafting, TreeDrafting

WARM, GREEDY = Sampling(temperature=0.6), Sampling(temperature=0)
LEVEL = TreeDrafting(parents=[-1, 0, 0, 0])
BUSHY = TreeDrafting(parents=[-1, 0, 0, 0, 1, 1, 2, 4])
DRAFTINGS = {
    "one token": TreeDrafting(parents=[-1, 0]),
    "a chain": TreeDrafting(parents=[-1, 0, 1, 2, 3]),
    "one level": LEVEL,
    "a tree": BUSHY,
    "uniform": TreeDrafting(parents=[-1, 0, 0, 1, 1, 2, 2]),
    "confident": ConfidentDrafting(max_depth=7, confidence=0.35),
    "dynamic": DynamicDrafting(max_depth=6, num_tokens=6, confidence=0.25),
}
CHOSEN_THERE = ("sglang", "trtllm-tree")
"""Engines of whose trees a setting has three numbers."""


def said(words: str, engine: str, sampling: Sampling = WARM, **settings) -> Plan:
    return read(engine, words, sampling, **settings).plan


def refused(engine: str, words: str) -> str:
    with pytest.raises(PlannerError) as caught:
        read(engine, words, WARM)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("engine", READERS)
def test_a_setting_is_read_as_it_was_written(engine):
    """Without a profile, so that plans go out as they are, as far as the engine can do that."""
    tried = 0
    for made in exported_as_they_are(engine):
        own = made.plan
        if engine in CHOSEN_THERE and own.tree.depth > 1 < own.drafting.most_children:
            with pytest.raises(PlannerError, match="chosen anew in every step"):
                read(engine, made.content, own.sampling)
            continue
        back = read(engine, made.content, own.sampling)
        assert back.plan == own.model_copy(update={"predicted": None})
        assert not any("ignored" in note for note in back.notes)
        tried += 1
    assert tried >= 2 or engine == "synthetic"  # which needs a prediction


def exported_as_they_are(engine: str) -> Iterator[Export]:
    """The exports of all draftings that the engine can carry out, matched and drawn, at either
    temperature."""
    for drafting, verifier, sampling in product(
        DRAFTINGS.values(), ("topk", "chain"), (WARM, GREEDY)
    ):
        if drafting.most_children > 1 and verifier == "chain":
            continue
        plan = Plan(drafting=drafting, verifier=verifier, sampling=sampling)
        try:
            made = export(plan, engine, draft="a/draft")
        except PlannerError:
            continue
        assert made.plan.drafting == drafting
        yield made


@pytest.mark.parametrize("engine", sorted(set(READERS) - {*CHOSEN_THERE, "openvino"}))
@pytest.mark.parametrize("batch_size", [1, 4, 16])
def test_what_was_planned_anew_is_read_back(profile, plan, engine, batch_size):
    """Plans with lengths by batch size, where the engine has them."""
    made_from = plan.made_from.model_copy(update={"batch_size": batch_size})
    plan = plan.model_copy(update={"made_from": made_from})
    try:
        made = export(plan, engine, profile=profile)
    except PlannerError:
        return
    back = said(made.content, engine, batch_size=batch_size)
    assert (back.drafting, back.verifier) == (made.plan.drafting, made.plan.verifier)


def test_engines_that_draft_are_read():
    known = {"vllm", "sglang", "trtllm", "llamacpp", "openvino", "eagle", "medusa", "hf"}
    assert known <= set(READERS) < set(ENGINES)


def test_a_file_and_the_words_themselves_are_the_same(tmp_path):
    words = '{"num_speculative_tokens": 4}'
    (tmp_path / "setting.json").write_text(words)
    assert said(str(tmp_path / "setting.json"), "vllm") == said(words, "vllm")
    line = f"vllm serve a/target --port 8000 --speculative-config '{words}'"
    assert said(line, "vllm") == said(words, "vllm")
    dotted = "vllm serve a/target --speculative-config.num_speculative_tokens=4"
    assert said(dotted, "vllm") == said(words, "vllm")
    python = "{'speculative_config': {'num_speculative_tokens': 4}}"
    assert said(python, "vllm") == said(words, "vllm")


def test_a_command_of_many_lines():
    words = """llama-server -m t.gguf -md d.gguf \\
      --spec-draft-n-max 16 \\
      --spec-draft-p-min 0.75 -ngl 99 --temp -1  # as before
    """
    result = read("llamacpp", words, WARM)
    assert result.plan.drafting == ConfidentDrafting(max_depth=16, confidence=0.75)
    assert result.notes[-1] == "ignored, not about speculation: m, ngl, temp"
    old = said("--draft-max 16 --draft-p-min 0.75 --draft-min 0", "llamacpp")
    assert old == result.plan


def test_drafts_that_llamacpp_draws_are_read_as_drawn():
    words = "--spec-draft-n-max 4 --spec-draft-sampling"
    assert said(f"{words} probabilistic", "llamacpp").verifier == "chain"
    assert said(f"{words} greedy", "llamacpp").verifier == "topk"
    with pytest.raises(PlannerError, match=r"spec_draft_p_min: got 0\.5 with .* probabilistic"):
        said(f"{words} probabilistic --spec-draft-p-min 0.5", "llamacpp")


def test_what_is_not_said_is_the_engines_default():
    assert said("-m t.gguf -md d.gguf", "llamacpp").drafting.most_nodes == 1 + 3
    assert said('{"draft_model": "d", "num_assistant_tokens": null}', "openvino", GREEDY).tree == (
        Tree([-1, *range(5)])
    )
    dynamic = said('{"num_assistant_tokens": 5}', "hf").drafting
    assert dynamic == DynamicDrafting(max_depth=5, num_tokens=5, confidence=0.4)
    assert said('{"num_speculative_tokens": 2}', "vllm").verifier == "topk"


def test_lengths_without_a_limit_get_one():
    result = read("hf", '{"num_assistant_tokens_schedule": "heuristic"}', WARM)
    assert result.plan.drafting.schedule == "heuristic"
    assert result.plan.drafting.max_depth == 24
    assert any("24 tokens" in note for note in result.notes)


@pytest.mark.parametrize(
    ("batch_size", "tokens"), [(1, 4), (8, 4), (9, 2), (2000, 2), (5000, 0), (9999, 0)]
)
def test_lengths_by_batch_size(batch_size, tokens):
    config = {
        "num_speculative_tokens": 4,
        "num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 4096, 2], [4097, 8192, 0]],
    }
    plan = said(json.dumps(config), "vllm", batch_size=batch_size)
    assert plan.drafting.most_nodes - 1 == tokens
    lengths = "max_draft_len: 4\ndraft_len_schedule: {8: 4, 4096: 2}"
    plan = said(lengths, "trtllm", batch_size=batch_size)
    assert plan.drafting.most_nodes - 1 == tokens
    slots = '{"1": {"candidate_steps": [4]}, "9": {"candidate_steps": [2]}}'
    plan = said(slots, "sglang-adaptive", batch_size=batch_size)
    assert plan.drafting.most_nodes - 1 == tokens or batch_size > 4096


def test_paths_in_any_order_and_notation():
    tree = BUSHY.tree
    paths = [list(path) for path in rank_paths(tree)]
    assert tree_of(paths[::-1]) == tree
    assert said(f"mc_sim = {paths}", "medusa").tree == tree
    assert said(str([tuple(path) for path in paths]), "eagle").tree == tree


def test_a_tree_that_vllm_would_draft_otherwise_is_noted():
    uneven = {"speculative_token_tree": str(rank_paths(BUSHY.tree))}
    even = {"speculative_token_tree": str(rank_paths(DRAFTINGS["uniform"].tree))}
    noted = [read("vllm", json.dumps(each), WARM).notes for each in (uneven, even)]
    assert [len(notes) for notes in noted] == [1, 0]


@pytest.mark.parametrize(
    ("engine", "words", "expected"),
    [
        ("vllm", '{"num_speculative_tokens": 4, ', "not valid JSON"),
        ("vllm", "no-such-file.json", "no such file"),
        ("vllm", "", "no such file"),
        ("vllm", ".", ".: cannot be read: Is a directory"),
        ("vllm", '{"num_speculative_tokens": 4, "num_speculative_tokens": 5}', "stands twice"),
        ("vllm", "one two", "expected JSON, YAML or flags"),
        ("vllm", "a: b: c", "neither JSON nor YAML"),
        ("vllm", "--x 'y", "cannot be read as flags"),
        ("vllm", "[1, 2]", "got a list, expected settings by name"),
        ("vllm", "[" * 9999, "nested too deeply"),
        ("vllm", "{}", "num_speculative_tokens: missing"),
        ("hf", "{}", "nothing about speculation (got nothing)"),
        ("vllm", '{"port": 3}', "num_speculative_tokens: missing"),
        ("vllm", '{"num_speculative_tokens": 0}', "expected 1 to 1000"),
        ("vllm", '{"num_speculative_tokens": 100000000}', "expected 1 to 1000"),
        ("vllm", '{"num_speculative_tokens": "many"}', "got 'many', expected a whole number"),
        ("vllm", '{"num_speculative_tokens": true}', "got True, expected a whole number"),
        ("vllm", '{"num_speculative_tokens": 2, "method": "ngram"}', "got 'ngram'"),
        ("vllm", '{"num_speculative_tokens": 2, "rejection_sample_method": "block"}', "'block'"),
        ("vllm", '{"num_speculative_tokens": 2, "num_speculative_token": 3}', "not known here"),
        ("vllm", '{"speculative_token_tree": "[(0, 0)]"}', "[0, 0] stands there without [0]"),
        ("vllm", '{"speculative_token_tree": "boo"}', "expected a list of paths"),
        ("vllm", "--speculative-config 3", "expected settings by name"),
        ("vllm", '{"num_speculative_tokens": 2, "num_speculative_tokens_per_batch_size": [3]}',
         "expected [first, last, tokens] each"),
        ("llamacpp", "--temp 0.6 --port 80", "nothing about speculation (got temp, port)"),
        ("llamacpp", "--spec-type ngram-mod --spec-draft-n-max 3", "got 'ngram-mod'"),
        ("llamacpp", "--spec-draft-p-min 1.5", "from 0 to below 1"),
        ("llamacpp", "--spec-draft-p-min high", "from 0 to below 1"),
        ("llamacpp", "--spec-draft-n-min 5 --spec-draft-p-min 0.5", "thrown away"),
        ("llamacpp", "--spec-draft-n-max", "got True, expected a whole number"),
        ("sglang", "--speculative-num-draft-tokens 4", "speculative_num_steps: missing"),
        ("sglang", "--speculative-algorithm NGRAM --x 1", "got 'NGRAM'"),
        ("sglang", "--speculative-num-steps 3 --speculative-accept-threshold-single 0.5", "0.5"),
        ("sglang-adaptive", '{"1": {"candidate_steps": [1, 3]}}', "chooses while it serves"),
        ("sglang-adaptive", '{"4": {"candidate_steps": [3]}}', "only for [4]"),
        ("sglang-adaptive", '{"x": {"candidate_steps": [3]}}', "batch size: got 'x'"),
        ("trtllm", "decoding_type: NGram\nmax_draft_len: 3", "got 'NGram'"),
        ("medusa", "[[0], [0]]", "[0] stands there twice"),
        ("medusa", "[[1]]", "[1] stands there without [0]"),
        ("medusa", '[["a"]]', "expected ranks from the root on"),
        ("medusa", "[0, 1]", "expected ranks from the root on"),
        ("eagle", '{"total_token": 60}', "expected a list of rank paths"),
        ("openvino", '{"num_assistant_tokens": 5}', "expected temperature 0"),
        ("openvino", '{"assistant_confidence_threshold": 0.4}', "no longest"),
        ("hf", '{"num_assistant_tokens_schedule": "often"}', "got 'often'"),
        ("nothing", "{}", "expected one of vllm"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_line(engine, words, expected):
    assert expected in refused(engine, words)
