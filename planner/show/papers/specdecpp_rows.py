"""SpecDec++ (Huang et al., 2024): its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...documents.sampling import Sampling
from ...export.tree_words import chains
from ...policies import StoppingDrafting, TreeDrafting
from ...replay.replays import Played
from .ground import Ground, Missing
from .row import PROFILE, Bars, Lines, PaperRow, RowNumber, RowResult, Spot
from .spechub_rows import DRAWING

PAPER = "SpecDec++ (Huang et al., 2024)"
DRAFT_S, TARGET_S = 0.0234, 0.112
"""Seconds of a pass of Llama2-chat-7B and -70B while they speculate (section 5.2)."""
SAMPLING = Sampling(temperature=1.0, top_k=50)
ALONE_S = 0.108
"""Seconds of a token of the target alone."""
BEST = {
    "Alpaca": (18.88, 17.62, 7.2),
    "HumanEval": (20.61, 18.55, 11.1),
    "GSM8K": (20.95, 19.14, 9.4),
}
"""Table 1: tokens per second of SpecDec++ and of the best fixed length; gain in percent."""
GEMMA = {"Alpaca": (1.35, 1.33, 1.4), "HumanEval": (2.07, 1.84, 12.4), "GSM8K": (1.58, 1.47, 7.7)}
"""Table 4: speedups, and the gain in percent."""
LENGTHS = (2, 4, 6, 8, 10, 12, 14)
"""Fixed lengths that are tried."""
THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)
LONGEST = 20
FIXED = "fixed lengths"
SCORES = ("confidence", "entropy", "probability")
"""Scores that need no head."""


@dataclass(frozen=True)
class Rates:
    """A way of stopping, by what it wastes."""

    name: str
    discard: float
    """Draft tokens thrown away for each token emitted: N_discarded / N."""
    verification: float
    """Target passes for each token emitted: N_target / N."""

    @property
    def tokens_per_s(self) -> float:
        """Throughput at the printed times, by equation 5.1."""
        latency = DRAFT_S * (1 + self.discard) + (TARGET_S - DRAFT_S) * self.verification
        return 1 / latency


def fixed_lengths(ground: Ground, sampling: Sampling) -> list[Rates]:
    """Chains of each length, by the acceptance of one child."""
    found = []
    for length in LENGTHS:
        tokens = ground.tokens(chains(1, length), "rrsw", sampling)
        found.append(Rates(f"{length}", (length - (tokens - 1)) / tokens, 1 / tokens))
    return found


def played(ground: Ground, sampling: Sampling) -> tuple[list[Rates], dict[str, list[Rates]], float]:
    """(fixed lengths, stopping rules by score, most rounds cut short) on recorded trees."""
    replays, costs = ground.replays(sampling), ground.costs("rrsw", sampling)

    def rates(name: str, drafting: StoppingDrafting | TreeDrafting) -> Rates:
        one = Played(replays.play(drafting), costs)
        cut.append(one.cut_short)
        return Rates(name, one.discard_rate, one.verification_rate)

    cut: list[float] = []
    fixed = [
        rates(f"{length}", TreeDrafting(parents=list(range(-1, length)))) for length in LENGTHS
    ]
    scores = (*SCORES, *(["head"] if replays.head else []))
    rules = {
        score: [
            rates(f"{score}, h={h:g}", StoppingDrafting.model_validate({
                "score": score, "threshold": h, "max_depth": LONGEST,
                "head": replays.head if score == "head" else None,
            }))
            for h in THRESHOLDS
        ]
        for score in scores
    }  # fmt: skip
    return fixed, rules, max(cut)


def saved(fixed: Sequence[Rates], rule: Sequence[Rates]) -> dict[str, float]:
    """The rule's discard rate over that of each fixed length, where both verify as often, minus 1,
    by length; the rule's points are joined by lines, and lengths beyond these left out."""
    points = sorted((each.verification, each.discard) for each in rule)
    verification, discard = np.array(points).T
    return {
        each.name: float(np.interp(each.verification, verification, discard)) / each.discard - 1
        for each in fixed
        if verification[0] <= each.verification <= verification[-1] and each.discard > 0
    }


def _figure_3(ground: Ground) -> RowResult:
    """Discards of stopping rules beside those of fixed lengths that verify as often."""
    if ground.profile.replays:
        return _frontiers(ground)
    numbers = []
    for sampling in ground.samplings:
        for each in fixed_lengths(ground, sampling):
            where, shown = f"{sampling}, {each.name} tokens", each.name in ("2", "6", "14")
            numbers += [
                _drawn(FIXED, each, sampling, where, shown),
                RowNumber("verifications", each.verification, None, where, shown),
            ]
    note = "what stops chains needs recorded trees"
    return RowResult.of(ground.source(), numbers, None, note)


