"""Recorded trees in a profile: what it keeps of them, beside its traces, damaged and resumed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner import Plan, PlannerError, load
from planner.documents.arrays import ReplayArrays
from planner.documents.sampling import Sampling
from planner.documents.tree import Tree
from planner.estimates.evidence import recorded
from planner.estimates.step_costs import step_costs
from planner.policies import TreeDrafting
from planner.replay.replays import Played, replays_of
from planner.verifiers import VERIFIERS
from profiler import Pair, Settings, measure_profile
from profiler.recording import Recording, Width, record_replays
from profiler.target_texts import sample_continuations
from runtime.randomness import TorchSource
from runtime.written import Written

from .test_replays import SAMPLING, table
from .test_replays_at_zero import GREEDY

V = 6
SAMPLINGS = (GREEDY, Sampling(temperature=1.0))
SMALL = Settings(samplings=SAMPLINGS, contexts=(3,), max_nodes=8, num_tokens=24, num_ranks=4,
                 repeats=2, whole_paths=True,
                 width=Width(num_expanded=20, num_children=4))  # fmt: skip
PROMPTS = [[seed % V, (5 * seed + 1) % V] for seed in range(24)]


@pytest.fixture(scope="module")
def profile():
    return measure_profile(Pair(table(2, size=V), table(3, size=V)), PROMPTS, SMALL)


def test_a_profile_holds_trees_for_every_sampling(profile, tmp_path):
    profile.save(tmp_path / "p.json")
    read = load(tmp_path / "p.json")
    kinds = [(replay.sampling.temperature, replay.verifier) for replay in read.replays]
    assert kinds == [(0.0, "topk"), (1.0, "rrsw"), (1.0, "traversal")]
    for replay in read.replays:
        arrays = read.replayed(replay)
        assert len(arrays.first) == 24 * 24 + 1
        assert arrays.drawn.shape == arrays.child.shape == (arrays.first[-1], 4)
        assert np.isnan(arrays.features[:, 3]).all()
        assert not np.isnan(arrays.features[:, :3]).any()
    assert read.without_arrays().replays == []


@pytest.mark.parametrize("parents", [[-1], [-1, 0], [-1, 0, 0, 1, 1, 2], [-1, 0, 0, 0, 1, 4]])
def test_fixed_trees_agree_with_their_traces(profile, parents):
    """Exactly where nothing is sampled; else within four standard errors of the rounds played.

    Paired text by text: both are of the same texts, so that what differs is the drawing.
    """
    for temperature, verifier in ((0.0, "topk"), (1.0, "rrsw"), (1.0, "traversal")):
        entry = next(
            entry for entry in profile.acceptance
            if (entry.sampling.temperature, entry.verifier) == (temperature, verifier)
        )  # fmt: skip
        evidence = recorded(profile, entry)
        replays = replays_of(profile, entry.sampling, verifier)
        tally = replays.play(TreeDrafting(parents=parents))
        _, rounds = evidence.rounds(Tree(parents))
        if temperature == 0:
            np.testing.assert_allclose(tally.rounds, rounds, atol=1e-4)
            continue
        # the renewal recursion's expected rounds of each text, and one outcome of them
        excess = tally.rounds - rounds
        error = excess.std(ddof=1) * np.sqrt(len(excess))
        assert abs(excess.sum()) <= 4 * error + 1e-9


def test_features_and_drawn_values_are_the_drafts(profile):
    """The root of every tree, where the draft's distribution follows from the last token."""
    draft = table(3, size=V)
    replay = profile.replays[0]
    arrays = profile.replayed(replay)
    texts = sample_continuations(table(2, size=V), PROMPTS, GREEDY, 24, seed=0)
    tree = 0
    for prompt, text in zip(PROMPTS, texts, strict=True):
        for last in [prompt[-1], *text[:-1]]:
            q = draft._table[last].softmax(-1).numpy()
            row = arrays.first[tree]
            best = np.sort(q)[::-1][:4]
            left = 1 - np.concatenate(([0], np.cumsum(best)[:-1]))
            np.testing.assert_allclose(arrays.drawn[row], best / left, atol=1e-6)
            shown = [q.max(), -(q * np.log(q)).sum(), (q**2).sum()]
            np.testing.assert_allclose(arrays.features[row, :3], shown, atol=1e-6)
            tree += 1


