"""The closed loop: settings changed at every step keep the target's law; beliefs follow the machine
and the text; nothing is much slower than not to speculate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from benchmarks.following import CONDITIONS, drawn, run
from planner import Plan, PlannerError, Report
from planner.plans.settings import PlanSetting
from planner.policies import ConfidentDrafting, Drafting, TreeDrafting
from planner.policies.chain_policy import MOST_CHANCE, emitted
from planner.policies.compiled.closed_loop_kernel import BLOCK, BUDGET, MISSED, PACE_MS
from planner.show.document_text import render
from planner.show.figures import FIGURES
from runtime import VERIFIERS, Decoder, Session
from runtime.closed_loop import ClosedLoop
from tests.runtime.exact_source import law
from tests.runtime.loop_twin import TwinLoop
from tests.runtime.test_decode_law import (
    EXACT,
    PROMPT,
    SAMPLING,
    autoregressive_law,
    distance,
    table,
)

NONE = TreeDrafting(parents=[-1])
WAYS = [
    (TreeDrafting(parents=[-1, 0, 0]), "rrsw"),
    (TreeDrafting(parents=[-1, 0, 1]), "chain"),
    (TreeDrafting(parents=[-1, 0, 0]), "spechub"),
    (ConfidentDrafting(max_depth=2, confidence=0.4), "topk"),
    (NONE, "topk"),
]


def switched_law(num_tokens: int, num_new: int, *, redone: bool = False) -> tuple[dict, dict]:
    """(law of texts whose every step's setting an adversary picks by what was written, target's).

    redone  a step that accepts nothing is taken back and another setting tried: not lossless
    """
    target, draft = table(num_tokens, seed=0), table(num_tokens, seed=1, order=1)

    def decode(rng) -> tuple[int, ...]:
        policies = [
            way.policy(deterministic=VERIFIERS[verifier].deterministic) for way, verifier in WAYS
        ]
        session = Session(target, draft, verifier=VERIFIERS["rrsw"], sampling=SAMPLING, rng=rng)
        session.prefill(PROMPT)
        while (left := len(PROMPT) + num_new - len(session.tokens)) > 0:
            before = len(session.tokens)
            which = (sum(session.tokens) + before) % len(WAYS)
            session.use(VERIFIERS[WAYS[which][1]])
            step = session.step(policies[which], max_tokens=left)
            if redone and len(step.tokens) == 1 and which < len(WAYS) - 1:
                session.rewind(before)
                session.use(VERIFIERS["topk"])
                session.step(policies[-1], max_tokens=1)
        return tuple(session.tokens[len(PROMPT) :][:num_new])

    return law(decode), autoregressive_law(target, num_new)


@pytest.mark.parametrize(("num_tokens", "num_new"), [(2, 4), (3, 3)])
def test_an_adversary_who_changes_settings_keeps_the_law(num_tokens: int, num_new: int) -> None:
    got, expected = switched_law(num_tokens, num_new)
    assert distance(got, expected) < EXACT


def test_taking_steps_back_is_seen() -> None:
    got, expected = switched_law(2, 4, redone=True)
    assert distance(got, expected) > 1e-3


def chain(length: int, tokens: float, ms: float) -> PlanSetting:
    drafting = TreeDrafting(parents=[*range(-1, length)])
    return PlanSetting(
        drafting=drafting,
        verifier="topk",
        tokens_per_step=tokens,
        step_ms=ms,
        depth=length,
        nodes=length + 1,
    )


SETTINGS = [chain(3, 2.3, 13.3), chain(2, 2.0, 12.2), chain(1, 1.6, 11.2), chain(0, 1.0, 8.0)]
QUIET, CROWDED = np.array([1.0, 1.0, 1.0, 1.0]), np.array([3.6, 3.0, 2.4, 1.4])
HEAVY = np.array([6.1, 5.7, 5.0, 3.7])
"""Factors on the planned times; the second, as beside others who want the cores: what computes much
suffers most; the third, as a test suite on all cores did."""


def decoded(
    slow: Callable[[int], np.ndarray], chance: float = 1.0, num_tokens: int = 2000, seed: int = 0
) -> tuple[float, np.ndarray, ClosedLoop]:
    """(milliseconds by the loop, by every setting alone: float64 [settings], the loop).

    slow  factors on the times, by the number of tokens written
    """
    rng, loop = np.random.default_rng(seed), ClosedLoop(SETTINGS)
    written, total = 0, 0.0
    while written < num_tokens:
        which = loop.choose()
        accept, most = SETTINGS[which].chain
        num = 1
        while num <= most and rng.random() < accept * chance:
            num += 1
        ms = SETTINGS[which].step_ms * slow(written)[which] * np.exp(0.08 * rng.normal())
        loop.note(num, ms)
        written, total = written + num, total + ms
    alone = np.zeros(len(SETTINGS))
    for which, setting in enumerate(SETTINGS):
        accept, most = setting.chain
        ms = setting.step_ms * sum(slow(place)[which] for place in range(num_tokens))
        alone[which] = ms / emitted(accept * chance, most)
    return total, alone, loop


@pytest.mark.parametrize("factor", [1, 3])
def test_where_nothing_moves_or_all_alike_the_plan_is_kept(factor: int) -> None:
    found = [decoded(lambda written: factor * QUIET, seed=seed) for seed in range(12)]
    assert np.mean([total / alone[0] for total, alone, _ in found]) < 1.03
    loops = [loop for *_, loop in found]
    assert np.median([loop.factor for loop in loops]) == pytest.approx(factor, rel=0.03)
    assert np.median([loop.chance for loop in loops]) == pytest.approx(1, abs=0.1)


def test_a_chance_that_could_not_be_higher_falls_where_nothing_is_accepted() -> None:
    """Beyond a chance of one, tokens tell nothing of it; the way back is still found."""
    settings = [chain(3, 3.95, 22.0), chain(0, 1.0, 8.0)]
    loop = ClosedLoop(settings)
    for _ in range(100):
        drafts = loop.choose() == 0
        loop.note(4 if drafts else 1, 22.0 if drafts else 8.0)
    assert loop.chance * settings[0].chain[0] > MOST_CHANCE
    steps = 0
    while loop.choose() == 0:
        loop.note(1, 22.0)
        steps += 1
        assert steps < 30


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("slow", "behind"), [(CROWDED, 1.8), (HEAVY, 1.15)])
def test_where_speculation_does_not_pay_it_is_hardly_slower_than_none(
    seed: int, slow: np.ndarray, behind: float
) -> None:
    total, alone, loop = decoded(lambda written: slow, seed=seed)
    assert alone[0] > behind * alone[3]
    assert total < 1.06 * alone[3]
    assert loop.steps[3] > 0.9 * sum(loop.steps)


@pytest.mark.parametrize(("first", "then"), [(QUIET, CROWDED), (CROWDED, QUIET)])
def test_the_way_is_found_there_and_back(first: np.ndarray, then: np.ndarray) -> None:
    total, alone, _ = decoded(lambda written: first if written < 2000 else then, num_tokens=4000)
    assert total < 0.97 * alone.min()


def test_a_text_that_the_draft_does_not_know_is_decoded_without_it() -> None:
    total, alone, loop = decoded(lambda written: QUIET, chance=0.3)
    assert total < 1.06 * alone[3]
    assert loop.chance < 0.6


def test_looking_takes_its_share_at_most() -> None:
    _, _, loop = decoded(lambda written: CROWDED, num_tokens=20_000)
    excess = sum(
        loop.steps[which]
        * (SETTINGS[which].step_ms * CROWDED[which] / SETTINGS[which].tokens_per_step - 11.2)
        for which in range(3)
    )
    assert excess < 3 * BUDGET * 20_000 * 11.2
    assert 0 < loop.looked_ms < 3 * BUDGET * 20_000 * 11.2


def test_steps_that_are_a_sixteenth_as_long_leave_a_quarter_of_that_for_looking() -> None:
    """A machine moves by the clock."""
    looked = {}
    for ms in (PACE_MS, PACE_MS / 16):
        loop = ClosedLoop([chain(2, 2.0, 2.4 * ms), chain(0, 1.0, ms)])
        for _ in range(40_000):
            which = loop.choose()
            loop.note(*((1, ms) if which else (2, 2.4 * ms)))
        looked[ms] = loop.looked_ms / ms
    assert 0 < looked[PACE_MS / 16] < looked[PACE_MS] / 3


def test_what_the_draft_has_to_read_first_is_part_of_looking() -> None:
    """A tiny target's draft reads what was decoded without it for longer than a step takes."""
    settings, num_tokens = [chain(2, 2.0, 18.0), chain(0, 1.0, 8.0)], 40_000
    rng, loop = np.random.default_rng(0), ClosedLoop(settings)
    unread = written = 0
    beyond = 0.0
    while written < num_tokens:
        which = loop.choose()
        ms = settings[which].step_ms * np.exp(0.08 * rng.normal())
        if which == 0 and unread >= MISSED:
            beyond += 2.5 * ms
            ms *= 3.5
        num = 1 + rng.binomial(settings[which].chain[1], 0.5)
        loop.note(num, ms)
        unread = 0 if which == 0 else unread + num
        written += num
    assert 0 < beyond < 1.1 * BUDGET * num_tokens * 8.0


