"""The papers' rows: each has a result or a reason; numbers by hand, and by obvious twins."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from planner import Profile, Tree
from planner.cli import main
from planner.documents.sampling import Sampling
from planner.policies import GreedyDrafting
from planner.show import papers
from planner.show.papers import dyspec_rows as dyspec
from planner.show.papers import mask_blocks
from planner.show.papers import rows_text as table
from planner.show.papers import sequoia_rows as sequoia
from planner.show.papers import specdecpp_rows as specdecpp
from planner.show.papers import spechub_rows as spechub
from planner.show.papers.ground import Ground
from planner.show.papers.row import PROFILE, PaperRow, RowResult
from planner.show.papers.sequoia_verifiers import top_p
from tests.docs.reading import ROOT
from tree_kernels.host.ordering import pack_ancestors, reorder

from . import factory
from .recorded_trees import in_profile, made_up

KEPT = ROOT / "notebooks/data/inflated-to-25-M/profile.json"
RRSW = [0.5 / 2**rank for rank in range(16)]
VECTORS = {
    "rrsw": [0.5, 0.2, *[0.01] * 14],
    "rrs": [0.5, 0.1, *[0.005] * 14],
    "topk": [0.4, 0.2, *[0.01] * 14],
    "naive": [0.3, 0.1, *[0.005] * 14],
}


def made(temperature: float = 0.6, spechub: tuple[float, ...] = (0.5, 0.5, 0.3)) -> Profile:
    """A profile of vectors to reckon with; spechub's columns are those of one child and of two."""
    entries = [
        factory.positional([vector], verifier=name, temperature=temperature)
        for name, vector in VECTORS.items()
    ]
    for name, columns in {"spechub": spechub, "kseq": (0.5, 0.4, 0.2)}.items():
        entries.append(
            factory.positional([columns], verifier=name, temperature=temperature, siblings=True)
        )
    return factory.profile(entries)


@pytest.fixture(scope="module")
def recorded() -> Ground:
    """Acceptance, and recorded trees."""
    return Ground(in_profile(made(), made_up(1, num_children=8, num_expanded=30)), 50)


@pytest.fixture(scope="module")
def kept() -> list[table.Outcome]:
    ground = Ground(Profile.load(KEPT), 50)
    return [(row, row.result(ground)) for row in papers.ROWS]


def row_of(paper, name: str) -> PaperRow:
    (found,) = [row for row in paper.ROWS if row.name == name]
    return found


def numbers(result: RowResult | str, where: str | None = None) -> dict[str, float]:
    assert isinstance(result, RowResult), result
    return {n.what: n.computed for n in result.numbers if where is None or n.where == where}


def test_every_table_and_figure_has_a_row():
    wanted = {sequoia: (7, 6), spechub: (9, 9), dyspec: (5, 9), specdecpp: (4, 5)}
    for paper, (num_tables, num_figures) in wanted.items():
        names = [row.name for row in paper.ROWS]
        assert len(set(names)) == len(names)
        plain = {re.sub(r"[a-c]$", "", name) for name in names}
        assert plain >= {f"Table {k}" for k in range(1, num_tables + 1)}
        assert plain >= {f"Figure {k}" for k in range(1, num_figures + 1)}
    assert {row.paper for row in papers.ROWS} == {paper.PAPER for paper in wanted}


def test_every_row_has_a_result_or_a_reason(kept):
    for row, result in kept:
        if isinstance(result, str):
            assert re.match(r"needs |a drawing", result), (row.name, result)
            continue
        assert result.numbers
        assert result.source
        assert any(number.shown for number in result.numbers)
        assert all(np.isfinite(number.computed) for number in result.numbers), row
    assert sum(isinstance(result, RowResult) for _, result in kept) >= 25
    assert table.agree(kept)


def test_without_a_profile_rows_say_that_they_need_one():
    for row in papers.ROWS:
        if row.needs.startswith(PROFILE):
            if row.compute is not None:
                assert row.result(Ground()) == "needs a profile", row
        elif row.exact:
            assert isinstance(row.result(Ground(num_pairs=20)), RowResult), row


def test_only_exact_rows_decide_on_the_exit_code(kept):
    false = RowResult.of("", [], False)
    exact = next(row for row, _ in kept if row.exact)
    other = next(row for row, _ in kept if not row.exact)
    assert table.agree([*kept, (other, false)])
    assert not table.agree([*kept, (exact, false)])
    assert not table.agree([(exact, "needs what it cannot need")])


