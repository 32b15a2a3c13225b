"""The published tables, computed again: on fewer pairs than the command takes."""

import numpy as np
import pytest

from planner.show.papers import sequoia_claims, toy_pairs


def test_table_4_comes_out():
    found = toy_pairs.table_4(400)
    assert found.mean.shape == (6, 5)
    assert (abs(found.from_reference) <= 4).all()
    assert (abs(found.from_printed) <= 3).all()
    rrs, rrsw, otm, otmw, _ = found.mean.T
    assert (rrs <= otm).all()
    assert (rrsw <= otmw).all()


def test_uniform_logits_do_not_give_table_4(monkeypatch):
    """Pairs drawn as the paper says: nearly every entry is off by 10 standard errors and more."""

    class Uniform:
        def __init__(self, seed):
            self.rng = np.random.Generator(np.random.PCG64(seed))

        def normal(self, size):
            return self.rng.random(size)

    monkeypatch.setattr(np.random, "default_rng", Uniform)
    assert (abs(toy_pairs.table_4(400).from_reference) > 10).sum() >= 29


def test_the_worked_example():
    rejected = toy_pairs.worked_example()
    assert rejected["RRSw"] == pytest.approx(0.06, abs=1e-12)
    assert rejected["OTMw"] == pytest.approx(0.0, abs=1e-12)
    assert rejected["SpecHub"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("guarantee", [toy_pairs.over_rrs, toy_pairs.over_transport])
def test_spechub_accepts_more_where_its_theorems_say_so(guarantee):
    found = guarantee(300)
    assert 0.2 < found.share < 0.8  # a condition that some pairs meet and some do not
    assert found.least >= -1e-12


def test_elsewhere_it_may_accept_less():
    p, q = toy_pairs.toy_pairs(4, 300)
    more = toy_pairs.METHODS["SpecHub"](p, q) - toy_pairs.METHODS["OTM"](p, q)
    assert more[q.max(axis=-1) <= 0.5].min() < 0


def test_theorem_3_7_holds_for_whom_it_is_proven():
    found = sequoia_claims.properties(30)
    assert all(item.agrees for item in found)
    assert sum(item.published is not None for item in found) == 4
    examples = {item.verifier: (item.cover_example, item.transport_example) for item in found}
    assert examples["rrs"] == pytest.approx((0.75, 1.0))
    assert examples["kseq"] == pytest.approx((0.75, 1.0))
    assert examples["topk"] == pytest.approx((1.0, 0.6))


@pytest.mark.parametrize("vector", [sequoia_claims.DEMO_ACCEPTANCE, sequoia_claims.power_law()])
def test_table_1_bounds_every_shape_but_the_best_tree_grows_on(vector, monkeypatch):
    monkeypatch.setattr(sequoia_claims, "SIZES", (4, 64, 512))
    rows = {row.shape: row for row in sequoia_claims.growth(vector)}
    assert all(row.agrees for row in rows.values())
    for size, best in enumerate(rows["best tree"].tokens):
        assert best >= max(row.tokens[size] for row in rows.values()) - 1e-12
    assert rows["sequence"].tokens[-1] == pytest.approx(rows["sequence"].bound, abs=1e-9)
    beaten = [row.bound for row in rows.values() if row.shape in ("sequence", "binary tree")]
    assert rows["best tree"].tokens[-1] > max(beaten)


def test_a_power_law_rejects_k_children_with_its_power():
    assert 1 - sequoia_claims.power_law().cumsum()[:3] == pytest.approx([1 / 2, 1 / 3, 1 / 4])