@pytest.mark.parametrize("condition", CONDITIONS)
def test_little_is_lost_to_an_oracle_and_nothing_to_plain_decoding(condition: str) -> None:
    found = np.array([run(SETTINGS, CONDITIONS[condition], seed) for seed in range(4)])
    over_oracle, over_plain, _ = found.mean(axis=0)
    assert 1 <= over_oracle < 1.06
    assert over_plain < 1.04


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(("shorter", "num_texts"), [(0.5, 1), (0.5, 5), (10, 1), (1000, 1)])
def test_the_compiled_loop_is_its_twin(condition: str, shorter: int, num_texts: int) -> None:
    """Steps that last long, and those of which some, or as many as there is room for, are taken in
    together; of one text, and of several."""
    settings = [each.model_copy(update={"step_ms": each.step_ms / shorter}) for each in SETTINGS]
    rng, loop, twin = (
        np.random.default_rng(1),
        ClosedLoop(settings, num_texts),
        TwinLoop(settings, num_texts),
    )
    planned = np.array([setting.step_ms for setting in settings])
    for stretch in CONDITIONS[condition]:
        for _ in range(300):
            which = loop.choose()
            assert which == twin.choose()
            setting = settings[which]
            times = planned * np.exp(stretch.f + stretch.g * (1 - planned[-1] / planned))
            ms = drawn(times, which, rng, storm=stretch.storm)
            chance = min(0.6 * stretch.chance, 1)
            num = 1 + rng.binomial(setting.chain[1], chance, size=num_texts).mean()
            for each in (loop, twin):
                each.note(num, ms)
            assert loop.factor == pytest.approx(twin.factor, rel=1e-9)
            assert loop.chance == pytest.approx(twin.chance, rel=1e-9)
    behind = sum(loop.steps) - sum(twin.steps)
    assert 0 <= behind < BLOCK
    assert behind == 0 or shorter > 1
    twin.choose()  # the compiled one has chosen already
    assert loop.looked_ms == pytest.approx(max(twin.looked_ms, 0))


