"""The whole measurement on table models: what is in a profile, and what an interruption costs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from planner import PlannerError, load
from planner.documents import pieces as pieces_module
from planner.documents.sampling import Sampling
from planner.documents.version import VERSION
from planner.verifiers import VERIFIERS
from profiler import Pair, Settings, discard_pieces, disturbance, measure_profile, target_texts
from profiler import measure as measure_module
from profiler.journal import Journal, measured_by
from profiler.profile_settings import THOROUGH
from profiler.target_texts import one_by_one, sample_continuations
from profiler.times import sweeps as curves_module
from profiler.times.cost_grid import bush, grid, typical_tree
from profiler.times.sweeps import NUM_SMALL, ROWS_ALONE, CostRounds, CostSweeps
from runtime import HuggingFaceModel, TableModel
from runtime.language_model import answers
from runtime.randomness import seeded_source

V = 5
SAMPLINGS = (Sampling(temperature=0.0), Sampling(temperature=1.0))
SMALL = Settings(samplings=SAMPLINGS, contexts=(3, 8), max_nodes=6, num_tokens=7, num_ranks=3,
                 repeats=3)  # fmt: skip
DRAWN = replace(SMALL, samplings=SAMPLINGS[1:])
PROMPTS = [[0, 1, 2], [3, 3, 1], [4, 0, 0]]


def table(seed: int, **settings) -> TableModel:
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(V, V, V, generator=rng, dtype=torch.float64)
    return TableModel(logits, name=f"table-{seed}", **settings)


@pytest.fixture(scope="module")
def pair():
    return Pair(table(0), table(1))


@pytest.fixture(scope="module")
def kept(pair, tmp_path_factory):
    """(the small profile, a folder that keeps its pieces beside where it is to be saved)."""
    folder = tmp_path_factory.mktemp("small")
    return measure_profile(pair, PROMPTS, SMALL, output=folder / "p.json"), folder


@pytest.fixture(scope="module")
def small(kept):
    """What `SMALL` asks for."""
    return kept[0]


@pytest.fixture(scope="module")
def kept_drawn(pair, tmp_path_factory):
    """Likewise of what is drawn, `DRAWN`."""
    folder = tmp_path_factory.mktemp("drawn")
    return measure_profile(pair, PROMPTS, DRAWN, output=folder / "p.json"), folder


@pytest.fixture
def drawn(kept_drawn, tmp_path):
    """(the profile of `DRAWN`, where it is to be saved: a copy of its pieces is there)."""
    profile, folder = kept_drawn
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return profile, tmp_path / "p.json"


def begun(pair, output, settings) -> list[str]:
    """What is said until the first piece is measured, if any is."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CostSweeps, "sweep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measure_profile(pair, PROMPTS, settings, output=output, report_line=said.append)
    return said


def interrupted(sweeps):
    raise KeyboardInterrupt


def test_a_profile_holds_every_axis_asked_for(small, tmp_path):
    small.save(tmp_path / "p.json")
    profile = load(tmp_path / "p.json")
    places = [(costs.batch_size, costs.context, costs.sampling) for costs in profile.costs]
    assert places == [(1, 3, None), (1, 8, None), (1, 3, SAMPLINGS[0]), (1, 8, SAMPLINGS[0])]
    assert profile.costs[0].verify.counts == [1, 2, 3, 4, 5, 6]
    assert profile.costs[0].draft.counts == [1, 2, 3]
    assert profile.costs[0].verify.repeats == 3
    kinds = [(entry.sampling.temperature, entry.verifier) for entry in profile.acceptance]
    assert kinds == [(temperature, rule) for temperature in (0.0, 1.0) for rule in VERIFIERS]
    for costs in profile.costs:
        assert costs.overhead.keys() == VERIFIERS.keys()
        assert all(costs.overhead[rule].counts == [1, 2, 3, 4, 5, 6] for rule in VERIFIERS)
    for entry in profile.acceptance:
        expected, emitted = profile.traces(entry)
        assert expected.shape == emitted.shape == (21, entry.num_columns * len(entry.entered))
        most = VERIFIERS[entry.verifier].max_children or 3
        assert entry.num_ranks == (min(most, 3) if entry.sampling.temperature > 0 else 3)
        assert [prompt.num_positions for prompt in entry.prompts] == [7, 7, 7]
        for index, prompt in enumerate(entry.prompts):
            rows = expected[7 * index : 7 * index + 7, -entry.num_columns :].astype(np.float64)
            np.testing.assert_allclose(prompt.acceptance, rows.mean(axis=0), atol=1e-6)


