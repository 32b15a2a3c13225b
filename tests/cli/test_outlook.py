"""`planner show`: what it says of a profile and of a plan is what the optimizer computed."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.special import stdtrit

from planner import Plan, Tree
from planner.cli import main
from planner.documents.optimal_acceptance import OptimalAcceptance, PromptOptimum
from planner.documents.sampling import Sampling
from planner.estimates.evidence import recorded
from planner.estimates.step_costs import step_costs
from planner.optimizer import solve
from planner.optimizer.choice import Question, rank_candidates, ranked_by_verifier
from planner.optimizer.contenders import contenders
from planner.optimizer.grading import grade
from planner.optimizer.paired_comparison import compare
from planner.optimizer.ranking import ranked
from planner.show.attained import acceptance_by_rank, share_of_optimum
from planner.show.document_text import render
from planner.show.outlook import outlook, planned, samplings_of
from planner.show.tables import printed
from planner.show.words import certificate, summary
from tests.optimizer import factory

from .profiles import SMALL, two_verifiers, vectors


def optimal(acceptance, *, replacement, num_positions, num_prompts=2):
    return OptimalAcceptance(
        sampling=Sampling(temperature=0.6),
        replacement=replacement,
        num_children=len(acceptance),
        prompts=[PromptOptimum(num_positions=num_positions, acceptance=acceptance)] * num_prompts,
    )


def with_optimal(profile, *entries):
    return profile.model_copy(update={"optimal": list(entries)})


def shown(profile):
    """Its outlook with plans."""
    samplings = samplings_of(profile, None)
    return printed(outlook(profile, samplings, planned(profile, samplings, Question())))


def plan_rows(text):
    """The lines of the table of plans."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "tokens per step  step, ms" in line)
    return lines[start + 1 : lines.index("", start)]


# ------------------------------------------------------------------ acceptance


def test_the_share_of_the_bound_is_taken_at_the_positions_of_the_bound():
    """The bound has 2 of 4 positions, the second and the last: there .5 + .1 of .5 and .8."""
    rows = np.array([[0, 0], [0.5, 0.1], [0, 0], [0.5, 0.1]])
    profile = with_optimal(
        factory.profile([factory.traced([rows, rows])], [factory.costs(**SMALL)]),
        optimal([0.5, 0.8], replacement=False, num_positions=2),
        optimal([0.9, 0.9], replacement=True, num_positions=2),
    )
    assert share_of_optimum(profile, profile.acceptance[0]) == pytest.approx([1, 0.75], rel=1e-6)
    assert profile.acceptance[0].by_count() == pytest.approx([0.25, 0.3], rel=1e-6)
    text = shown(profile)
    assert "0.250 (100 %)" in text
    assert "0.300 ( 75 %)" in text
    assert "at best, none drawn twice, 4 of 8 positions" in text
    assert "drawn independently" not in text


def test_where_siblings_count_the_total_is_of_that_many_children():
    entry = factory.positional([[0.4, 0.3, 0.3]] * 2, verifier="kseq", siblings=True)
    profile = with_optimal(
        factory.profile([entry]), optimal([0.5, 0.8], replacement=True, num_positions=100)
    )
    assert entry.by_count() == pytest.approx([0.4, 0.6])
    assert share_of_optimum(profile, entry) == pytest.approx([0.8, 0.75])
    assert [rate.value for rate in acceptance_by_rank(entry)] == pytest.approx([0.3, 0.3])
    assert "kseq (2)" in shown(profile)


@pytest.mark.parametrize("verifier", ["topk", "spechub"])
def test_children_drawn_by_another_law_have_no_bound(verifier):
    profile = with_optimal(
        factory.profile([factory.positional([[0.4, 0.2]] * 2, verifier=verifier)]),
        *(optimal([0.5, 0.8], replacement=it, num_positions=100) for it in (True, False)),
    )
    assert share_of_optimum(profile, profile.acceptance[0]) is None
    assert "at best" not in shown(profile)


def test_positions_that_cannot_be_told_apart_are_not_compared():
    profile = with_optimal(
        factory.profile([factory.positional([[0.4, 0.2]] * 2)]),
        optimal([0.5, 0.8], replacement=False, num_positions=3),
    )
    assert share_of_optimum(profile, profile.acceptance[0]) is None
    assert "0.400 (" not in shown(profile)