def test_times_that_nobody_planned_are_found_first() -> None:
    """Eight texts decode by a table for one: trees take five times as long, none twice.  Three
    steps of every setting, of which the first finds nothing warm; then as if these were planned."""
    longer = np.array([5.3, 5.1, 4.8, 1.9])
    loop, found = ClosedLoop(SETTINGS, 5, known=False), []
    for place in range(12):
        which = loop.choose()
        assert which == place // 3
        assert sum(loop.steps) == place
        found.append(SETTINGS[which].step_ms * longer[which] * (9 if place % 3 == 0 else 1))
        loop.note(SETTINGS[which].tokens_per_step, found[-1])
    assert loop.steps == [3] * 4
    rates = np.array([each.tokens_per_step / each.step_ms for each in SETTINGS]) / longer
    tokens = 3 * sum(each.tokens_per_step for each in SETTINGS)
    assert loop.looked_ms == pytest.approx(sum(found) - tokens / rates.max())
    as_planned = ClosedLoop(
        [
            each.model_copy(update={"step_ms": each.step_ms * by})
            for each, by in zip(SETTINGS, longer.tolist(), strict=True)
        ],
        5,
    )
    rng = np.random.default_rng(0)
    for _ in range(200):
        which = loop.choose()
        assert which == as_planned.choose() == rates.argmax() == 3
        ms = SETTINGS[which].step_ms * longer[which] * np.exp(0.08 * rng.normal())
        for each in (loop, as_planned):
            each.note(SETTINGS[which].tokens_per_step, ms)
    assert loop.steps == [3, 3, 3, 203]
    assert loop.factor == pytest.approx(1.9, rel=0.1)


def test_one_setting_is_kept() -> None:
    loop = ClosedLoop(SETTINGS[:1])
    for _ in range(10):
        assert loop.choose() == 0
        loop.note(2, 13.0)
    assert loop.steps == [10]


def test_a_setting_emits_what_its_chain_does() -> None:
    for setting in SETTINGS:
        assert setting.tokens_at(1.0) == pytest.approx(setting.tokens_per_step)
        assert setting.tokens_at(0.0) == 1
        assert 1 <= setting.tokens_at(2.0) <= setting.drafting.most_nodes


def plan(settings: list[PlanSetting]) -> Plan:
    return Plan(
        drafting=TreeDrafting(parents=[-1, 0, 0]),
        verifier="rrsw",
        sampling=SAMPLING,
        settings=settings,
    )


