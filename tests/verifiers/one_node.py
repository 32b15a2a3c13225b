"""Every verifier at one node, in plain Python from the words: how it samples, how it verifies.

A twin is a generator of outcomes (chance, rank of the accepted child or -1, token), given p, q and
the children.  `one_node` adds them up over every draw: what comes out, and who was accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from .distributions import law_of_children

Outcomes = Iterator[tuple[float, int, int]]


@dataclass(frozen=True)
class Twin:
    law: Callable
    """(q, k) -> {children in order: probability}."""
    verify: Callable[..., Outcomes]


def one_node(twin: Twin, p, q, num_children: int) -> tuple[np.ndarray, np.ndarray]:
    """(law of the token that comes out [V], P(the child of rank r is accepted) [k])."""
    p, q = [float(x) for x in p], [float(x) for x in q]
    output, rates = np.zeros(len(p)), np.zeros(num_children)
    for drafts, weight in twin.law(q, num_children).items():
        for chance, rank, token in twin.verify(p, q, drafts):
            output[token] += weight * chance
            if rank >= 0:
                assert drafts[rank] == token
                rates[rank] += weight * chance
    return output, rates


def independent(q, num_children):
    return law_of_children(q, num_children, True)


def without_replacement(q, num_children):
    return law_of_children(q, num_children, False)


def most_probable(q, num_children):
    return {tuple(sorted(range(len(q)), key=lambda x: (-q[x], x))[:num_children]): 1.0}


def hub_pairs(q, num_children):
    """(x, hub) with chance q(x); (hub, x) with q(hub) shared out by q, evenly if that is 0."""
    if num_children == 1:
        return law_of_children(q, 1, True)
    hub = q.index(max(q))
    rest = norm(0.0 if x == hub else q[x] for x in range(len(q)))
    if sum(rest) == 0:
        rest = norm(float(x != hub) for x in range(len(q)))
    pairs = {(x, hub): q[x] for x in range(len(q)) if x != hub}
    pairs |= {(hub, x): q[hub] * rest[x] for x in range(len(q)) if x != hub}
    return {pair: weight for pair, weight in pairs.items() if weight > 0}


def norm(values):
    values = list(values)
    total = sum(values)
    return [value / total for value in values] if total > 0 else values


def above(values, others):
    return [max(a - b, 0.0) for a, b in zip(values, others, strict=True)]


def without(draft, tried):
    rest = norm(0.0 if y in tried else draft[y] for y in range(len(draft)))
    return rest if sum(rest) > 0 else norm(float(y not in tried) for y in range(len(draft)))


def matching(p, q, drafts) -> Outcomes:
    for y, chance in enumerate(p):
        yield chance, (drafts.index(y) if y in drafts else -1), y


def rejection(p, q, drafts, *, shrinking=False, coin=lambda ratio: min(1.0, ratio)) -> Outcomes:
    target, draft, alive = p, q, 1.0
    for rank, x in enumerate(drafts):
        accept = coin(target[x] / draft[x])
        left = above(target, draft)
        if sum(left) == 0:  # R = D, up to rounding: nothing is ever rejected
            accept = 1.0
        yield alive * accept, rank, x
        alive *= 1 - accept
        if alive == 0:
            return
        target = norm(left)
        if shrinking:
            draft = without(draft, drafts[: rank + 1])
    for y in range(len(p)):
        yield alive * target[y], -1, y


def rejection_without_replacement(p, q, drafts) -> Outcomes:
    return rejection(p, q, drafts, shrinking=True)


def rejection_by_normal_coin(p, q, drafts) -> Outcomes:
    """DySpec's Algorithm 3 as printed: accepted if c < R/D with c ~ N(0, 1)."""

    def coin(ratio):
        return (1 + math.erf(ratio / math.sqrt(2))) / 2

    return rejection(p, q, drafts, shrinking=True, coin=coin)


def k_sequential(p, q, drafts) -> Outcomes:
    k, factor = len(drafts), factor_by_bisection(tuple(p), tuple(q), len(drafts))
    alive = 1.0
    for rank, x in enumerate(drafts):
        accept = min(1.0, p[x] / (factor * q[x]))
        yield alive * accept, rank, x
        alive *= 1 - accept
    each = sum(min(b, a / factor) for a, b in zip(p, q, strict=True))
    scale = (1 - (1 - each) ** k) / each if each > 0 else 1.0
    used = [scale * min(b, a / factor) for a, b in zip(p, q, strict=True)]
    residual = norm(above(p, used))
    for y in range(len(p)):
        yield alive * residual[y], -1, y


@cache
def factor_by_bisection(p, q, k) -> float:
    """Smallest g >= 1 with 1 - (1 - b(g))^k <= g b(g), in exact fractions."""
    p, q = ([Fraction(x) / sum(map(Fraction, law)) for x in law] for law in (p, q))

    def enough(g):
        b = sum(min(y, x / g) for x, y in zip(p, q, strict=True))
        return 1 - (1 - b) ** k <= g * b

    low, high = Fraction(1), Fraction(k)
    if enough(low):
        return 1.0
    for _ in range(56):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(high)