def test_acceptance_has_the_interval_of_its_prompts():
    """Student's t over 24 prompts; 2000 samples know a percentile to some 5 %."""
    firsts = np.random.default_rng(0).normal(0.4, 0.05, size=24)
    entry = factory.positional([[first, 0.2] for first in firsts])
    first, second = acceptance_by_rank(entry)
    half = stdtrit(23, 0.975) * firsts.std(ddof=1) / np.sqrt(24)
    assert first.value == pytest.approx(firsts.mean(), rel=1e-12)
    assert (first.high - first.low) / 2 == pytest.approx(half, rel=0.1)
    assert second.high - second.low == pytest.approx(0, abs=1e-12)
    text = shown(factory.profile([entry]))
    assert f"{first.value:.3f} ±{(first.high - first.low) / 2:.3f}".replace("±0", "±") in text
    assert "0.200 ±.000" in text


# ----------------------------------------------------------------------- plans


def test_the_table_shows_what_the_optimizer_graded():
    profile = two_verifiers()
    candidates = rank_candidates(profile)
    rows = plan_rows(shown(profile))
    kept = contenders(candidates)
    assert len(rows) == len(kept)
    for row, candidate in zip(rows, kept, strict=True):
        if candidate.tree.num_nodes == 1:
            assert row.startswith("do not speculate")
        else:
            name, solver, nodes, depth = row.split()[:4]
            assert (name, solver) == (candidate.verifier, candidate.solver)
            assert (int(nodes), int(depth)) == (candidate.tree.num_nodes, candidate.tree.depth)
        assert str(candidate.tokens_per_step) in row
        assert row.endswith(str(candidate.speedup))


def test_contenders_are_the_best_of_each_kind():
    for profile in (two_verifiers(), two_verifiers(draft=lambda width: 100.0)):
        candidates = rank_candidates(profile)
        kept = contenders(candidates)
        assert [c.tokens_per_ms for c in kept] == sorted(c.tokens_per_ms for c in kept)[::-1]
        trees = [c for c in candidates if c.tree.num_nodes > 1]
        assert sum(c.tree.num_nodes == 1 for c in kept) == 1
        for field in ("verifier", "solver"):
            for name in {getattr(c, field) for c in trees}:
                assert next(c for c in trees if getattr(c, field) == name) in kept


def test_the_winner_in_words_is_the_first_candidate():
    profile = two_verifiers()
    best = rank_candidates(profile)[0]
    text = " ".join(shown(profile).split())
    assert best.tree.num_nodes > 1
    assert (
        f"{best.verifier} with {best.solver}'s tree of {best.tree.num_nodes} nodes, "
        f"depth {best.tree.depth} is the fastest: {best.tokens_per_step} tokens per step"
    ) in text
    assert "Against naive (" in text
    assert "Proven, for rrsw's acceptance as it is inside this tree" in text


def test_the_proof_in_words_is_the_plans():
    profile = two_verifiers()
    gap = solve(profile).predicted.optimality_gap
    words = "faster" if gap < 0.0005 else f"more than {100 * gap:.1f} % faster"
    assert f"of up to 8 nodes and 7 levels is {words}." in " ".join(shown(profile).split())


def test_where_drafting_is_dear_not_speculating_wins():
    profile = two_verifiers(draft=lambda width: 100.0)
    text = " ".join(shown(profile).split())
    assert plan_rows(shown(profile))[0].startswith("do not speculate")
    assert "Not speculating is the fastest." in text
    assert "The best tree, rrsw with" in text
    assert "any verifier's acceptance averaged over all positions" in text
    assert text.endswith("promises up to some 20 % too much.")


def test_a_profile_is_shown_without_planning(monkeypatch, tmp_path):
    two_verifiers().save(tmp_path / "profile.json")
    monkeypatch.setattr(
        "planner.optimizer.choice.ranked_by_verifier", None
    )  # to call it would fail
    whole = CliRunner().invoke(main, ["show", str(tmp_path / "profile.json"), "--all"])
    assert whole.exit_code == 0, whole.output
    assert "accepted at all, by number of children" in whole.stdout
    assert "candidate plans" not in whole.stdout