def table_of(ways: Sequence[tuple[Drafting, str]]) -> list[PlanSetting]:
    return [
        PlanSetting(
            drafting=way,
            verifier=verifier,
            tokens_per_step=1.0 + 0.2 * (way.most_nodes > 1),
            step_ms=1.0,
            depth=float(way.most_nodes > 1),
            nodes=way.most_nodes,
        )
        for way, verifier in ways
    ]


def test_decoding_follows_and_says_what_it_did() -> None:
    target, draft = table(5, seed=0), table(5, seed=1, order=1)
    decoder = Decoder.from_plan(plan(table_of(WAYS)), target, draft, follow=True)
    made = [decoder.generate(PROMPT, max_new_tokens=40, seed=seed) for seed in range(3)]
    assert all(len(each.tokens) == 40 for each in made)
    assert decoder.loop is not None
    assert sum(decoder.loop.steps) == sum(each.report.measured.num_steps for each in made)
    assert made[-1].report.followed.steps == decoder.loop.steps
    assert "; none: " in " ".join(render(made[-1].report).split())
    steps = [
        each for made_one in made for each in made_one.report.continuations[0].followed.settings
    ]
    assert [steps.count(which) for which in range(len(WAYS))] == decoder.loop.steps
    last = made[-1].report.continuations[0]
    assert len(last.followed.factors) == len(last.followed.chances) == len(last.tokens_by_step)
    assert last.followed.factors[-1] == pytest.approx(decoder.loop.factor, abs=1e-3)
    drawn = FIGURES[Report](made[-1].report)
    assert [axes.get_title("left") for axes in drawn.axes][-1].startswith("believed")


def test_greedy_text_is_the_same() -> None:
    greedy = SAMPLING.model_copy(update={"temperature": 0.0})
    target, draft = table(5, seed=0), table(5, seed=1, order=1)
    made = plan(table_of(WAYS)).model_copy(update={"sampling": greedy})
    texts = [
        Decoder.from_plan(made, target, draft, follow=follow).generate(PROMPT, max_new_tokens=60)
        for follow in (False, True)
    ]
    assert texts[0].tokens == texts[1].tokens


def test_a_plan_is_carried_out_at_another_temperature() -> None:
    target, draft = table(5, seed=0), table(5, seed=1, order=1)
    other = SAMPLING.model_copy(update={"temperature": 1.5})
    made = [
        Decoder.from_plan(planned, target, draft, temperature=1.5).generate(PROMPT)
        for planned in (
            plan(table_of(WAYS)),
            plan(table_of(WAYS)).model_copy(update={"sampling": other}),
        )
    ]
    assert made[0].tokens == made[1].tokens
    assert made[0].report.plan.sampling == other
    assert made[0].report.plan.predicted is None
    assert Decoder.from_plan(
        plan(table_of(WAYS)), target, draft, temperature=SAMPLING.temperature
    ).plan == (plan(table_of(WAYS)))
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(PlannerError, match="temperature: got"):
            Decoder.from_plan(plan(table_of(WAYS)), target, draft, temperature=wrong)


def test_where_a_table_holds_no_draft_following_is_decoding_plainly() -> None:
    """A profile in which drafting pays nowhere leaves one setting: none."""
    target, draft = table(5, seed=0), table(5, seed=1, order=1)
    alone = plan(table_of(WAYS[-1:])).model_copy(update={"drafting": NONE})
    made = Decoder.from_plan(alone, target, draft, follow=True).generate(PROMPT, max_new_tokens=9)
    assert made.tokens == Decoder.from_plan(alone, target).generate(PROMPT, max_new_tokens=9).tokens
    assert made.report.followed.steps == [9]


def test_a_draft_is_checked_for_all_that_may_be_followed() -> None:
    """Also where the plan itself has no use for one."""
    target, other = table(5, seed=0), table(6, seed=1, order=1)
    alone = plan(table_of([WAYS[-1], *WAYS[:-1]])).model_copy(update={"drafting": NONE})
    Decoder.from_plan(alone, target)
    for draft, fault in ((None, "draft: got none"), (other, "draft: got a vocabulary of 6 tokens")):
        with pytest.raises(PlannerError, match=fault):
            Decoder.from_plan(alone, target, draft, follow=True)


def test_a_plan_without_settings_cannot_follow() -> None:
    target, draft = table(5, seed=0), table(5, seed=1, order=1)
    with pytest.raises(PlannerError, match="settings: got none to change to"):
        Decoder.from_plan(plan([]), target, draft, follow=True)
