"""A plan that stops by a trained head: decoding does what the simulation along its text says."""

from __future__ import annotations

import pytest
import torch

from planner import Plan, PlannerError
from planner.documents.head_card import HeadFile
from planner.documents.sampling import Sampling
from planner.policies import StoppingDrafting
from profiler.head_making import HeadSettings, make_head
from runtime import Decoder
from runtime.heads import file_sha256, save_head
from runtime.heads.drafted_chains import chains_along
from runtime.heads.stopping_counts import threshold_counts
from runtime.pair import Pair
from runtime.randomness import seeded_source
from runtime.written import Written
from tests.runtime.heads_factory import agreeing_pair, random_texts

GREEDY = Sampling(temperature=0)
PROMPT = [3, 4, 5]
DEPTH = 6


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(folder with head.safetensors, the head)."""
    folder = tmp_path_factory.mktemp("head")
    settings = HeadSettings(
        sampling=GREEDY, num_texts=8, num_tokens=24, epochs=20, batch_size=2, reject_weight=1.0,
        mix=None,
    )  # fmt: skip
    head, card = make_head(Pair(*agreeing_pair()), random_texts(8)[0], settings)
    save_head(head, card, folder / "head")
    return folder, head


def stopping_plan(folder, rule: str, threshold: float, sampling: Sampling = GREEDY) -> Plan:
    file = HeadFile(file="head", sha256=file_sha256(folder / "head")) if rule == "head" else None
    drafting = StoppingDrafting(score=rule, threshold=threshold, max_depth=DEPTH, head=file)
    return Plan(drafting=drafting, verifier="chain", sampling=sampling)


def saved(plan: Plan, folder):
    plan.save(folder / "plan.json")
    return folder / "plan.json"


@pytest.mark.parametrize("rule", ["head", "confidence", "entropy", "probability"])
def test_greedy_decoding_drafts_and_verifies_what_the_simulation_counts(made, rule):
    """Whole numbers; and the thresholds tried lead to chains of different lengths."""
    folder, head = made
    target, draft = agreeing_pair()
    seen = set()
    for threshold in (0.05, 0.3, 0.6, 0.9, 0.99):
        plan = saved(stopping_plan(folder, rule, threshold), folder)
        done = Decoder.from_plan(plan, target, draft).generate(PROMPT, max_new_tokens=30)
        measured = done.report.measured
        accepted = measured.num_tokens - measured.num_steps
        chains = chains_along(
            Pair(target, draft), head, Written(PROMPT, done.tokens), GREEDY,
            depth=DEPTH, source=seeded_source(0, torch.device("cpu")),
        )  # fmt: skip
        counts = threshold_counts(chains, rule, [threshold], DEPTH)
        assert counts.verified[0] == measured.num_steps
        assert counts.discarded[0] == measured.num_drafted - accepted
        assert 0 < accepted < measured.num_drafted
        seen.add((measured.num_steps, measured.num_drafted))
    assert len(seen) > 1


def test_a_plan_whose_head_was_trained_for_other_sampling_is_refused(made):
    folder, _ = made
    plan = saved(stopping_plan(folder, "head", 0.5, Sampling(temperature=0.7)), folder)
    with pytest.raises(PlannerError, match=r"trained for T=0, expected T=0\.7"):
        Decoder.from_plan(plan, *agreeing_pair())


def test_a_plan_whose_head_has_been_replaced_is_refused(made, tmp_path):
    folder, _ = made
    plan = saved(stopping_plan(folder, "head", 0.5), tmp_path)
    (tmp_path / "head").write_bytes((folder / "head").read_bytes() + b"\0")
    with pytest.raises(PlannerError, match="which the plan was made with"):
        Decoder.from_plan(plan, *agreeing_pair())


@pytest.mark.parametrize(
    ("name", "value"),
    [("reject_weight", float("nan")), ("reject_weight", 0.0), ("held_out", float("nan")),
     ("learning_rate", float("inf")), ("mix", 1.0), ("epochs", 0), ("num_texts", 2.5),
     ("seed", -1), ("seed", 2**63)],
)  # fmt: skip
def test_wrong_settings_are_refused_before_the_work(name, value):
    settings = HeadSettings(**({"sampling": GREEDY} | {name: value}))
    with pytest.raises(PlannerError, match=f"{name}: got"):
        make_head(None, random_texts(8)[0], settings)