def test_spechubs_tables_by_hand():
    ground = Ground(made())
    second = row_of(spechub, "Table 1").compute(ground)
    assert numbers(second) == pytest.approx({"RRS": 0.1, "RRSw": 0.2, "SpecHub": 0.3})
    assert [n.printed for n in second.numbers] == [0.0740, 0.1089, 0.1379]
    assert second.holds
    full = row_of(spechub, "Figure 7").compute(ground)
    for num_nodes, levels in ((3, 1), (7, 2), (31, 4)):
        by_hand = {m: sum(p**k for k in range(levels + 1)) for m, p in
                   {"RRS": 0.6, "RRSw": 0.7, "SpecHub": 0.8}.items()}  # fmt: skip
        assert numbers(full, f"T=0.6, {num_nodes} nodes") == pytest.approx(by_hand)
    assert full.numbers[-1].printed == pytest.approx((2.4031 + 2.3416) / 2)


def test_what_a_paper_says_may_not_be_so_here():
    ground = Ground(made(spechub=(0.5, 0.4, 0.1)))
    assert row_of(spechub, "Table 1").compute(ground).holds is False
    assert row_of(spechub, "Table 3").compute(ground).holds is False
    text = table.as_text([(row_of(spechub, "Table 1"), row_of(spechub, "Table 1").result(ground))])
    assert re.search(r"^  no  ", text, re.MULTILINE)


def test_printed_numbers_stand_beside_the_same_temperature_only():
    ground = Ground(made(temperature=0.7))
    for name in ("Table 1", "Table 5"):
        assert all(n.printed is None for n in row_of(spechub, name).compute(ground).numbers)


def test_the_best_tree_over_sixteen_chains_by_hand():
    """16 chains: P of any first child, then .5 a token, 31 more of them."""
    found = row_of(sequoia, "Figure 5a").compute(Ground(made()))
    first = sum(VECTORS["rrsw"])
    given = 1 + first * sum(0.5**k for k in range(32))
    reach = [1.0]  # the 513 greatest products of entries, by brute force over a frontier
    best, total = list(reach), 0.0
    for _ in range(513):
        top = max(best)
        best.remove(top)
        total += top
        best += [top * rate for rate in VECTORS["rrsw"] if top * rate > 1e-9]
        best = sorted(best, reverse=True)[:600]
    assert numbers(found) == pytest.approx({"more tokens": 100 * (total / given - 1)})


def test_chains_waste_what_they_must():
    """A chain of two: 1 + a + a2 tokens, and 2 drafted."""
    ground, sampling = Ground(made()), Sampling(temperature=0.6)
    two = specdecpp.fixed_lengths(ground, sampling)[0]
    assert two.verification == pytest.approx(1 / 1.75)
    assert two.discard == pytest.approx((2 - 0.75) / 1.75)
    seconds = (2 * specdecpp.DRAFT_S + specdecpp.TARGET_S) / 1.75
    assert two.tokens_per_s == pytest.approx(1 / seconds)


def test_an_oracle_verifies_once_for_each_difference():
    found = numbers(row_of(specdecpp, "Theorem 4.1").compute(Ground(made(temperature=0.0))))
    assert found["verifications"] == pytest.approx(0.6)  # of the likeliest tokens, .4 are accepted
    alone = found["which makes"] * 0.108
    assert found["speedup"] == pytest.approx(alone)


def test_rules_are_compared_at_equal_verification_by_lines():
    fixed = [specdecpp.Rates("2", 1.0, 0.5), specdecpp.Rates("4", 2.0, 0.1)]
    rule = [specdecpp.Rates("", 0.2, 0.6), specdecpp.Rates("", 1.0, 0.4)]
    assert specdecpp.saved(fixed, rule) == pytest.approx({"2": -0.4})


def test_printed_gains_follow_from_printed_speeds():
    for name in ("Figure 1", "Table 4"):
        assert row_of(specdecpp, name).compute(Ground()).holds
    off = {"Alpaca": (18.88, 17.62, 7.4)}
    assert not specdecpp._improvements(off).holds


def test_tails_are_cut_as_top_p_says():
    law = np.array([[0.5, 0.1, 0.3, 0.1], [0.25, 0.25, 0.25, 0.25]])
    assert top_p(law, 0.8) == pytest.approx(np.array([[0.625, 0, 0.375, 0], [0.25] * 4]))
    assert top_p(law, 1.0) == pytest.approx(law)


