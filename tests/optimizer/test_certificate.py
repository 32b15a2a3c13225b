"""No tree exceeds the bound, the best come close to it, and a wrong bound would be noticed."""

from functools import cache

import numpy as np
import pytest

from planner import Tree
from planner.estimates.law import AcceptanceLaw
from planner.estimates.step_costs import step_costs
from planner.optimizer import certificate
from planner.optimizer.certificate import upper_bound
from planner.optimizer.problem import Limits

from . import factory
from .twins import all_trees

LIMITS = [(7, 9), (7, 2), (7, 1), (6, 3), (5, 9), (4, 2), (2, 9), (2, 1), (1, 3), (7, 0)]


def rates(rng, num_ranks):
    """Summing to less than 1, in any order, a third of them zero."""
    weights = rng.dirichlet(np.ones(num_ranks)) * rng.uniform(0.5, 1.0)
    return np.where(rng.random(num_ranks) < 1 / 3, 0.0, weights)


def falling(rng):
    return AcceptanceLaw.by_rank(np.sort(rates(rng, 4))[::-1])


def rising(rng):
    return AcceptanceLaw.by_rank(np.sort(rates(rng, 3)))


def unordered(rng):
    return AcceptanceLaw.by_rank(rates(rng, int(rng.integers(1, 7))))


def by_depth(rng):
    return AcceptanceLaw(np.stack([rates(rng, 3) for _ in range(3)])[:, None])


def by_siblings(rng):
    """Every number of siblings has rates of its own, at every depth."""
    table = np.zeros((2, 4, 4))
    for depth in range(2):
        for count in range(1, 5):
            table[depth, count - 1, :count] = rates(rng, count)
    return AcceptanceLaw(table)


def shared(rng):
    """The more siblings, the less for each, as with verifiers that treat all alike."""
    table = np.zeros((1, 4, 4))
    for count in range(1, 5):
        table[0, count - 1, :count] = rng.uniform(0.5, 0.9) / count**0.7
    return AcceptanceLaw(table / max(1, table.sum(axis=2).max()))


LAWS = {law.__name__: law for law in (falling, rising, unordered, by_depth, by_siblings, shared)}


def priced(costs):
    return step_costs(factory.profile([factory.positional([[0.5]])], [costs]))


def jagged(rng):
    """Costs that go up and down with the count; some sizes and widths were not measured."""
    times = rng.uniform(0.1, 4.0, size=(3, 8)) * rng.choice([0.1, 1.0], size=(3, 1))
    made = factory.costs(
        verify=lambda n: 3 + times[0, n - 1],
        overhead=lambda n: 0.1 + times[1, n - 1],
        root=rng.uniform(0.1, 1.0),
        step=rng.uniform(3.0, 12.0),
        counts=range(1 + int(rng.integers(2)), 7 + int(rng.integers(2))),
    )
    first = 1 + int(rng.random() < 0.2)
    widths = range(first, first + int(rng.integers(1, 4)))
    draft = factory.curve(widths, lambda width: times[2, width - 1])
    return priced(made.model_copy(update={"draft": draft}))


@cache
def trees_up_to(num_nodes):
    return [tree for size in range(1, num_nodes + 1) for tree in all_trees(size)]


def best_rate(law, costs, limits):
    """Tokens per millisecond of the best of all trees."""
    return max(
        law.expected_tokens(tree) / costs.step_ms(tree)
        for tree in trees_up_to(limits.max_nodes)
        if tree.depth <= limits.max_depth
        and tree.num_children.max() <= law.num_ranks
        and costs.covers(tree)
    )


@cache
def cases(name):
    """(law, costs, limits, rate of the best tree) of random settings."""
    rng = np.random.default_rng(list(LAWS).index(name))
    made = []
    for limits in LIMITS * 5:
        law, costs = LAWS[name](rng), jagged(rng)
        made.append((law, costs, Limits(*limits), best_rate(law, costs, Limits(*limits))))
    return made


def exceeded(name):
    """The number of cases in which some tree exceeds the bound."""
    return sum(
        best > upper_bound(law, costs, limits) * (1 + 1e-12)
        for law, costs, limits, best in cases(name)
    )


@pytest.mark.parametrize("name", LAWS)
def test_no_tree_exceeds_the_bound(name):
    assert exceeded(name) == 0


def changed(**fields):
    """A fault in what the bound is made of: these fields, each a function of the right one."""

    def wrong(right):
        def made(*arguments):
            parts = right(*arguments)
            values = {name: change(getattr(parts, name)) for name, change in fields.items()}
            return parts._replace(**values)

        return made

    return wrong


