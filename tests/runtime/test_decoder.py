"""`Decoder` and `decode_prompts`: greedy decoding is the target's own, and the edges hold."""

from __future__ import annotations

import copy
from itertools import chain

import numpy as np
import pytest
import torch

from planner import PlannerError, Report, Tree
from planner.documents.origin import ModelInfo
from planner.documents.sampling import Sampling
from planner.plans.plan import MadeFrom, Plan
from planner.policies import GreedyDrafting, StoppingDrafting
from runtime import (
    VERIFIERS,
    Decoder,
    HuggingFaceModel,
    TableModel,
    decode_prompts,
    load_model,
    load_tokenizer,
)
from runtime.decode import prompt_seed
from runtime.machine import describe_execution, describe_machine
from runtime.reports import Run, speedup
from tests.runtime.small_models import POSITIONS, VOCABULARY, plan, small_model

TREES = {
    "lone root": [-1],
    "chain": [-1, 0, 1, 2],
    "wide": [-1, *[0] * 9],
    "tree": [-1, 0, 0, 0, 1, 1, 2, 4, 4, 7],
}
PROMPT = [11, 42, 7, 3, 19]


def models(family: str = "llama", draft_seed: int = 1):
    return small_model(family), small_model("llama", seed=draft_seed, layers=1, hidden=16)


@pytest.mark.parametrize("parents", TREES.values(), ids=TREES)
@pytest.mark.parametrize("family", ["llama", "qwen2", "mistral", "gemma3_text"])
def test_greedy_decoding_is_the_targets_own(family, parents):
    """Against transformers' generate, with a draft that agrees now and then."""
    target, draft = models(family)
    ids = torch.tensor([PROMPT])
    expected = target.generate(ids, do_sample=False, max_new_tokens=40, pad_token_id=0)
    got = Decoder.from_plan(plan(parents), target, draft).generate(ids, max_new_tokens=40)
    assert got.tokens == expected[0, len(PROMPT) :].tolist()