@pytest.mark.parametrize("num_nodes", [1, 31, 33, 100, 300])
def test_blocks_and_orders_are_the_kernels(num_nodes):
    parents = mask_blocks.random_tree(num_nodes)
    order = mask_blocks.heavy_path(parents)
    theirs = reorder(parents, "heavy-path")
    np.testing.assert_array_equal(order, theirs.nodes)
    words = pack_ancestors(theirs.parents) != 0
    blocks = sum(words[row : row + 32].any(axis=0).sum() for row in range(0, num_nodes, 32))
    assert mask_blocks.num_blocks(parents, order) == blocks
    rows = -(-num_nodes // 32)
    assert mask_blocks.num_blocks(parents, order, prefix=64) == blocks + 2 * rows


def test_best_first_takes_the_likelier_node_first():
    tree = Tree([-1, 0, 0, 1, 1])  # reach 1, .5, .1, .25, .05
    assert mask_blocks.best_first(tree, np.array([0.5, 0.1])).tolist() == [-1, 0, 1, 0, 1]


def test_rows_on_recorded_trees_are_played(recorded):
    """The greedy policy's tokens per step, as they were counted."""
    replays = recorded.replays(recorded.samplings[0])
    tally = replays.play(GreedyDrafting(num_nodes=64, max_depth=24, max_children=8))
    found = numbers(row_of(dyspec, "Table 1").compute(recorded))
    assert found["DySpec, greedy"] == pytest.approx(tally.tokens.sum() / tally.rounds.sum())
    for paper, name in (
        (dyspec, "Figure 5"), (dyspec, "Table 3"), (dyspec, "Table 4"), (specdecpp, "Figure 3"),
        (specdecpp, "Table 1"),
    ):  # fmt: skip
        result = row_of(paper, name).result(recorded)
        assert isinstance(result, RowResult), (name, result)
        assert result.holds is not None
        assert "recorded trees" in result.source


def test_acceptance_by_draft_probability_is_counted(recorded):
    """Brute force along each recorded tree's path: a first child's chance, and its fate."""
    found = row_of(dyspec, "Figure 2").compute(recorded)
    arrays = recorded.replays(recorded.samplings[0]).recorded
    counts = np.zeros((5, 2))
    for start, end in arrays.texts:
        for tree in range(start, end):
            row, depth = int(arrays.first[tree]), 0
            while row >= 0 and tree + depth < end:
                place = min(int(arrays.drawn[row, 0] * 5), 4)
                counts[place] += 1, arrays.taken[row] == 0
                taken = arrays.taken[row]
                child = arrays.child[row, taken] if taken >= 0 else -1
                row = int(arrays.first[tree]) + int(child) if child >= 0 else -1
                depth += 1
    rates = counts[:, 1] / np.maximum(counts[:, 0], 1)
    by_chance = numbers(found, "T=0.6, by the draft's probability")
    assert list(by_chance.values())[1:] == pytest.approx(rates.tolist())


def test_recorded_trees_are_asked_for(kept):
    found = {(row.paper, row.name): result for row, result in kept}
    assert found[dyspec.PAPER, "Table 1"] == "needs a profile with recorded trees (--num-replayed)"
    assert found[specdecpp.PAPER, "Figure 3"].holds is None


def test_what_was_not_measured_is_named():
    alone = Ground(factory.profile([factory.positional([RRSW])]))
    assert row_of(spechub, "Table 1").result(alone) == "needs a profile of verifier rrs at T=0.6"
    assert row_of(specdecpp, "Theorem 4.1").result(alone) == "needs a profile at temperature 0"


def test_the_command_prints_rows_as_data_and_in_words(monkeypatch, tmp_path):
    some = tuple(row_of(spechub, name) for name in ("Figure 2", "Figure 5", "Table 1"))
    monkeypatch.setattr(papers, "ROWS", some)
    made().save(tmp_path / "profile.json")
    words = CliRunner().invoke(main, ["reproduce", str(tmp_path / "profile.json")])
    assert words.exit_code == 0, words.output
    assert "SpecHub 0.300 (0.138)" in words.stdout
    assert words.stdout.endswith("2 of 3 rows computed; everything exact agrees\n")
    data = json.loads(CliRunner().invoke(main, ["reproduce", "--json"]).stdout)
    assert [each.get("reason") for each in data] == ["a drawing, without numbers", None,
                                                     "needs a profile"]  # fmt: skip
    assert data[1]["holds"] is True
    wrong = replace(some[1], compute=lambda _: RowResult.of("", [], False))
    monkeypatch.setattr(papers, "ROWS", (wrong,))
    failed = CliRunner().invoke(main, ["reproduce"])
    assert failed.exit_code == 1
    assert "NOT everything exact agrees" in failed.stdout