@pytest.mark.parametrize("draft", [lambda width: 1.0, lambda width: 100.0])
def test_a_plan_says_what_it_was_chosen_from_as_its_profile_does(draft):
    profile = two_verifiers(draft=draft)
    plan = solve(profile)
    told = shown(profile)
    table_and_reasons = told[told.index("T=0.6: best of") :].rsplit("No traces were", 1)[0]
    assert table_and_reasons.strip() in render(plan)
    assert render(Plan.model_validate(plan.model_dump())) == render(plan)
    before = plan.made_from.model_dump(exclude={"alternatives", "max_nodes", "max_depth"})
    older = Plan.model_validate(plan.model_dump() | {"made_from": before})
    lines = render(plan).splitlines()
    assert set(render(older).splitlines()) < set(lines)  # one of an older version says all else
    assert not any("candidate plans" in line for line in render(older).splitlines())


# ----------------------------------------------------------------- comparisons


def held(profile):
    found = ranked_by_verifier(profile)
    return found, ranked(found)


def test_nothing_is_faster_than_itself():
    found, candidates = held(two_verifiers())
    for candidate in candidates[:3]:
        ratio = compare(candidate, candidate, found)
        for estimate in (ratio.tokens_per_step, ratio.step_ms, ratio.speed):
            assert (estimate.low, estimate.value, estimate.high) == (1, 1, 1)
        assert ratio.could_be_chance


def test_against_not_speculating_the_ratio_is_the_speedup():
    found, candidates = held(two_verifiers())
    lone = next(c for c in candidates if c.tree.num_nodes == 1)
    for candidate in candidates[:5]:
        speed, gain = compare(candidate, lone, found).speed, candidate.speedup
        assert (speed.low, speed.value, speed.high) == pytest.approx(
            (gain.low, gain.value, gain.high), rel=1e-9
        )


def test_what_both_share_is_no_noise():
    """The same tree under both verifiers: only the overheads' errors, .1 ms of 12, are left."""
    found, candidates = held(two_verifiers())
    by_place = {(c.verifier, c.tree): c for c in candidates}
    one = next(c for c in candidates if c.verifier == "rrsw" and ("naive", c.tree) in by_place)
    other = by_place["naive", one.tree]
    ratio = compare(one, other, found)
    assert ratio.speed.value == pytest.approx(one.tokens_per_ms / other.tokens_per_ms, rel=1e-12)
    # half a range of .01 ms, 100 repeats, two curves
    error = 1.96 * np.sqrt(2) * 0.01 * 1.2533141 / 0.6744898 / 10 / one.step_ms.value
    assert np.log(ratio.step_ms.high) == pytest.approx(error, rel=1e-6)
    assert not ratio.could_be_chance  # though their own intervals overlap:
    assert one.tokens_per_step.low < other.tokens_per_step.high


def test_on_other_prompts_there_are_no_pairs():
    entries = [
        factory.positional(vectors(0, [0.6, 0.15])),
        factory.positional(vectors(0, [0.5, 0.15], num_prompts=5), verifier="naive"),
    ]
    found, candidates = held(factory.profile(entries, [factory.costs(**SMALL)]))
    one, other = (next(c for c in candidates if c.verifier == v) for v in ("rrsw", "naive"))
    a, b, ratio = one.tokens_per_step, other.tokens_per_step, compare(one, other, found)
    wide = np.hypot(np.log(a.high / a.value), np.log(b.value / b.low))
    assert np.log(ratio.tokens_per_step.high * b.value / a.value) == pytest.approx(wide)


# ------------------------------------------------------------ profiles that lack


def odd_profiles():
    rows = np.tile([0.6, 0.2], (40, 1))
    untimed = factory.costs(**SMALL)
    untimed = untimed.model_copy(update={"overhead": {"chain": untimed.overhead["chain"]}})
    return {
        "no traces": factory.profile([factory.positional([[0.6, 0.2]] * 3)]),
        "one prompt": factory.profile([factory.traced([rows])]),
        "temperature 0": factory.profile(
            [factory.traced([rows] * 2, verifier="topk", temperature=0)]
        ),
        "never accepted": factory.profile([factory.positional([[0.0, 0.0]] * 3)]),
        "unknown verifier": factory.profile([factory.positional([[0.6]] * 3, verifier="luck")]),
        "untimed": factory.profile([factory.positional([[0.6, 0.2]] * 3)], [untimed]),
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no traces", "No traces were recorded"),
        ("one prompt", "one prompt: nothing is known of the spread"),
        ("temperature 0", "at temperature 0 all verifiers are one"),
        ("never accepted", "Not speculating is the fastest."),
        ("unknown verifier", "no plans: verifier: got 'auto'"),
        ("untimed", "no plans: verifier: got 'rrsw', but the profile timed only chain"),
    ],
)
def test_what_a_profile_lacks_is_said(name, words, tmp_path):
    path = tmp_path / "profile.json"
    odd_profiles()[name].save(path)
    result = CliRunner().invoke(main, ["show", "--all", "--plans", str(path)])
    assert result.exit_code == 0, result.output
    assert words in " ".join(result.stdout.split())
    assert "nan" not in result.stdout


