"""The goals of the kernel, each judged on all rows of a run that it speaks of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from .results import Results, Row
from .speed import OURS

BACKENDS = ("sdpa cudnn", "sdpa efficient", "sdpa efficient, packed", "sdpa cudnn, packed",
            "sdpa math")  # fmt: skip


@dataclass(frozen=True)
class Goal:
    """A measure with a value for each of the cases that it speaks of."""

    key: str
    measure: str
    goal: float
    values: Callable[[Results], Iterable[float]]
    at_most: bool = False
    """Is less better?"""

    def line(self, results: Results) -> str:
        """Worst, median and best; met if the worst case meets it."""
        found = sorted(self.values(results), reverse=self.at_most)
        sign = "≤" if self.at_most else "≥"
        if not found:
            return f"{self.key:<4} {self.measure:<58} {sign} {self.goal:<7g} not measured"
        met = found[0] <= self.goal if self.at_most else found[0] >= self.goal
        return (
            f"{self.key:<4} {self.measure:<58} {sign} {self.goal:<7g} "
            f"{found[0]:>9.3g} {median(found):>9.3g} {found[-1]:>9.3g}  {len(found):>3}  "
            f"{'met' if met else 'missed'}"
        )


HEADER = f"{'':<4} {'measure':<58} {'goal':<9} {'worst':>9} {'median':>9} {'best':>9}   of"


def table(results: Results) -> str:
    """All goals, then the state of every part and what failed in it."""
    lines = [HEADER, *(goal.line(results) for goal in GOALS), ""]
    for part, entry in results.content["parts"].items():
        failed = [row for row in entry["rows"] if "failed" in row or row.get("right") is False]
        lines.append(
            f"{part:<12} {entry['state']}, {entry.get('seconds', 0)} s, {len(entry['rows'])} rows, "
            f"{len(failed)} failed"
        )
        if part != "comparison":  # there it is expected that not everybody serves every case
            lines += [f"  {row['what']}: {row.get('failed', 'wrong')}" for row in failed]
    lines += [f"  {line}" for line in tuned(results)]
    return "\n".join(lines)


def tuned(results: Results) -> list[str]:
    """The best configuration of each size that was tuned, and what it saves."""
    return [
        f"{row['what']}: {tuple(row['best'].values())} {row['best_us']:.1f} us, "
        f"listed {tuple(row['listed'].values())} {row['listed_us']:.1f} us"
        for row in results.rows("tuning")
        if "best" in row
    ]


def _ours(results: Results) -> list[Row]:
    return [row for row in results.rows("speed") if row["what"] == OURS and "median_us" in row]


def _fractions(low: float, high: float) -> Callable[[Results], list[float]]:
    """A reader of fractions of the floor, where memory sets one between `low` and `high`
    microseconds."""

    def values(results: Results) -> list[float]:
        return [
            row["floor_us"] / row["median_us"]
            for row in _ours(results)
            if row["bound"] == "memory" and low <= row["floor_us"] < high
        ]

    return values


def _above_floor(results: Results) -> list[float]:
    """Microseconds beyond floors of less than 10."""
    rows = [row for row in _ours(results) if row["floor_us"] < 10]
    return [row["median_us"] - row["floor_us"] for row in rows]


def _of_matmul(results: Results) -> list[float]:
    """Fractions of the matrix products' rate, where n G >= 512 and P >= 4096."""
    rates = [row["per_s"] for row in results.rows("limits") if row["what"] == "matmul"]
    return [
        row["tflop_per_s"] * 1e12 / rates[0]
        for row in _ours(results)
        if rates and row["nodes"] * row["group"] >= 512 and row["prefix"] >= 4096
    ]


def _widening(results: Results) -> list[float]:
    """t(64) / t(1) of llama-2-7b, P >= 8192."""
    times = {
        (row["prefix"], row["nodes"]): row["median_us"]
        for row in _ours(results)
        if row["shape"] == "llama-2-7b" and row["prefix"] >= 8192
    }
    return [
        times[prefix, 64] / times[prefix, 1]
        for prefix, nodes in times
        if nodes == 64 and (prefix, 1) in times
    ]


def _against(
    *names: str, group: int = 1, prefix: int = 0, also: str | None = None
) -> Callable[[Results], list[float]]:
    """Times as fast as the fastest of `names`, in each case where one of them ran.

    also  a row whose time is added to theirs
    """

    def values(results: Results) -> list[float]:
        by_case: dict[tuple[str, int, int], dict[str, float]] = {}
        for row in results.rows("comparison"):
            if "median_us" in row and row["group"] >= group and row["prefix"] >= prefix:
                case = (row["shape"], row["prefix"], row["nodes"])
                by_case.setdefault(case, {})[row["what"]] = row["median_us"]
        found = []
        for times in by_case.values():
            theirs = [times[name] for name in names if name in times]
            if theirs and OURS in times and (also is None or also in times):
                found.append((min(theirs) + (times[also] if also else 0)) / times[OURS])
        return found

    return values


def _reordering(results: Results) -> list[float]:
    """Time in the order of creation over that along heavy paths."""
    rows = [row for row in results.rows("speed") if "order" in row["what"] and "median_us" in row]
    times = {(row["what"], row["shape"]): row["median_us"] for row in rows}
    return [
        times["order creation", shape] / taken
        for (what, shape), taken in times.items()
        if what == "order heavy-path" and ("order creation", shape) in times
    ]


def _errors(dtype: str) -> Callable[[Results], list[float]]:
    def values(results: Results) -> list[float]:
        rows = results.rows("correctness")
        return [row["error"] for row in rows if row.get("dtype") == dtype and "error" in row]

    return values


GOALS = (
    Goal("K1", "fraction of the floor, memory-bound, floor >= 40 us", 0.70,
         _fractions(40, float("inf"))),
    Goal("K2", "fraction of the floor, memory-bound, floor 10 to 40 us", 0.50,
         _fractions(10, 40)),
    Goal("K3", "microseconds above the floor, floor < 10 us", 8, _above_floor, at_most=True),
    Goal("K4", "fraction of the matmul rate, n G >= 512, P >= 4k", 0.45, _of_matmul),
    Goal("K5", "t(64) / t(1), llama-2-7b, P >= 8k", 1.3, _widening, at_most=True),
    Goal("K6", "against stock sdpa with mask, G >= 4, P >= 4k", 5,
         _against("stock", group=4, prefix=4096)),
    Goal("K7", "against the best pinned sdpa backend", 1.5, _against(*BACKENDS)),
    Goal("K8", "against FlexAttention, its kernel alone", 1.1, _against("flexattention")),
    Goal("K8", "against FlexAttention with its mask's build", 3,
         _against("flexattention", also="flexattention's mask")),
    Goal("K9", "against xFormers' tree_attention", 1.2, _against("xformers")),
    Goal("–", "against FlashInfer with a custom mask", 1, _against("flashinfer")),
    Goal("–", "against flash attention of a chain as long", 1, _against("flash, a chain")),
    Goal("K11", "creation order over heavy-path order, n = 1024, P = 128", 1.5, _reordering),
    Goal("K12", "relative error, float32", 2e-6, _errors("float32"), at_most=True),
    Goal("K12", "relative error, float16", 1e-3, _errors("float16"), at_most=True),
    Goal("K12", "relative error, bfloat16", 1e-2, _errors("bfloat16"), at_most=True),
)  # fmt: skip
