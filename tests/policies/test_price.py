"""The policy that prices time: by hand, against an obvious twin, and in its special cases."""

from __future__ import annotations

import numpy as np
import pytest

from planner.policies import PriceDrafting
from planner.policies.policy import COLLISION, FEATURES
from planner.policies.price import STEPS_OF_THE_PLAN, Price
from tests.policies.driving import Path, grown, of_text, same_everywhere
from tests.policies.settings import trees

SETTINGS = trees(14, 4)["price"]


def made(**change) -> PriceDrafting:
    return PriceDrafting.model_validate(SETTINGS.model_dump() | change)


def features(path: Path) -> np.ndarray:
    rng = np.random.default_rng([len(path), *path])
    return rng.uniform(0.1, 0.95, size=len(FEATURES))


def obvious(settings: PriceDrafting, drawn, *, known: bool, max_depth: int = 99):
    """(revealed paths in order, passes): what the docstring says, everything computed anew."""
    revealed, expanded, passes = [()], [], []

    def looked_up(table, rank, value):
        return float(np.interp(value, settings.knots, table[min(rank, len(table) - 1)]))

    def after(path):
        return looked_up(settings.after, path[-1], drawn(path[:-1])[path[-1]])

    def tried(path, rank):
        """P(the candidate of this rank below `path` is tried)."""
        chance = reach(path)
        for earlier in range(rank):
            chance *= 1 - after((*path, earlier))
        return chance

    def reach(path):
        return tried(path[:-1], path[-1]) * after(path) if path else 1.0

    def slots():
        """(chance that the candidate is accepted, its path), the likeliest first."""
        found = []
        for path in expanded:
            rank = sum(other[:-1] == path for other in revealed if other)
            if rank == settings.max_children:
                continue
            values = drawn(path)
            if known:
                chance = looked_up(settings.after, rank, values[rank])
            else:
                left = np.prod([1 - values[r] for r in range(rank)])
                mass = [values[r] * np.prod(1 - values[:r]) for r in range(rank)]
                squares = features(path)[COLLISION] - np.sum(np.square(mass))
                collision = squares / left**2 if left > 1e-6 else 0.0
                chance = looked_up(settings.before, rank, np.clip(collision, 0, 1))
            chance *= tried(path, rank)
            if chance > 0:
                found.append((-chance, revealed.index(path), (*path, rank)))
        return [(-chance, path) for chance, _, path in sorted(found)]

    def best_pass():
        below = [p for p in revealed if p not in expanded and len(p) < max_depth]
        below.sort(key=lambda p: (-reach(p), revealed.index(p)))
        best, best_gain, gain = [], 0.0, 0.0
        for width in range(1, min(len(below), len(settings.draft_ms)) + 1):
            path = below[width - 1]
            rates = settings.ahead[0 if path == () else 1]
            gain += settings.lookahead * sum(
                max(reach(path) * rate - settings.node_price, 0) for rate in rates
            )
            ms = settings.draft_root_ms if path == () else settings.draft_ms[width - 1]
            if gain - settings.price_per_ms * ms > best_gain:
                best, best_gain = below[:width], gain - settings.price_per_ms * ms
        return best

    def worth_verifying():
        times, here = settings.verify_ms, len(revealed)
        chances = [chance for chance, _ in slots()][: settings.num_nodes - here]
        gains = [
            sum(chances[:m]) - settings.price_per_ms * (times[here + m - 1] - times[here - 1])
            for m in range(len(chances) + 1)
        ]
        best = 0
        for m, gain in enumerate(gains):
            best = m if gain > gains[best] and gain > 0 else best
        return best

    while True:
        while (ahead := slots()) and ahead[0][0] >= settings.node_price:
            if len(revealed) == settings.num_nodes:
                break
            revealed.append(ahead[0][1])
        wanted = best_pass() if len(revealed) < settings.num_nodes else []
        if not wanted:
            break
        expanded += wanted
        passes.append(wanted)
    while wanted := worth_verifying():
        for _ in range(wanted):
            revealed.append(slots()[0][1])
    return revealed, passes


