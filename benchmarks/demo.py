"""The main job from end to end on the embedded pair, as it is and inflated: what `make demo` runs.

Every line that starts with `$` is a command that can be typed as it stands.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path

from planner import Report, load
from planner.cli import main as planner
from planner.show.figures import overview, reports_figure, save_png

SHAPES = {
    "as it is": ("embedded/target", "auto"),
    "inflated to 25 M": ("embedded/target@25M", "fixed"),
}
"""Title -> target, and which solvers propose: all, or those of one tree for all steps."""


def demo(folder: Path) -> None:
    """Profile, solve and decode for every shape, then compare prediction with measurement."""
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    reports = {}
    for title, (target, solver) in SHAPES.items():
        print(f"\n# the embedded pair, {title}", file=sys.stderr)
        reports[title] = plan_and_decode(target, solver, folder / title.replace(" ", "-"))
    save_png(reports_figure(reports), folder / "predicted-and-measured.png")
    print()
    for title, report in reports.items():
        print(line(title, report))
    print(
        "\nAn inflated model computes the small one's function at a larger shape: costs are the "
        "large shape's, acceptance is the small pair's."
    )
    print(f"{time.perf_counter() - start:.0f} s; figures and JSON in {folder}/")


def plan_and_decode(target: str, solver: str, folder: Path) -> Report:
    """The three commands of the main job, and the figures."""
    folder.mkdir(exist_ok=True)
    profile, plan, report = (folder / f"{name}.json" for name in ("profile", "plan", "report"))
    length = "64"
    run(
        "profile", "--target", target, "--temperature", "0.6", "--num-tokens", length,
        "--context", "128", "--repeats", "8", "-o", str(profile),
    )  # fmt: skip
    run("solve", str(profile), "--solver", solver, "-o", str(plan))
    run(
        "decode", str(plan), "--prompts", "embedded/evaluation", "--num-prompts", "16",
        "--max-new-tokens", length, "--baseline", "-o", str(report),
    )  # fmt: skip
    run("show", str(profile), "--png", str(folder / "times.png"))
    run("show", str(plan), "--png", str(folder / "tree.png"))
    documents = (load(profile), load(plan), load(report))
    save_png(overview(*documents), folder / "overview.png")
    return documents[-1]


def run(*arguments: str) -> None:
    """One `planner` command in this process; ends the program if it fails."""
    print(f"$ planner {shlex.join(arguments)}", file=sys.stderr)
    code = planner.main(list(arguments), standalone_mode=False)
    if code:
        sys.exit(code)


def line(title: str, report: Report) -> str:
    """Chosen plan, predicted and measured, on one line."""
    predicted = report.plan.predicted
    assert predicted is not None
    assert report.baseline is not None
    return (
        f"{title:<17} {report.plan.drafting.words()}, {report.plan.verifier}, "
        f"{report.plan.sampling} | tokens per step: predicted "
        f"{predicted.tokens_per_step.value:.2f}, measured {report.measured.tokens_per_step:.2f} | "
        f"speedup: predicted {predicted.speedup.value:.2f}, "
        f"measured {report.baseline.speedup.value:.2f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    demo(parser.parse_args().output)
