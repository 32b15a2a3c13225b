"""How far do speedups differ from one sitting to the next, beside what else promises allow for?

    python -m benchmarks.sittings FILE=ALLOWED ...

FILEs are those of `benchmarks.coverage`, ALLOWED is the standard error from one sitting to the next
that their promises held.  Logarithms of measured over promised speedups are taken as normal, around
0, with two errors: what a promise allows for but that one, the luck of as many other prompts among
it, and one more.  Printed is the one more under which the speedups beside nothing are likeliest, by
file and in all: it is what promises should allow for instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import chi2, norm

from planner.documents.errors import in_one_line

from .outputs import markdown

INTERVAL = norm.ppf(0.975) - norm.ppf(0.025)
"""Standard errors between the ends of a 95 % interval."""
MOST = 1.0
"""No error between sittings is larger."""


@dataclass(frozen=True)
class Deviations:
    """Speedups beside nothing against their promises: float64 [pairs] each."""

    off: np.ndarray
    """Logarithms of measured over promised ones."""
    others: np.ndarray
    """Variances of these, but for what is between sittings."""

    @classmethod
    def of(cls, rows: Sequence[dict], allowed: float) -> Deviations:
        """A file's, whose promises allowed for so much between sittings."""
        quiet = [row for row in rows if row["load"] == "nothing"]
        promised = np.log([row["promised_speedup"] for row in quiet])
        errors = (promised[:, 2] - promised[:, 1]) / INTERVAL
        found = np.log([row["speedup"][0] for row in quiet])
        return cls(found - promised[:, 0], np.maximum(errors**2 - allowed**2, 0))

    def with_those(self, more: Deviations) -> Deviations:
        """Both together."""
        return Deviations(np.append(self.off, more.off), np.append(self.others, more.others))

    def likeliest(self) -> tuple[float, float, float]:
        """The likeliest error between sittings, and the ends of its 95 % interval, which are those
        under which the speedups are less likely by what a chi-square test allows for."""

        def cost(error: float) -> float:
            variances = self.others + error**2
            return float((np.log(variances) + self.off**2 / variances).sum())

        best = minimize_scalar(cost, bounds=(0, MOST), method="bounded").x
        most = cost(best) + chi2.ppf(0.95, 1)

        def end(beyond: float) -> float:
            if cost(beyond) <= most:
                return beyond
            return brentq(lambda error: cost(error) - most, best, beyond)

        return best, end(0.0), end(MOST)


def table(named: dict[str, Deviations]) -> str:
    """A line a file, and one for all of them."""
    everything = Deviations(np.empty(0), np.empty(0))
    for each in named.values():
        everything = everything.with_those(each)
    lines = []
    for name, each in {**named, "all": everything}.items():
        best, low, high = each.likeliest()
        lines.append([name, str(len(each.off)), f"{best:.3f}", f"{low:.3f} to {high:.3f}"])
    return markdown(["file", "pairs beside nothing", "likeliest error", "95 %"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE=ALLOWED")
    named = {}
    for argument in parser.parse_args().files:
        path, given, allowed = argument.rpartition("=")
        if not given:
            sys.exit(f"{argument}: expected FILE=ALLOWED, as in coverage.json=0.03")
        try:
            rows = json.loads(Path(path).read_text())
            named[Path(path).stem] = Deviations.of(rows, float(allowed))
        except (OSError, ValueError, LookupError, TypeError) as error:
            sys.exit(
                f"{argument}: cannot be read ({in_one_line(error)}); expected FILE=ALLOWED, a file "
                "of benchmarks.coverage and a number"
            )
    print(table(named))


if __name__ == "__main__":
    main()