def test_greedy_decoding_with_the_target_as_draft_accepts_everything():
    target = small_model("llama")
    generation = Decoder.from_plan(plan(TREES["chain"]), target, target).generate(
        PROMPT, max_new_tokens=40
    )
    measured = generation.report.measured
    assert measured.tokens_per_step == 4.0
    assert measured.draft_acceptance_rate == 1.0
    assert (measured.num_steps, measured.num_draft_passes, measured.num_drafted) == (10, 30, 30)


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_the_same_seed_gives_the_same_tokens_and_another_seed_others(verifier):
    fitting = {1: TREES["chain"], 2: [-1, 0, 0, 1, 1, 2]}
    parents = fitting.get(VERIFIERS[verifier].max_children, TREES["tree"])
    decoder = Decoder.from_plan(plan(parents, verifier=verifier, temperature=1.0), *models())
    runs = [decoder.generate(PROMPT, max_new_tokens=20, seed=seed).tokens for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_streaming_gives_the_tokens_of_generate(temperature):
    decoder = Decoder.from_plan(plan(TREES["tree"], temperature=temperature), *models())
    called: list[list[int]] = []
    generation = decoder.generate(PROMPT, max_new_tokens=17, seed=2, on_tokens=called.append)
    streamed = list(decoder.stream(PROMPT, max_new_tokens=17, seed=2))
    assert streamed == called
    assert list(chain.from_iterable(streamed)) == generation.tokens
    assert [len(part) for part in streamed] == generation.report.continuations[0].tokens_by_step


@pytest.mark.parametrize("parents", TREES.values(), ids=TREES)
def test_text_ends_at_the_first_stop_token_included(parents):
    decoder = Decoder.from_plan(plan(parents), *models())
    whole = decoder.generate(PROMPT, max_new_tokens=30).tokens
    stop = whole[13]
    expected = whole[: whole.index(stop) + 1]
    got = decoder.generate(PROMPT, max_new_tokens=30, stop_tokens=[stop, VOCABULARY + 5])
    assert got.tokens == expected
    assert sum(got.report.continuations[0].tokens_by_step) == len(expected)


def test_stop_tokens_are_the_targets_own_unless_given():
    target = TableModel(torch.eye(4).roll(1, 1) * 50, stop_tokens=(3,))  # counts 0, 1, 2, 3, 0, …
    decoder = Decoder.from_plan(plan([-1, 0, 1, 2]), target, target)
    assert decoder.generate([0], max_new_tokens=9).tokens == [1, 2, 3]
    assert decoder.generate([0], max_new_tokens=9, stop_tokens=[2]).tokens == [1, 2]
    assert decoder.generate([0], max_new_tokens=5, stop_tokens=[]).tokens == [1, 2, 3, 0, 1]


def test_a_models_own_stop_tokens_are_read_from_its_generation_settings():
    model = small_model("llama", seed=5)
    for given, expected in ((None, ()), (7, (7,)), ([7, 8], (7, 8))):
        model.generation_config.eos_token_id = given
        assert HuggingFaceModel(model).stop_tokens == expected


@pytest.mark.parametrize("max_new_tokens", [1, 2, 7])
@pytest.mark.parametrize("parents", TREES.values(), ids=TREES)
def test_never_more_tokens_than_wanted(parents, max_new_tokens):
    target = small_model("llama")
    generation = Decoder.from_plan(plan(parents), target, target).generate(
        PROMPT, max_new_tokens=max_new_tokens
    )
    assert len(generation.tokens) == max_new_tokens


@pytest.mark.parametrize(
    "ids", [PROMPT, tuple(PROMPT), torch.tensor(PROMPT), torch.tensor([PROMPT])], ids=repr
)
def test_prompts_come_in_many_forms(ids):
    decoder = Decoder.from_plan(plan(TREES["tree"]), *models())
    assert decoder.generate(ids, max_new_tokens=5).tokens == (
        decoder.generate(PROMPT, max_new_tokens=5).tokens
    )


def test_the_whole_context_can_be_used():
    decoder = Decoder.from_plan(plan(TREES["tree"]), small_model("llama"), small_model("llama"))
    for prompt_length in (1, POSITIONS - 3, POSITIONS - 1):
        prompt = (PROMPT * POSITIONS)[:prompt_length]
        new = POSITIONS - prompt_length
        assert len(decoder.generate(prompt, max_new_tokens=new).tokens) == new


@pytest.mark.parametrize(
    ("ids", "settings", "fault"),
    [
        ([], {}, "input_ids: got an empty prompt"),
        (torch.empty(1, 0, dtype=torch.long), {}, "input_ids: got an empty prompt"),
        ([3, VOCABULARY], {}, rf"input_ids\[1\]: got token {VOCABULARY}, expected 0 to"),
        ([-1], {}, r"input_ids\[0\]: got token -1"),
        ([1.5], {}, r"input_ids\[0\]: got 1.5, expected an integer"),
        (["word"], {}, r"input_ids\[0\]: got 'word', expected an integer"),
        (torch.ones(2, 3, dtype=torch.long), {}, r"got a tensor of shape \[2, 3\], expected"),
        ([[1, 2], [3, 4]], {}, r"input_ids\[0\]: got \[1, 2\], expected an integer"),
        (PROMPT, {"max_new_tokens": 0}, "max_new_tokens: got 0, expected an integer >= 1"),
        (PROMPT, {"max_new_tokens": 2.0}, "max_new_tokens: got 2.0"),
        (PROMPT, {"max_new_tokens": POSITIONS}, rf"at most {POSITIONS} together"),
        ([1] * 200, {"max_new_tokens": np.uint8(200)}, rf"at most {POSITIONS} together"),
        (PROMPT, {"seed": -1}, "seed: got -1"),
    ],
)
@pytest.mark.parametrize("entry", ["generate", "stream", "decode_prompts"])
def test_wrong_input_is_said_in_one_line(entry, ids, settings, fault):
    target, draft = models()
    decoder = Decoder.from_plan(plan(TREES["tree"]), target, draft)
    decode = {
        "generate": lambda: decoder.generate(ids, **settings),
        "stream": lambda: decoder.stream(ids, **settings),
        "decode_prompts": lambda: decode_prompts(decoder.plan, target, draft, [ids], **settings),
    }
    with pytest.raises(PlannerError, match=fault) as caught:
        decode[entry]()
    assert "\n" not in str(caught.value)


def test_two_vocabularies_are_refused():
    target, draft = TableModel(torch.zeros(4, 4), name="a"), TableModel(torch.zeros(5), name="b")
    with pytest.raises(PlannerError, match=r"draft: got a vocabulary of 5 tokens \(b\).* 4 \(a\)"):
        Decoder.from_plan(plan([-1, 0]), target, draft)
    Decoder.from_plan(plan([-1]), target, draft)  # no draft tokens, no quarrel


def test_more_children_than_tokens_are_refused():
    model = TableModel(torch.zeros(3))
    with pytest.raises(PlannerError, match=r"drafting.parents: got 4 children"):
        Decoder.from_plan(plan([-1, 0, 0, 0, 0]), model, model)
    Decoder.from_plan(plan([-1, 0, 0, 0]), model, model).generate([0], max_new_tokens=3)


def test_a_plan_that_drafts_needs_a_draft_model():
    with pytest.raises(PlannerError, match="draft: got none, but the plan drafts"):
        Decoder.from_plan(plan([-1, 0]), small_model("llama"))
    generation = Decoder.from_plan(plan([-1]), small_model("llama")).generate(
        PROMPT, max_new_tokens=3
    )
    assert generation.report.draft is None
    assert generation.report.measured.tokens_per_step == 1.0


def made_for(target: ModelInfo, draft: ModelInfo) -> Plan:
    origin = MadeFrom(
        created="2026-01-01T00:00:00+00:00",
        profile_sha256="0" * 64,
        machine=describe_machine(torch.device("cpu")),
        execution=describe_execution(HuggingFaceModel(small_model("llama"))),
        target=target,
        draft=draft,
        solver="brute",
        batch_size=1,
        context=128,
        num_candidates=1,
    )
    return plan([-1, 0]).model_copy(update={"made_from": origin})


@pytest.mark.parametrize("wrong", ["target", "draft"])
def test_a_plan_made_for_other_models_is_refused_by_name(wrong):
    target, draft = (
        HuggingFaceModel(model, name=name)
        for model, name in zip(models(), ("big", "small"), strict=True)
    )
    infos = {"target": target.info, "draft": draft.info}
    assert Decoder.from_plan(made_for(**infos), target, draft)
    infos[wrong] = infos[wrong].model_copy(update={"name": "older", "fingerprint": "f" * 64})
    with pytest.raises(
        PlannerError, match=rf"{wrong}: got (big|small) .*, expected older"
    ) as fault:
        Decoder.from_plan(made_for(**infos), target, draft)
    assert "\n" not in str(fault.value)


def test_the_same_model_in_another_precision_is_named_so():
    """The weights are rounded, so they are others; that is not seen from the model's name."""
    target, draft = (HuggingFaceModel(model) for model in models())
    made = made_for(target.info, draft.info)
    other = HuggingFaceModel(copy.deepcopy(models()[0]).to(torch.bfloat16))
    with pytest.raises(PlannerError, match=r"target: got \w+ in bfloat16 .* in float32 .* load"):
        Decoder.from_plan(made, other, draft)


@pytest.mark.parametrize(
    "drafting",
    [
        GreedyDrafting(num_nodes=10**12, max_depth=2, max_children=2),
        StoppingDrafting(score="entropy", threshold=0.5, max_depth=10**30),
    ],
    ids=lambda drafting: drafting.kind,
)
def test_trees_that_no_memory_holds_are_refused(drafting):
    model = TableModel(torch.zeros(3))
    made = Plan(drafting=drafting, verifier="rrsw", sampling=Sampling(temperature=1.0))
    with pytest.raises(PlannerError, match="expected at most 65536"):
        Decoder.from_plan(made, model, model)


def test_a_plan_can_be_given_by_its_path(tmp_path):
    plan(TREES["tree"]).save(tmp_path / "plan.json")
    by_path = Decoder.from_plan(tmp_path / "plan.json", *models())
    assert by_path.plan == plan(TREES["tree"])
    with pytest.raises(PlannerError, match="no such file"):
        Decoder.from_plan(tmp_path / "none.json", *models())


@pytest.mark.parametrize("num_prompts", [1, 4])
def test_the_report_of_many_prompts_adds_up(tmp_path, num_prompts):
    target = small_model("llama")
    prompts = [[token, 2, 3] for token in range(num_prompts)]
    done: list[tuple[int, int]] = []
    report = decode_prompts(
        plan(TREES["chain"]),
        target,
        target,
        prompts,
        max_new_tokens=12,
        baseline=True,
        progress=lambda *place: done.append(place),
        to_text=lambda tokens: " ".join(map(str, tokens)),
    )
    assert done == [(index + 1, num_prompts) for index in range(num_prompts)]
    measured, baseline = report.measured, report.baseline
    assert baseline is not None
    assert measured.num_tokens == baseline.num_tokens == 12 * num_prompts
    assert (measured.num_steps, measured.tokens_per_step) == (3 * num_prompts, 4.0)
    assert measured.num_accepted == measured.num_drafted == 9 * num_prompts
    assert measured.ms_per_token * measured.num_tokens == pytest.approx(
        sum(each.decode_ms for each in report.continuations)
    )
    parts = measured.phases.draft_ms + measured.phases.verify_ms + measured.phases.accept_ms
    assert parts <= measured.ms_per_token * measured.num_tokens
    speed = baseline.ms_per_token / measured.ms_per_token
    assert baseline.speedup.value == pytest.approx(speed)
    assert baseline.speedup.low <= speed <= baseline.speedup.high
    for index, each in enumerate(report.continuations):
        alone = Decoder.from_plan(plan([-1]), target).generate(prompts[index], max_new_tokens=12)
        assert each.tokens == alone.tokens
        assert each.text == " ".join(map(str, each.tokens))
        assert each.num_prompt_tokens == 3
    report.save(tmp_path / "report.json")
    assert Report.load(tmp_path / "report.json") == report


def test_decode_prompts_repeats_generate_with_the_prompts_seed():
    drafting = plan(TREES["tree"], temperature=1.0)
    limits = [9, np.int64(5), 9]
    report = decode_prompts(drafting, *models(), [PROMPT] * 3, max_new_tokens=limits, seed=8)
    decoder = Decoder.from_plan(drafting, *models())
    texts = [each.tokens for each in report.continuations]
    for index, tokens in enumerate(texts):
        seed = prompt_seed(8, index)
        assert tokens == decoder.generate(PROMPT, max_new_tokens=limits[index], seed=seed).tokens
    assert len(set(map(tuple, texts))) == 3
    assert prompt_seed(8, 0) == 8


def test_all_prompts_are_checked_before_any_is_decoded():
    done: list[int] = []
    with pytest.raises(PlannerError, match=r"prompts\[1\]: input_ids: got an empty prompt"):
        decode_prompts(
            plan([-1]), models()[0], None, [[1], []], progress=lambda i, n: done.append(i)
        )
    assert not done
    with pytest.raises(PlannerError, match="prompts: got none"):
        decode_prompts(plan([-1]), models()[0], None, [])


def test_speedup_is_the_ratio_of_the_times_per_token():
    """10 ms a token against 5 in every prompt: exactly 2, and nothing to resample."""
    runs = [Run(1, tokens=[0] * n, step_ms=[5.0 * n], tokens_by_step=[n]) for n in (3, 5, 9)]
    alone = [Run(1, tokens=[0] * n, step_ms=[10.0] * n, tokens_by_step=[1] * n) for n in (4, 4, 7)]
    estimate = speedup(runs, alone)
    assert (estimate.low, estimate.value, estimate.high) == pytest.approx((2.0, 2.0, 2.0))
    slow = [*runs[:2], Run(1, tokens=[0] * 9, step_ms=[100.0], tokens_by_step=[9])]
    estimate = speedup(slow, alone)
    assert estimate.low < estimate.value < estimate.high <= 2.0


def test_the_machine_describes_itself():
    machine = describe_machine(torch.device("cpu"))
    assert machine.torch == torch.__version__
    assert machine.device == "cpu"
    assert machine.gpu is None
    assert machine.cpu


def test_a_saved_model_is_loaded_and_decodes(tmp_path):
    small_model("qwen2").save_pretrained(tmp_path)
    model = load_model(str(tmp_path), dtype="float32")
    assert model.info.fingerprint == HuggingFaceModel(small_model("qwen2")).info.fingerprint
    expected = Decoder.from_plan(plan([-1]), small_model("qwen2")).generate(PROMPT)
    assert Decoder.from_plan(plan([-1]), model).generate(PROMPT).tokens == expected.tokens
    assert load_model(tmp_path, dtype="bfloat16", attention="eager").dtype == "bfloat16"


@pytest.mark.parametrize(
    ("name", "settings", "fault"),
    [
        ("./no/such/folder", {}, "no such folder"),
        ("/no/such/folder", {}, "no such folder"),
        (".", {"device": "warp"}, "device: got 'warp'"),
        (".", {"device": "cuda:99"}, "device: got 'cuda:99'"),
        (".", {"device": "meta"}, "device: got 'meta'"),
        (".", {"dtype": "int7"}, "dtype: got 'int7', expected auto or one of float32"),
        (".", {"attention": "flash_attention_2"}, "attention: got 'flash_attention_2'"),
        (".", {}, "cannot be loaded as a causal language model"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(tmp_path, monkeypatch, name, settings, fault):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlannerError, match=fault) as caught:
        load_model(name, **settings)
    assert "\n" not in str(caught.value)


def test_a_hub_that_cannot_be_reached_is_said_in_one_line(monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for load in (load_model, load_tokenizer):
        with pytest.raises(PlannerError, match="cannot be loaded") as caught:
            load("nobody/nothing")
        assert "\n" not in str(caught.value)


def test_a_tree_has_the_nodes_it_names():
    assert [Tree(parents).num_nodes for parents in TREES.values()] == [1, 4, 10, 10]


@pytest.mark.parametrize("stop_tokens", [3, "ab", ["a"], [1.5], [None], [True]])
def test_wrong_stop_tokens_are_refused(stop_tokens):
    decoder = Decoder.from_plan(plan([-1]), TableModel(torch.zeros(3)))
    with pytest.raises(PlannerError, match="stop_tokens: got"):
        decoder.generate([0], max_new_tokens=2, stop_tokens=stop_tokens)


@pytest.mark.parametrize("wrong", [None, 3, {}, []])
def test_what_is_no_plan_or_prompt_is_refused(wrong):
    model = TableModel(torch.zeros(3))
    with pytest.raises(PlannerError, match=r"plan: got a .*, expected a Plan or the path"):
        Decoder.from_plan(wrong, model)
    with pytest.raises(PlannerError, match="input_ids"):
        Decoder.from_plan(plan([-1]), model).generate(wrong)
