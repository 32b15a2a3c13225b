"""The Makefile's targets are those that `make help` names, and take what it says."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS_OF_TEST = {"lint", "types", "unit"}


def make(*arguments: str) -> str:
    result = subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return result.stdout


def test_help_names_every_target():
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"^make (\w+)", make("help"), re.MULTILINE))
    assert named == set(phony.split()) - PARTS_OF_TEST - {"help"}


def test_the_results_of_a_gpu_go_where_they_are_asked_for():
    assert "--output results/here/gpu.json" in make("-n", "gpu", "OUT=results/here")
    assert "--output" not in make("-n", "gpu", "OUT=")