def _frontiers(ground: Ground) -> RowResult:
    numbers, holds, most = [], True, 0.0
    for sampling in ground.samplings:
        fixed, rules, cut = played(ground, sampling)
        most = max(most, cut)
        for name, line in {FIXED: fixed, **rules}.items():
            numbers += [
                _drawn(name, each, sampling, f"{sampling}, {name}, {each.name}") for each in line
            ]
        changes = {score: saved(fixed, rule) for score, rule in rules.items()}
        for score, change in changes.items():
            where = f"{sampling}, fewer discards"
            numbers += [
                RowNumber(f"{score}, {name} tokens", -100 * value, None, where, False, "%")
                for name, value in change.items()
            ]
            if change:
                mean = -100 * float(np.mean(list(change.values())))
                numbers.append(RowNumber(f"{score}", mean, None, where, unit="%"))
        holds &= any(change and max(change.values()) < 0 for change in changes.values())
    note = f"{100 * most:.0f} % of rounds met the end of their recorded tree, at most"
    return RowResult.of("profile, recorded trees", numbers, holds, note)


def _drawn(
    line: str, rates: Rates, sampling: Sampling, where: str, shown: bool = False
) -> RowNumber:
    """A way's discards, which are drawn over its verifications."""
    spot = Spot(line, rates.verification, str(sampling))
    return RowNumber("discarded", rates.discard, None, where, shown, spot=spot)


def _table_1(ground: Ground) -> RowResult:
    """Throughput at the printed times: of the best fixed length, and of the best rule."""
    numbers, holds = [], None
    for sampling in ground.samplings:
        where, rules = str(sampling), None
        fixed = fixed_lengths(ground, sampling)
        if ground.facts and ground.facts.replays:
            fixed, rules, _ = played(ground, sampling)
        best = max(fixed, key=lambda each: each.tokens_per_s)
        known = BEST["Alpaca"] if sampling == SAMPLING else (None,) * 3
        numbers.append(
            RowNumber(f"{best.name} tokens", best.tokens_per_s, known[1], where, unit="tokens/s")
        )
        if rules is not None:
            rule = max((r for each in rules.values() for r in each), key=lambda r: r.tokens_per_s)
            gain = rule.tokens_per_s / best.tokens_per_s - 1
            numbers += [
                RowNumber(rule.name, rule.tokens_per_s, known[0], where, unit="tokens/s"),
                RowNumber("gain", 100 * gain, known[2], where, unit="%"),
            ]
            holds = (holds is None or holds) and gain > 0
    source = f"{ground.source()}; times as printed" if holds is None else (
        "profile, recorded trees; times as printed")  # fmt: skip
    note = "what stops chains needs recorded trees" if holds is None else ""
    return RowResult.of(source, numbers, holds, note)


def _improvements(table: Mapping[str, tuple[float, float, float]]) -> RowResult:
    """The printed gains from the printed speeds, which have two digits behind the point: they must
    lie within the rounding of these."""
    numbers, holds = [], True
    half = 0.005
    for name, (own, other, gain) in table.items():
        value = 100 * (own / other - 1)
        numbers.append(RowNumber("gain", value, gain, name, unit="%", spot=Spot(name)))
        low, high = ((own - s * half) / (other + s * half) - 1 for s in (1, -1))
        holds &= 100 * low - 0.05 <= gain <= 100 * high + 0.05
    note = "printed gains are within the rounding of printed speeds"
    return RowResult.of("constants as printed", numbers, holds, note)


def _table_2(ground: Ground) -> RowResult:
    """Own steps of chains against their length: a line, if passes take constant times."""
    sampling = ground.samplings[0]
    costs = ground.costs("rrsw", sampling)
    lengths = np.arange(1, min(LONGEST, costs.max_nodes - 1) + 1)
    steps = np.array([costs.step_ms(chains(1, int(length))) for length in lengths])
    draft, target = np.polyfit(lengths, steps, 1)
    straight = np.corrcoef(lengths, steps)[0, 1] ** 2
    numbers = [
        RowNumber("t_draft", draft, unit="ms"), RowNumber("t_target", target, unit="ms"),
        RowNumber("t_draft / t_target", draft / target, DRAFT_S / TARGET_S),
        RowNumber("R2", straight, 0.988),
    ]  # fmt: skip
    source = f"profile, times of chains of 1 to {lengths[-1]}"
    return RowResult.of(source, numbers, straight >= 0.98, "printed R2: the least")