def test_at_temperature_zero_every_rule_is_the_greedy_one(small):
    first, *others = (small.traces(entry) for entry in small.acceptance[: len(VERIFIERS)])
    assert all(np.array_equal(first[1], other[1]) for other in others)
    assert set(np.unique(first[1])) <= {0.0, 1.0}


def test_a_continuation_ends_behind_a_stop_token():
    target = table(0, stop_tokens=(2,))
    texts = sample_continuations(target, PROMPTS, SAMPLINGS[1], 30, seed=0)
    for text in texts:
        assert 2 not in text[:-1]
        assert len(text) == 30 or text[-1] == 2
    assert any(len(text) < 30 for text in texts)
    profile = measure_profile(Pair(target, table(1)), PROMPTS, SMALL)
    lengths = [prompt.num_positions for prompt in profile.acceptance[-1].prompts]
    assert min(lengths) < SMALL.num_tokens


@pytest.fixture
def quiet(monkeypatch):
    """A machine on which nothing else runs, so that no sweep is made again."""
    monkeypatch.setattr(disturbance, "core_seconds", lambda: (0.0, 0.0))


def test_an_interrupted_measurement_continues_where_it_stopped(pair, quiet, tmp_path, monkeypatch):
    output = tmp_path / "p.json"
    whole = CostSweeps.sweep
    calls = []

    def sweep(self):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(CostSweeps, "sweep", sweep)
    with pytest.raises(KeyboardInterrupt):
        measure_profile(pair, PROMPTS, DRAWN, output=output)
    assert not output.exists()
    said = []
    measure_profile(pair, PROMPTS, DRAWN, output=output, report_line=said.append)
    # a warm-up and a sweep at each context, in the first of three rounds; after acceptance, a sweep
    # at the first context in the second round, and the interruption in that at the second.  Then a
    # warm-up and a sweep at the second context, a warm-up at the first, and the third round.
    assert len(calls) == 6 + 5
    assert said == ["continuing an interrupted run: 6 pieces are done"]
    calls.clear()
    again = []
    measure_profile(pair, PROMPTS, DRAWN, output=output, report_line=again.append)
    assert calls == []
    assert again == ["continuing an interrupted run: 9 pieces are done"]
    discard_pieces(output)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", [{"seed": 1}, {"num_tokens": 8}, {"contexts": (3, 9)}])
def test_other_settings_share_no_pieces(pair, drawn, change):
    assert begun(pair, drawn[1], replace(DRAWN, **change)) == []


def test_sweeps_that_repeat_small_trees_otherwise_share_no_pieces(pair, drawn, monkeypatch):
    for module in (curves_module, measure_module):
        monkeypatch.setattr(module, "NUM_SMALL", NUM_SMALL + 1)
    assert begun(pair, drawn[1], DRAWN) == []


def test_what_other_code_measured_is_measured_anew_and_that_is_said(pair, drawn, monkeypatch):
    (first, output), said, calls = drawn, [], []
    assert first.written_by == f"espalier {VERSION}"
    measured = measure_module.measure_acceptance
    monkeypatch.setattr(
        measure_module, "measure_acceptance",
        lambda *arguments, **settings: calls.append(1) or measured(*arguments, **settings),
    )  # fmt: skip
    for code in ("of today", "changed", "changed"):
        if code == "changed":
            monkeypatch.setattr(measure_module, "measured_by", lambda: "changed")
        measure_profile(pair, PROMPTS, DRAWN, output=output, report_line=said.append)
    same, anew, again = said
    assert same == again == "continuing an interrupted run: 9 pieces are done"
    assert anew.startswith("9 pieces of an interrupted run were taken by other code")
    assert "\n" not in anew
    assert len(calls) == 1  # by the changed code