def test_trees_are_recorded_parents_first_and_within_the_width(profile):
    for replay in profile.replays:
        arrays = profile.replayed(replay)
        for tree in range(0, replay.num_trees, 7):
            start, end = arrays.first[tree : tree + 2]
            children = arrays.child[start:end]
            assert sorted(children[children >= 0].tolist()) == list(range(1, end - start))
            assert end - start <= 20


def test_places_without_a_position_are_not_drafted():
    """Positions end where the text does: trees at its end have no level to draft on."""
    pair = Pair(*(table(seed, max_positions=12) for seed in (0, 1)))
    texts = sample_continuations(pair.target, [[0, 1]], SAMPLING, 9, seed=0)
    width = Width(num_expanded=9, num_children=2)
    piece = record_replays(
        pair, [Written([0, 1], *texts)], SAMPLING, Recording("rrsw", width, seed=0)
    )
    sizes = np.diff(piece["first"])
    # the root of the last tree stands at position 9; its children at 10, theirs at 11
    assert sizes[-1] <= 1 + 2 + 4
    assert sizes[0] == 9


def test_an_interrupted_recording_continues_where_it_stopped(tmp_path, monkeypatch):
    from profiler import measure as measure_module

    pair, output = Pair(table(2, size=V), table(3, size=V)), tmp_path / "p.json"
    calls = []
    whole = measure_module.record_replays

    def recording(*arguments):
        calls.append(arguments[3].verifier)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(measure_module, "record_replays", recording)
    with pytest.raises(KeyboardInterrupt):
        measure_profile(pair, PROMPTS[:3], SMALL, output=output)
    assert not output.exists()
    again = measure_profile(pair, PROMPTS[:3], SMALL, output=output)
    assert calls == ["topk", "rrsw", "rrsw", "traversal"]
    fresh = measure_profile(pair, PROMPTS[:3], SMALL)
    for one, other in zip(again.replays, fresh.replays, strict=True):
        for a, b in zip(again.replayed(one), fresh.replayed(other), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("drawn", lambda a: a[:-1], "drawn: got shape"),
        ("drawn", lambda a: a * np.nan, "drawn: expected probabilities"),
        ("child", lambda a: np.full_like(a, -1), "child: expected every row but a root once"),
        ("taken", lambda a: np.full_like(a, 7), "taken: expected -1 to 3"),
        ("first", lambda a: np.append(a[[0, 0]], a[2:]), "first: expected 1 to 20 rows"),
        ("path", lambda a: a[0], "path: got shape"),
    ],
)
def test_damaged_trees_are_refused_in_one_line(profile, name, change, words):
    key = f"{profile.replays[0].arrays}/{name}"
    content = profile._content | {key: np.ascontiguousarray(change(profile._content[key]))}
    with pytest.raises(PlannerError, match=words) as caught:
        profile.with_arrays(content, "x.safetensors")
    assert "\n" not in str(caught.value)


def test_missing_trees_are_named(profile):
    key = f"{profile.replays[0].arrays}/taken"
    content = {name: array for name, array in profile._content.items() if name != key}
    with pytest.raises(PlannerError, match="no array"):
        profile.with_arrays(content, "x.safetensors")


def test_every_verifier_that_grows_can_be_recorded():
    assert all(name in ReplayArrays._fields for name in ("first", "path"))
    source = TorchSource(torch.Generator().manual_seed(0))
    p = torch.tensor([[0.0, 1.0]])
    for verifier in (each for each in VERIFIERS.values() if each.grows):
        recorded = VERIFIERS[verifier.recorded_as or verifier.name]
        children, taken = recorded.draw_given(p, p, torch.tensor([1]), 2, source)
        assert children.tolist()[0][int(taken)] == 1


def test_a_plan_from_recorded_trees_is_valid(profile):
    from planner.optimizer import solve

    plan = solve(profile, temperature=1.0, solver="grown", verifier="rrsw")
    assert Plan.model_validate(plan.model_dump()) == plan
    assert plan.made_from.num_candidates > 4
    assert Played(
        replays_of(profile, SAMPLINGS[1], "rrsw").play(plan.drafting), step_costs(profile)
    ).tokens_per_step >= 1  # fmt: skip