def test_show_asks_for_what_was_measured(tmp_path):
    profile = two_verifiers()
    profile.save(tmp_path / "profile.json")
    solve(profile).save(tmp_path / "plan.json")

    def show(*arguments):
        return CliRunner().invoke(main, ["show", *map(str, arguments)])

    whole = show(tmp_path / "profile.json", "--all")
    at = show(tmp_path / "profile.json", "--all", "--temperature", 0.6)
    assert at.stdout == whole.stdout
    planned = show(tmp_path / "profile.json", "--all", "--plans")
    assert planned.stdout.partition("\n\n")[2].startswith(
        whole.stdout.partition("\n\n")[2].rstrip()
    )
    sized = show(tmp_path / "profile.json", "--all", "--batch-size", 1)
    assert sized.stdout == planned.stdout
    for option in ("--temperature", "--batch-size", "--context"):
        refused = show(tmp_path / "profile.json", option, 7)
        assert refused.exit_code == 1
        assert "got 7" in refused.stderr
        assert refused.stdout == ""
        assert show(tmp_path / "plan.json", option, 7).exit_code == 2


# ------------------------------------------------------------------------ plans


@pytest.mark.parametrize(("start_error", "is_said"), [(0.0, False), (0.08, True)])
def test_a_plan_that_may_be_slower_than_none_says_so(tmp_path, start_error, is_said):
    profile = two_verifiers(step=7.1, spread=0.0)
    (costs,) = profile.costs
    unsure = costs.model_copy(update={"start_error": start_error})
    profile.model_copy(update={"costs": [unsure]}).save(tmp_path / "p.json")
    result = CliRunner().invoke(main, ["solve", str(tmp_path / "p.json"), "--solver", "chain"])
    plan = Plan.model_validate_json(result.stdout)
    assert plan.speculates
    assert (plan.predicted.speedup.low < 1) == is_said
    assert ("decoding may be slower, too" in result.stderr) == is_said


def siblings_plan():
    """A plan under K-SEQ: two nodes below the root, one below the first, at .3, .2 and .6."""
    entry = factory.positional([[0.6, 0.3, 0.2]] * 2, verifier="kseq", siblings=True)
    profile = factory.profile([entry], [factory.costs(**SMALL)])
    plan = solve(profile)
    graded = grade(Tree([-1, 0, 0, 1]), recorded(profile, entry), step_costs(profile))
    return Plan.model_validate(
        plan.model_dump()
        | {
            "drafting": {"kind": "tree", "parents": [-1, 0, 0, 1]},
            "predicted": graded.predicted.model_dump(),
        }
    )


def test_a_nodes_acceptance_is_that_among_its_siblings():
    lines = render(siblings_plan()).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("node (rank)"))
    assert [line.split()[-3] for line in lines[start + 2 :]] == ["0.300", "0.600", "0.200"]


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (0.0, "no static tree within the limits is faster"),
        (0.0004, "no static tree within the limits is faster"),
        (0.0031, "within 0.3 % of the best static tree"),
        (2.142, "the best static tree at most 3.1 times as fast"),
    ],
)
def test_a_plan_says_how_near_the_best_it_is(gap, words):
    plan = solve(two_verifiers())
    predicted = plan.predicted.model_copy(update={"optimality_gap": gap})
    plan = plan.model_copy(update={"predicted": predicted})
    assert certificate(gap) == words
    assert summary(plan).endswith(f"{words} (proven)")
    assert "acceptance that holds inside this tree" in render(plan)
    bare = plan.model_copy(
        update={"predicted": predicted.model_copy(update={"optimality_gap": None})}
    )
    assert "proven" not in render(bare)