def test_the_code_that_measures_is_told_apart_by_its_sources(tmp_path, monkeypatch):
    plain = measured_by.__wrapped__
    assert plain() == plain() != ""
    assert VERSION in plain()
    (tmp_path / "a.py").write_text("x = 1")
    monkeypatch.setattr(pieces_module, "_folders", lambda package: [tmp_path])
    before = plain()
    (tmp_path / "a.py").write_text("x = 2")
    assert plain() != before
    monkeypatch.setattr(pieces_module, "WRITTEN_BY", "espalier 9")
    assert plain().startswith("espalier-9")


def test_a_damaged_piece_is_measured_again(pair, kept, tmp_path):
    before, folder = kept
    output = shutil.copytree(folder, tmp_path, dirs_exist_ok=True) / "p.json"
    pieces = sorted(tmp_path.glob(".p.json.*/acceptance-*.piece"))
    assert len(pieces) == 2
    pieces[1].write_bytes(b"torn")
    after = measure_profile(pair, PROMPTS, SMALL, output=output)
    assert after.costs == before.costs
    assert after.acceptance == before.acceptance


@pytest.mark.parametrize(
    ("change", "prompts", "words"),
    [
        ({}, [], "expected at least one of each"),
        ({}, [[]], "prompts.0: got no tokens"),
        ({}, [[0, V]], f"expected ids from 0 to {V - 1}"),
        ({}, [[0] * 60], "expected at most 64 positions in all"),
        ({"contexts": (63,)}, PROMPTS, "context: got 63, expected at most"),
        ({"num_ranks": V + 1}, PROMPTS, f"expected at most the vocabulary, {V}"),
        ({"repeats": 1}, PROMPTS, "at least 2"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(change, prompts, words):
    from dataclasses import replace

    pair = Pair(table(0, max_positions=64), table(1, max_positions=64))
    with pytest.raises(PlannerError, match=words) as caught:
        measure_profile(pair, prompts, replace(SMALL, **change))
    assert "\n" not in str(caught.value)


def test_two_vocabularies_are_refused(pair):
    other = TableModel(torch.zeros(V + 1, V + 1))
    with pytest.raises(PlannerError, match=f"a vocabulary of {V + 1}, expected {V}"):
        measure_profile(Pair(pair.target, other), PROMPTS, SMALL)


def test_trees_that_are_timed():
    assert grid(1) == [1]
    assert grid(24) == [1, 2, 3, 4, 6, 8, 12, 16, 24]
    assert grid(20) == [1, 2, 3, 4, 6, 8, 12, 16, 20]
    assert grid(20, every=7) == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20]
    assert grid(3, every=7) == [1, 2, 3]
    assert [typical_tree(n).num_nodes for n in grid(64)] == grid(64)
    for width in (1, 2, 7):
        assert bush(width, width).widths.tolist() == [1, width, width]


@pytest.mark.parametrize("penalty", [1.0, 1.5])
def test_continuing_together_equals_one_by_one(penalty):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 31, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    config = LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=1)
    model = HuggingFaceModel(LlamaForCausalLM(config))
    model.stop_tokens = ()
    prompts = [[1, 2, 3], [4, 5, 6], [7, 8], [9, 10, 11]]
    greedy = Sampling(temperature=0.0, repetition_penalty=penalty)
    source = seeded_source(0, model.device)
    together = sample_continuations(model, prompts, greedy, 12, seed=0)
    assert together == [one_by_one(model, prompt, greedy, 12, source) for prompt in prompts]


def test_texts_of_any_lengths_grow_in_the_same_passes_until_they_stop(monkeypatch):
    model, sizes = table(0, stop_tokens=(2,)), []
    monkeypatch.setattr(
        target_texts, "answers", lambda asked: sizes.append(len(asked)) or answers(asked)
    )
    texts = sample_continuations(model, [[0], [1, 3], [4, 0, 0]] * 9, SAMPLINGS[1], 20, seed=0)
    assert sizes == [sum(len(text) > step for text in texts) for step in range(len(sizes))]
    assert max(map(len, texts)) == len(sizes) <= 20
    assert sizes[0] == 27 > sizes[1]


@pytest.mark.parametrize(
    ("ms", "settings", "num_sizes", "repeats"),
    [(199.0, {}, 6, 20), (201.0, {}, 6, 5), (201.0, {"max_nodes": 40}, 13, 5),
     (201.0, {"repeats": 3}, 6, 3), (201.0, {"wanted": THOROUGH}, 6, 10)],
)  # fmt: skip
def test_a_slow_target_is_measured_less_often(pair, quiet, monkeypatch, ms, settings, num_sizes,
                                              repeats):  # fmt: skip
    """Unless a number of repetitions is asked for; and that is said."""
    monkeypatch.setattr(
        measure_module, "plain_steps", lambda *_, **__: {"step_ms": np.array([1.0, ms, 9e9])}
    )
    said = []
    wanted = replace(DRAWN, **{"contexts": (3,), "repeats": None, **settings})
    profile = measure_profile(pair, PROMPTS, wanted, report_line=said.append)
    (costs,) = profile.costs
    assert len(costs.verify.counts) == num_sizes
    assert costs.verify.repeats == repeats
    told = f"a step of the target takes 201 ms: fewer sizes are timed, {repeats} times each"
    assert said == [told] * (ms > 200)


def test_half_of_the_rounds_come_before_everything_else_and_half_behind(pair, quiet, monkeypatch):
    """A spell of one speed then cannot have all of them, nor all of one context or sampling."""
    done = []
    acceptance = measure_module.measure_acceptance

    class Noted(CostSweeps):
        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            self.place = self.context, arguments[3]

        def warm_up(self):
            pass

        def sweep(self):
            done.append(self.place)
            return super().sweep()

    def accepted(*arguments, **settings):
        done.append("acceptance")
        return acceptance(*arguments, **settings)

    monkeypatch.setattr(measure_module, "CostSweeps", Noted)
    monkeypatch.setattr(measure_module, "measure_acceptance", accepted)
    measure_profile(pair, PROMPTS, SMALL)
    greedy, drawn = SAMPLINGS
    round_ = [(3, drawn), (8, drawn), (3, greedy), (8, greedy)]
    assert done == [*round_, *["acceptance"] * len(SAMPLINGS), *round_, *round_]


def test_alone_a_model_is_timed_behind_a_step_like_it(small):
    """More often than trees are, being what every speedup is a multiple of."""
    for costs in small.costs:
        assert costs.target_step.repeats == costs.draft_step.repeats == SMALL.repeats * ROWS_ALONE
        assert costs.verify.repeats == SMALL.repeats


def test_a_grid_may_be_swept_more_often_than_others_in_every_round():
    done, calls = [], []

    class Sweeps:
        def __init__(self, name):
            self.name = name

        def warm_up(self):
            done.append(f"warm {self.name}")

        def sweep(self):
            done.append(self.name)
            return {"ms": np.array([float(len(done))])}

        def costs(self, pieces):
            return len(pieces)

    rounds = CostRounds({"a": Sweeps("a"), "b": Sweeps("b")}, Journal(None, {}).piece, {"a": 3})
    rounds.take(range(1), lambda: calls.append(len(done)))
    rounds.take(range(1, 2), lambda: calls.append(len(done)))
    once = ["a", "a", "a", "b"]
    assert [each for each in done if "warm" not in each] == once * 2
    assert len(calls) == 4
    assert rounds.costs() == {"a": 6, "b": 2}


def test_pieces_are_discarded_whatever_their_output_is_called_and_nobody_elses(tmp_path):
    journals = [Journal(tmp_path / name, {}) for name in ("p[1].json", "p1.json")]
    for journal in journals:
        journal.piece("a", lambda: {"a": np.ones(1)})
    discard_pieces(tmp_path / "p[1].json")
    assert [journal.holds("a") for journal in journals] == [False, True]


def test_a_folder_that_another_run_makes_at_the_same_moment_serves_both(tmp_path, monkeypatch):
    make = Path.mkdir

    def made_by_both(folder: Path) -> None:
        make(folder)
        make(folder)

    journals = [Journal(tmp_path / "p.json", {}, "code") for _ in range(2)]
    monkeypatch.setattr(Path, "mkdir", made_by_both)
    for number, journal in enumerate(journals):
        assert journal.piece(f"{number}", lambda: {"a": np.ones(1)})["a"] == 1
    assert all(journal.holds("0") and journal.holds("1") for journal in journals)