VARIANTS = {
    "as is": {},
    "dear": {"price_per_ms": 0.15},
    "cheap": {"price_per_ms": 0.01, "node_price": 0.005},
    "flat": {"verify_ms": [8.0] * 14},
    "steps": {"verify_ms": [8.0] * 4 + [9.0] * 4 + [14.0] * 6},
    "dear nodes": {"node_price": 0.3},
    "narrow passes": {"draft_ms": [1.0]},
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("seed", range(3))
def test_trees_are_the_twins(name, seed, known):
    settings, drawn = made(**VARIANTS[name]), of_text(seed, 4)
    policy = Price(settings, deterministic=known)
    tree = grown(policy, drawn, features=features)
    revealed, passes = obvious(settings, drawn, known=known)
    assert tree.passes == passes
    assert tree.paths == revealed


@pytest.mark.parametrize("max_depth", [0, 1, 2])
def test_nothing_grows_deeper_than_there_is_room(max_depth):
    tree = grown(Price(SETTINGS, deterministic=False), of_text(0, 4), max_depth=max_depth,
                 features=features)  # fmt: skip
    assert max(map(len, tree.paths)) <= max_depth
    assert tree.passes or max_depth == 0


def exactly(**change) -> PriceDrafting:
    """Acceptance is what the draft says: c = D, and a the collision."""
    line = {"knots": [0.0, 1.0], "before": [[0.0, 1.0]], "after": [[0.0, 1.0]]}
    return made(**line, **change)


def shown(collision: float):
    return lambda path: np.array([np.nan, np.nan, collision, np.nan])


def test_leaves_are_added_while_they_pay():
    """Below the root D = .5 of what is left, so slots are worth .5, .25, .125 one after another."""
    change = {"num_nodes": 5, "node_price": 0.9, "price_per_ms": 1.0, "draft_root_ms": 0.01}
    flat = {"lookahead": 9.0, "ahead": [[1.0, 0.5, 0.2, 0.1], [0.0] * 4]}
    half = same_everywhere(0.5, 0.5, 0.5, 0.5)

    def nodes(verify_ms):
        # a: collision .5 before the first draw; what is left then is looked up by its own
        settings = exactly(verify_ms=verify_ms, **change, **flat)
        return len(grown(Price(settings, deterministic=True), half, features=shown(0.5)).paths)

    assert nodes([1.0, 1.2, 1.3, 2.0, 3.0]) == 3  # .5 > .2, .25 > .1, .125 < .7
    assert nodes([1.0, 1.2, 1.6, 1.6, 3.0]) == 2  # .25 + .125 < .4
    # the third would be worth it with the fourth, but there is one slot below a node at a time
    assert nodes([1.0, 1.2, 1.5, 1.5, 3.0]) == 2
    assert nodes([1.0, 2.0, 2.0, 2.0, 2.0]) == 1  # .5 + .25 + .125 + .0625 < 1


def test_a_step_of_the_curve_is_jumped_over_where_that_pays():
    """Three slots together pay for a size for which one or two alone do not."""
    settings = exactly(
        num_nodes=6, node_price=0.22, price_per_ms=1.0, draft_root_ms=0.01, draft_ms=[0.01] * 2,
        max_depth=2, lookahead=9.0, ahead=[[1.0, 1.0, 0.0, 0.0]] * 2,
        verify_ms=[1.0, 1.0, 1.0, 1.35, 1.35, 1.35],
    )  # fmt: skip
    values = {(): [0.5, 0.48, 0.1, 0.1]}

    def drawn(path: Path) -> np.ndarray:
        return np.array(values.get(path, [0.4, 0.1, 0.1, 0.1]))

    policy = Price(settings, deterministic=True)
    tree = grown(policy, drawn, features=shown(0.5))
    # .5 and .24 below the root, then slots of .5 * .4, .24 * .4 and .26 * .1: none is worth the
    # node price, nor are all three, .322, worth .35 ms
    assert tree.paths == [(), (0,), (1,)]
    cheaper = settings.model_copy(update={"verify_ms": [1.0, 1.0, 1.0, 1.31, 1.31, 1.31]})
    tree = grown(Price(cheaper, deterministic=True), drawn, features=shown(0.5))
    # the third is the likeliest when it comes to it: the next sibling, .5 * .6 * .1
    assert tree.paths == [(), (0,), (1,), (0, 0), (1, 0), (0, 1)]


def test_with_drafting_for_free_slots_are_dyspecs():
    """Constant t' and acceptance a of every candidate: filled while s a >= price t'."""
    price, slope = 0.05, 2.0
    settings = exactly(
        num_nodes=14, price_per_ms=price, node_price=price * slope, lookahead=9.0,
        verify_ms=[5 + slope * n for n in range(14)], draft_root_ms=1e-6, draft_ms=[1e-6] * 14,
        ahead=[[1.0] * 4] * 2,
    )  # fmt: skip
    drawn = same_everywhere(0.6, 0.7, 0.2, 0.1)
    tree = grown(Price(settings, deterministic=True), drawn, features=shown(0.5))

    def value(path: Path) -> float:
        chance = 1.0
        for rank in path:
            chance *= np.prod([1 - drawn(())[r] for r in range(rank)]) * drawn(())[rank]
        return float(chance)

    wanted, places = set(), [(r,) for r in range(4)]
    while places:
        path = places.pop()
        if value(path) >= price * slope:
            wanted.add(path)
            places += [(*path, rank) for rank in range(4)]
    assert set(tree.revealed) == wanted
    assert 4 < len(wanted) < 14


def test_a_chain_ends_where_specdecpp_ends_it():
    """One candidate a node, accepted with chance a: drafted on while f a > price (c1 + t')."""
    accepted, price, pass_ms, slope = 0.8, 0.1, 1.5, 1.0
    settings = exactly(
        max_children=1, price_per_ms=price, node_price=price * slope, lookahead=1.0,
        verify_ms=[5 + slope * n for n in range(14)], draft_root_ms=pass_ms, draft_ms=[pass_ms],
        ahead=[[accepted]] * 2,
    )  # fmt: skip
    tree = grown(Price(settings, deterministic=True), same_everywhere(accepted))
    length = 0
    while accepted**length * accepted > price * (pass_ms + slope):
        length += 1
    assert len(tree.revealed) == length == 6


def test_the_price_follows_what_is_measured():
    policy = Price(made(online=True), deterministic=False)
    planned = SETTINGS.price_per_ms
    for _ in range(4000):
        policy.verified([1, 2], 10.0)  # 3 tokens in 10 ms
    share_of_plan = STEPS_OF_THE_PLAN / planned / 40_000
    assert policy._arguments[-1] == pytest.approx(0.3, rel=share_of_plan)
    policy = Price(made(online=True), deterministic=False)
    policy.verified([], 1 / planned)
    assert policy._arguments[-1] == pytest.approx(planned)
    policy.verified([1], 5.0)
    measured_ms = (STEPS_OF_THE_PLAN + 1) / planned + 5
    assert policy._arguments[-1] == pytest.approx((STEPS_OF_THE_PLAN + 3) / measured_ms)
    fixed = Price(SETTINGS, deterministic=False)
    fixed.verified([1, 2, 3], 1.0)
    assert fixed._arguments[-1] == planned


def test_a_price_that_has_risen_is_asked_before_the_first_pass():
    """1.3 x (.6 - .03 + .3 - .03 + ...) = 1.31 tokens are hoped for below the root, .9 paid."""
    policy = Price(made(online=True, draft_root_ms=15.0), deterministic=False)
    policy.start(9)
    assert policy.grow() == [(0, 0)]
    policy.verified([1] * 31, 1.0)  # the price doubles
    policy.start(9)
    assert policy.grow() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"knots": [0.0, 0.6, 0.3, 1.0]}, "strictly increasing"),
        ({"before": [[0.1, 0.2]]}, "of 4 entries"),
        ({"verify_ms": [1.0] * 3}, "at least num_nodes = 14"),
        ({"ahead": [[0.5] * 4]}, "2 rows of max_children = 4"),
        ({"num_nodes": 0}, "greater than or equal to 1"),
        ({"node_price": 1.0}, "less than 1"),
        ({"after": [[1.2] * 4]}, "less than or equal to 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        made(**change)