def _figure_4(ground: Ground) -> RowResult:
    """A chain's draft pass with a head over one without."""
    sampling = ground.samplings[0]
    costs = ground.costs("rrsw", sampling)
    heads = {what: each for what, each in costs.grown.items() if what not in ("trees", "chains")}
    if not heads:
        raise Missing("needs a profile with a trained head (planner profile --head)")
    plain = costs.growing("chains").draft_ms(1)
    more = [each.draft_ms(1) / plain - 1 for each in heads.values()]
    numbers = [
        *(RowNumber("a head adds to a draft pass", 100 * each, unit="%") for each in more),
        RowNumber("a draft pass", plain, None, "no head", False, "ms", Spot("no head")),
        *(
            RowNumber("a draft pass", each.draft_ms(1), None, name, False, "ms", Spot(name))
            for name, each in heads.items()
        ),
    ]
    return RowResult.of("profile, times", numbers, max(more) < 0.05, "negligible: less than 5 %")


def _oracle(ground: Ground) -> RowResult:
    """Who knows where drafts differ discards nothing and verifies once for each difference."""
    sampling = ground.greedy
    rate = 1 - float(ground.acceptance("rrsw", sampling)[0])
    oracle = Rates("oracle", 0.0, rate)
    best = max(fixed_lengths(ground, sampling), key=lambda each: each.tokens_per_s)
    numbers = [
        RowNumber("verifications", rate, 0.164),
        RowNumber("which makes", oracle.tokens_per_s, 27.06, unit="tokens/s"),
        RowNumber("speedup", oracle.tokens_per_s * ALONE_S, 2.92),
        RowNumber(
            f"that of the best fixed length ({best.name})", best.tokens_per_s * ALONE_S, 1.90
        ),
    ]
    holds = oracle.tokens_per_s > best.tokens_per_s
    return RowResult.of(f"{ground.source()}; times as printed", numbers, holds)


def _theorem_4_3(ground: Ground) -> RowResult:
    """(c2 + Delta) / (c1 + c2 + Delta) at Delta = 0, which is where it is least."""
    numbers = [RowNumber("h", 1 - DRAFT_S / TARGET_S, 0.7, "times as printed")]
    if ground.facts is not None:
        costs = ground.costs("rrsw", ground.samplings[0])
        own = 1 - costs.draft_ms(1) / costs.autoregressive_ms
        numbers.append(RowNumber("h", own, None, "profile's times"))
    note = "Delta = 0, below which none is; printed: what was found to be the best"
    return RowResult.of("times", numbers, None, note)


ROWS = (
    PaperRow(
        PAPER, "Figure 1", "7 to 11 % more tokens per second than the best fixed length",
        compute=lambda _: _improvements(BEST), exact=True, picture=Bars("faster by, %"),
    ),
    PaperRow(PAPER, "Figure 2", "how a head ends a chain", DRAWING),
    PaperRow(
        PAPER, "Figure 3", "policies that stop chains discard less than fixed lengths that verify "
        "as often", PROFILE, _figure_3, picture=Lines("verifications a token", "discards a token"),
    ),
    PaperRow(
        PAPER, "Figure 4", "the head takes no time", PROFILE, _figure_4,
        picture=Bars("ms a draft pass"),
    ),
    PaperRow(PAPER, "Figure 5", "as Figure 3, for Gemma", PROFILE, _figure_3),
    PaperRow(
        PAPER, "Table 1", "the best policy is faster than the best fixed length", PROFILE, _table_1,
    ),
    PaperRow(
        PAPER, "Table 2", "steps take t_target and as many times t_draft as tokens are drafted",
        PROFILE, _table_2,
    ),
    PaperRow(
        PAPER, "Table 3", "of heads of several depths and losses, several are as good",
        "needs heads trained at each (planner train-head), 20 in all",
    ),
    PaperRow(
        PAPER, "Table 4", "for Gemma the gains are 1.4 to 12.4 %",
        compute=lambda _: _improvements(GEMMA), exact=True,
    ),
    PaperRow(
        PAPER, "Theorem 4.1", "stopping where the two models first differ is the most that "
        "policies can reach", PROFILE, _oracle,
    ),
    PaperRow(
        PAPER, "Theorem 4.3", "a chain should end where P(some token is rejected) exceeds a "
        "threshold of the passes' times", compute=_theorem_4_3,
    ),
)  # fmt: skip
