"""Sequoia's tables on hardware: sizes chosen by time, and contests with SpecInfer's chains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...documents.sampling import Sampling
from ...documents.tree import Tree
from ...export.tree_words import chains, tree_of_words
from ...optimizer.problem import Limits, Problem
from ...optimizer.solvers.sequoia import SequoiaSolver
from ...policies import TreeDrafting
from ...trees.frontier import search
from . import sequoia_printed as printed
from .ground import Ground, matched
from .row import RowNumber, RowResult, Spot
from .sequoia_printed import PrintedContest

_GROWN = (4, 8, 16, 32, 64, 128, 256, 512)
"""Sizes of trees."""


def pass_times(ground: Ground) -> RowResult:
    """The target's pass over n nodes over that of a token alone."""
    costs = ground.costs("rrsw", ground.samplings[0])
    last = costs.verify.last
    sizes = [2**k for k in range(1, last.bit_length()) if 2**k <= last]
    times = [costs.verify_ms(n) / costs.autoregressive_ms for n in sizes]
    numbers = [
        RowNumber(f"t({n})", t, shown=n in (2, 8, 32, sizes[-1]), spot=Spot("t(n)", n))
        for n, t in zip(sizes, times, strict=True)
    ]
    return RowResult.of("profile, times", numbers, times[-1] > 1.1 * times[0])


def aware_choice(ground: Ground) -> RowResult:
    """The tree that is chosen by its step time, beside those of most tokens by size."""
    numbers, holds = [], True
    for sampling in ground.samplings:
        where = str(sampling)
        costs, law = ground.costs("rrsw", sampling), ground.law("rrsw", sampling)
        limits = Limits(max_nodes=costs.max_nodes, max_depth=24)
        proposed = SequoiaSolver().propose(Problem(law, costs, limits)).values()
        trees = [each.tree for each in proposed if isinstance(each, TreeDrafting)]
        speeds = [_speed(ground, tree, sampling) for tree in trees]
        best = int(np.argmax(speeds))
        sizes = [n for n in _GROWN if n <= costs.max_nodes]
        free = [_speed(ground, ground.best(n, "rrsw", sampling), sampling) for n in sizes]
        numbers.append(
            RowNumber(
                f"chosen tree ({trees[best].num_nodes} nodes)",
                speeds[best],
                None,
                where,
                spot=Spot("chosen tree", trees[best].num_nodes, where),
            )
        )
        numbers += [
            RowNumber(f"most tokens ({n})", speed, None, where, spot=Spot("most tokens", n, where))
            for n, speed in zip(sizes, free, strict=True)
        ]
        holds &= speeds[best] > max(free)
    return RowResult.of(f"{ground.source()} and times", numbers, holds, "speedups")


def _speed(ground: Ground, tree: Tree, sampling: Sampling) -> float:
    """Speedup by the profile's own times."""
    costs = ground.costs("rrsw", sampling)
    return ground.tokens(tree, "rrsw", sampling) * costs.autoregressive_ms / costs.step_ms(tree)


def sizes_by_hardware(ground: Ground) -> RowResult:
    """Fixed sizes, and what they lose at the step times that follow from the table."""
    numbers, holds = [], True
    for sampling in ground.samplings:
        law = ground.law("rrsw", sampling)
        tokens = search(law, 256, 9).expected_tokens[:, 9]
        for machine, rows in printed.HARDWARE.items():
            where = f"{sampling}, {machine}"
            steps = {n: each / speed for n, (each, speed) in rows.items()}
            times = np.interp(np.arange(257), [*steps], [*steps.values()])
            rates = tokens / times
            chosen = 64 + int(np.argmax(rates[64:]))  # nothing is known of smaller ones
            numbers.append(RowNumber("nodes chosen", chosen, 64, where))
            for size in (128, 256):
                beside = rows[64][1] / rows[size][1]
                gain = rates[chosen] / rates[size]
                numbers.append(RowNumber(f"over {size} nodes", gain, beside, where))
                holds &= gain > 1
    return RowResult.of(f"{ground.source()}; times as printed", numbers, holds)


def contest(table: Mapping[float, PrintedContest], ground: Ground) -> RowResult:
    """Sequoia's tree beside SpecInfer's chains, at sizes, depths and step times as printed."""
    numbers, holds = [], True
    for sampling in ground.samplings:
        found = [each for at, each in table.items() if matched(sampling, at)]
        row, where = (found or [table[0.6]])[0], str(sampling)
        wanted = row.best
        tree = ground.best(wanted.num_nodes, "rrsw", sampling, depth=wanted.depth)
        own = ground.tokens(tree, "rrsw", sampling)
        numbers.append(RowNumber("Sequoia's tokens", own, wanted.tokens if found else None, where))
        for shape, other in row.others.items():
            tokens = ground.tokens(tree_of_words(shape), "rrs", sampling)
            gain = own / wanted.step / (tokens / other.step)
            known = (other.tokens, wanted.speedup / other.speedup) if found else (None, None)
            numbers += [
                RowNumber(f"{shape}'s tokens", tokens, known[0], where),
                RowNumber(f"speed over {shape}'s", gain, known[1], where),
            ]
            holds &= own > tokens and gain > 1
    return RowResult.of(f"{ground.source()}; times as printed", numbers, holds)


def offloaded(ground: Ground) -> RowResult:
    """The best depth of 768 nodes at the times fitted to the table's steps."""
    verify, draft = printed.offloaded_times()
    numbers, holds = [], True
    for sampling in ground.samplings:
        found = [each for at, each in printed.OFFLOADED.items() if matched(sampling, at)]
        where = str(sampling)
        known: list[tuple[float | None, float | None]] = [
            (each.tokens, each.speedup) for one in found for each in one.ways
        ]
        levels = np.arange(25)
        ms = verify + draft * levels
        table = search(ground.law("rrsw", sampling), 768, 24).expected_tokens[768]
        depth = int(np.argmax(table / ms))
        own = ground.tokens(ground.best(768, "rrsw", sampling, depth=depth), "rrsw", sampling)
        other = ground.tokens(chains(16, 48), "rrs", sampling)
        speeds = [
            printed.OFFLOADED_MS * own / ms[depth],
            printed.OFFLOADED_MS * other / (verify + 48 * draft),
        ]
        rows = known or [(None, None)] * 2
        for name, tokens, speed, row in zip(
            ("Sequoia", "16x48"), (own, other), speeds, rows, strict=True
        ):
            numbers += [
                RowNumber(f"{name}'s tokens", tokens, row[0], where),
                RowNumber("speedup", speed, row[1], where),
            ]
        beside = found[0].best.depth if found else None
        numbers.append(RowNumber("levels", depth, beside, where))
        holds &= speeds[0] > speeds[1]
    return RowResult.of(f"{ground.source()}; times as printed", numbers, holds)
