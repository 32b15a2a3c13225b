"""The few settings that decoding may have to change to: wherever a machine or a text is other than
it was profiled, one of them is nearly the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..estimates.step_costs import StepCosts
from ..plans.settings import PlanSetting
from .grading import Candidate

DRAFTS, NODES, CHANCES = (0.5, 1.0, 2.0, 4.0), (0.25, 1.0, 2.0, 4.0), (0.3, 0.6, 1.0, 1.15)
"""Factors on the time that drafting takes, on what a step takes beyond that and a step without
speculation, if anything, and on the chance of acceptance: all combinations are looked at."""
CLOSE, MOST = 0.03, 6
"""The share by which the best of a table may be slower than the best of all, wherever that is; and
the most settings of a table."""


def setting_table(
    candidates: Sequence[Candidate], costs: Mapping[str, StepCosts]
) -> list[PlanSetting]:
    """Settings for the plan that is the first of `candidates`: its own first, none last.

    candidates  graded, the best first, one of them without speculation
    costs       by verifier

    Those that ask another trained head than the plan does are left out.
    """
    best = candidates[0]
    able = [c for c in candidates if c.drafting.trained_head in (None, best.drafting.trained_head)]
    alone = next(place for place, each in enumerate(able) if not each.speculates)
    settings = [_setting(each) for each in able]
    rates = np.array(
        [
            _rates(setting, _drafting_ms(each, costs[each.verifier]), settings[alone].step_ms)
            for setting, each in zip(settings, able, strict=True)
        ]
    )
    kept = list(dict.fromkeys((0, alone)))
    while len(kept) < MOST:
        behind = 1 - rates[kept].max(axis=0) / rates.max(axis=0)
        worst = int(np.argmax(behind))
        if behind[worst] <= CLOSE:
            break
        kept.append(int(np.argmax(rates[:, worst])))
    return [settings[place] for place in (*(each for each in kept if each != alone), alone)]


def _setting(candidate: Candidate) -> PlanSetting:
    return PlanSetting(
        drafting=candidate.drafting,
        verifier=candidate.verifier,
        tokens_per_step=candidate.tokens_per_step.value,
        step_ms=candidate.step_ms.value,
        depth=candidate.depth,
        nodes=candidate.num_nodes,
    )


def _rates(setting: PlanSetting, drafting_ms: float, alone_ms: float) -> np.ndarray:
    """float64 [combinations]: tokens per millisecond, wherever the table has to hold."""
    rest = setting.step_ms - drafting_ms - alone_ms
    slow, dear = drafting_ms * np.array(DRAFTS), max(rest, 0.0) * np.array(NODES) + min(rest, 0.0)
    tokens = np.array([setting.tokens_at(chance) for chance in CHANCES])
    return (tokens / (alone_ms + slow[:, None, None] + dear[:, None])).ravel()


def _drafting_ms(candidate: Candidate, costs: StepCosts) -> float:
    """All draft passes of a step, on average."""
    if not candidate.speculates:
        return 0.0
    if candidate.played is None:
        return float(costs.draft_root.ms + costs.draft.at(candidate.tree.widths[1:])[0].sum())
    played = candidate.played
    passes = [each for each in played.spent if each.curve == played.costs.draft.what]
    return float(sum((each.often @ each.ms).sum() for each in passes) / played.tally.rounds.sum())