def hub(p, q, drafts, *, as_printed=False) -> Outcomes:
    """SpecHub's Algorithm 3; as printed, p(hub) is updated only on the branch that was taken."""
    if len(drafts) == 1:
        yield from rejection(p, q, drafts)
        return
    a, tokens = q.index(max(q)), range(len(p))
    law = hub_pairs(q, 2)
    to_hub = [law.get((x, a), 0.0) for x in tokens]
    from_hub = [law.get((a, x), 0.0) for x in tokens]
    first, second = drafts
    alive = 1.0
    if second == a:
        accept = min(1.0, p[first] / to_hub[first])
        yield accept, 0, first
        alive -= accept
    after = [p[a] if x == a else max(p[x] - to_hub[x], 0.0) for x in tokens]
    spare_to_hub = sum(above(to_hub, p))
    if first == a:
        accept = min(1.0, after[second] / from_hub[second])
        yield accept, 1, second
        alive -= accept
    residual = [p[a] if x == a else max(after[x] - from_hub[x], 0.0) for x in tokens]
    spare_from_hub = sum(above(from_hub, after))

    left = p[a]
    if first == a:
        accept = min(1.0, left / spare_from_hub) if spare_from_hub > 0 else 1.0
        yield alive * accept, 0, a
        alive *= 1 - accept
    if first == a or not as_printed:
        left = max(left - spare_from_hub, 0.0)
    if second == a:
        accept = min(1.0, left / spare_to_hub) if spare_to_hub > 0 else 1.0
        yield alive * accept, 1, a
        alive *= 1 - accept
    if second == a or not as_printed:
        residual[a] = max(left - spare_to_hub, 0.0)
    if sum(residual) == 0:  # only rounding is left to sample
        residual = p
    residual = norm(residual)
    for y in tokens:
        yield alive * residual[y], -1, y


def hub_as_printed(p, q, drafts) -> Outcomes:
    return hub(p, q, drafts, as_printed=True)


def pair_lookahead(p, q, drafts) -> Outcomes:
    """Two children at a time, decided as in planner.verifiers.lookahead_rates."""
    target, draft, alive = p, q, 1.0
    for rank in range(0, len(drafts) - 1, 2):
        a, y = drafts[rank : rank + 2]
        give, take, outer, inner = handover(target, draft, drafts[:rank])
        z = sum(outer[x] * give[x] for x in range(len(p)))
        k = sum(inner[x] * take[x] for x in range(len(p)))
        if target[a] >= draft[a]:
            yield alive, rank, a
            return
        yield alive * give[a] * take[y], rank + 1, y
        alive *= 1 - give[a] * take[y]
        weight = draft[a] - outer[a] * give[a] * k
        accept = target[a] / weight if weight > 0 else 1.0
        yield alive * accept, rank, a
        alive *= 1 - accept
        lack = above(target, draft)
        left = above(lack, [inner[x] * take[x] * z for x in range(len(p))])
        if sum(left) == 0 or alive <= 0:
            yield alive, rank, a
            return
        target, draft = norm(left), without(draft, drafts[: rank + 2])
    if len(drafts) % 2:
        x = drafts[-1]
        left = above(target, draft)
        accept = min(1.0, target[x] / draft[x]) if sum(left) > 0 else 1.0
        yield alive * accept, len(drafts) - 1, x
        alive *= 1 - accept
        target = norm(left)
    for token in range(len(p)):
        yield alive * target[token], -1, token


def handover(target, draft, tried):
    """(rho, kappa, A, S): eight sweeps of water-filling, starting at K = 1."""
    tokens = range(len(target))
    lack, excess = above(target, draft), above(draft, target)
    inner = draft
    outer = [0.0] * len(target)
    for a in tokens:
        others = sum(draft[x] for x in tokens if x != a)
        if excess[a] > 0:
            outer[a] = draft[a] / others if others > 0 else 1.0
        if others == 0:
            inner = without(draft, [*tried, a])
    give, take, k = [0.0] * len(target), [0.0] * len(target), 1.0
    for _ in range(8):
        for a in tokens:
            if excess[a] > 0:
                give[a] = min(1.0, excess[a] / (outer[a] * k)) if k > 0 else 1.0
        z = sum(outer[a] * give[a] for a in tokens)
        for y in tokens:
            if lack[y] > 0:
                take[y] = min(1.0, lack[y] / (inner[y] * z)) if inner[y] * z > 0 else 1.0
        k = sum(inner[y] * take[y] for y in tokens)
    return give, take, outer, inner


TWINS = {
    "chain": Twin(independent, rejection),
    "naive": Twin(independent, matching),
    "topk": Twin(most_probable, matching),
    "rrs": Twin(independent, rejection),
    "kseq": Twin(independent, k_sequential),
    "rrsw": Twin(without_replacement, rejection_without_replacement),
    "spechub": Twin(hub_pairs, hub),
    "lookahead": Twin(without_replacement, pair_lookahead),
    "traversal": Twin(without_replacement, rejection_without_replacement),
}

PLANTED = {
    "SpecHub's Algorithm 3 as printed": Twin(hub_pairs, hub_as_printed),
    "DySpec's N(0, 1)": Twin(without_replacement, rejection_by_normal_coin),
}