FAULTS = {
    "levels below the first are forgotten": ("_relaxation", changed(reach=lambda f: f[:2])),
    "a path of first children is all there is": (
        "_dominating_rates",
        lambda right: lambda law: right(law) * (np.arange(law.num_ranks) == 0),
    ),
    "all depths are like the first": (
        "_dominating_rates",
        lambda right: lambda law: np.repeat(right(law)[:1], len(law.rates), axis=0),
    ),
    "all nodes have all siblings": (
        "_dominating_rates",
        lambda right: lambda law: right(AcceptanceLaw(law.rates[:, -1:])),
    ),
    "the root always has all its children": ("_by_root", lambda right: lambda law: right(law)[-1:]),
    "the last child is not counted": (
        "_steps_of_children",
        lambda right: lambda law: np.pad(right(law)[:, :-1], ((0, 0), (0, 1))),
    ),
    "one node fewer than there may be": ("_capacity", lambda right: lambda k, d: right(k, d) - 1),
    "more nodes never take less time": (
        "_relaxation",
        changed(fixed_ms=lambda ms: np.maximum.accumulate(np.where(np.isinf(ms), 0, ms))),
    ),
    "more width never takes less time": (
        "_relaxation",
        changed(draft_ms=lambda ms: np.maximum.accumulate(np.where(np.isinf(ms), 0, ms))),
    ),
    "a little is added to each step": ("_relaxation", changed(fixed_ms=lambda ms: ms + 0.01)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_bound_is_exceeded(fault, monkeypatch):
    place, wrong = FAULTS[fault]
    monkeypatch.setattr(certificate, place, wrong(getattr(certificate, place)))
    assert sum(exceeded(name) for name in LAWS) > 0


@pytest.mark.parametrize("name", LAWS)
def test_the_bound_is_near_the_best_of_all_trees(name):
    """Costs are far rougher than real ones; where acceptance falls with the rank it is attained."""
    gaps = np.array([upper_bound(*case[:3]) / case[3] - 1 for case in cases(name)])
    allowed = {"falling": 1e-9, "by_siblings": 0.05, "shared": 0.02}.get(name, 0.01)
    assert gaps.mean() < allowed


def roofline(rng):
    """A geometric acceptance; passes whose time is flat, then linear."""
    acceptance = rng.uniform(0.4, 0.9) * rng.uniform(0.3, 0.7) ** np.arange(32)
    step, draft = rng.uniform(5, 40), rng.uniform(0.02, 0.2)
    knee, draft_knee = rng.choice([8, 32, 128]), rng.choice([4, 16, 64])
    costs = factory.costs(
        verify=lambda n: step * max(1, n / knee),
        draft=lambda width: step * draft * max(1, width / draft_knee),
        overhead=lambda n: 0.1 + 0.001 * n,
        step=step,
        counts=[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64],
    )
    return acceptance / max(1, acceptance.sum()), priced(costs)


def narrow_tree(acceptance, width, depth, num_nodes):
    """Best first, each level expanding only its `width` best nodes: nodes by falling reach."""
    nodes = [(-1.0, 0, ())]
    expanded = nodes
    for level in range(1, depth + 1):
        below = sorted(
            (reach * rate, level, (*path, rank))
            for reach, _, path in expanded
            for rank, rate in enumerate(acceptance)
        )
        nodes, expanded = nodes + below, below[:width]
    return [path for _, _, path in sorted(nodes)[:num_nodes]]


def tree_of(paths):
    """The tree of these paths of ranks, each after its parent's."""
    paths = sorted(paths, key=lambda path: (len(path), path))
    return Tree([-1, *(paths.index(path[:-1]) for path in paths[1:])])


def best_found(acceptance, costs, num_nodes):
    """Rate of the best of those trees: over several widths, depths and sizes."""
    law = AcceptanceLaw.by_rank(acceptance)
    trees = {Tree([-1])}
    for width in (1, 2, 4, 8, 16, 64):
        for depth in range(1, 7):
            paths = narrow_tree(acceptance, width, depth, num_nodes)
            trees |= {tree_of(paths[:size]) for size in range(8, num_nodes + 1, 8)}
    return max(law.expected_tokens(tree) / costs.step_ms(tree) for tree in trees)


def test_the_bound_is_near_the_best_tree_found_on_real_shapes():
    gaps = []
    for seed in range(8):
        acceptance, costs = roofline(np.random.default_rng(seed))
        found = best_found(acceptance, costs, 64)
        bound = upper_bound(AcceptanceLaw.by_rank(acceptance), costs, Limits(64, 24))
        gaps.append(bound / found - 1)
    assert min(gaps) > -1e-12
    assert np.mean(gaps) < 0.001
    assert max(gaps) < 0.01


@pytest.mark.parametrize(
    ("acceptance", "max_nodes", "step", "tokens", "ms"),
    [
        ([0.6, 0.3], 1, 10.0, 1.0, 10.0),  # alone
        ([0.6, 0.3], 2, 10.0, 1.6, 10 + 1 + 0.1),  # a chain of one
        ([0.6, 0.3], 3, 10.0, 1.9, 10 + 1 + 0.1),  # two children; a chain: 1.96 / 12.1
        ([0.6, 0.1], 3, 10.0, 1.96, 10 + 1 + 1 + 0.1),  # a chain; two children: 1.7 / 11.1
        ([0.8, 0.1], 3, 10.0, 2.44, 10 + 1 + 1 + 0.1),  # a chain of two
        ([0.6, 0.3], 3, 5.0, 1.0, 5.0),  # nothing beats the target alone
        ([0.1, 0.6], 2, 11.2, 1.1, 11.1),  # the second child is not to be had alone
    ],
)
def test_small_cases_by_hand(acceptance, max_nodes, step, tokens, ms):
    """Verification takes 10 ms, a draft pass 1 ms, the walk 0.1 ms, at any size and width."""
    costs = priced(factory.costs(step=step))
    bound = upper_bound(AcceptanceLaw.by_rank(acceptance), costs, Limits(max_nodes, 5))
    assert bound >= tokens / ms
    assert bound == pytest.approx(tokens / ms, rel=1e-12)


@pytest.mark.parametrize("name", LAWS)
def test_more_room_never_lowers_the_bound(name):
    rng = np.random.default_rng(9)
    law, costs = LAWS[name](rng), priced(factory.costs(verify=lambda n: 10 + n % 7))
    for nodes, depth in [(2, 1), (7, 2), (31, 5)]:
        bound = upper_bound(law, costs, Limits(nodes, depth))
        assert upper_bound(law, costs, Limits(nodes + 1, depth)) >= bound * (1 - 1e-11)
        assert upper_bound(law, costs, Limits(nodes, depth + 1)) >= bound * (1 - 1e-11)
