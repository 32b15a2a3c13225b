"""The recipes of CONTRIBUTING.md, followed to the letter on a copy of the project."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from .in_one_process import MARK
from .reading import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
COPIED = (
    "planner",
    "profiler",
    "runtime",
    "engines",
    "kernels",
    "tests",
    "docs",
    "benchmarks",
    ".ci",
)
FILES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml", "pyproject.toml")
PROGRAMS = ("in_one_process.py", "use_what_was_added.py")
GAP = "..."
"""Between two places of one file where lines are inserted."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a recipe."""

    language: str
    file: str | None
    text: str


def recipe(title: str) -> list[Block]:
    """The fenced blocks under a heading, in order."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = [each for each in section if each.startswith(f"{title}\n")]
    pattern = r'^ {4}```(\w+)(?: title="([^"]+)")?\n(.*?)^ {4}```$'
    return [
        Block(language, file or None, textwrap.dedent(content))
        for language, file, content in re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    ]


def follow(title: str, copy: Path) -> tuple[list[str], list[str]]:
    """Create and insert what the recipe says; returns the files created and those changed."""
    created, changed = [], []
    for block in recipe(title):
        if block.language == "python":
            assert block.file is not None
            assert not (copy / block.file).exists()
            (copy / block.file).write_text(block.text)
            created.append(block.file)
        elif block.language == "diff":
            assert block.file is not None
            path = copy / block.file
            path.write_text(inserted(path.read_text(), block.text))
            changed.append(block.file)
    return created, changed


def inserted(text: str, difference: str) -> str:
    """`text` with each `+` line below the line that stands above it in the difference."""
    for part in difference.split(f"{GAP}\n"):
        above, *new = part.splitlines()
        assert above.startswith(" ")
        assert all(line.startswith("+") for line in new)
        line = f"{above[1:]}\n"
        assert text.count(f"\n{line}") == 1, f"{line!r} stands there {text.count(line)} times"
        text = text.replace(f"\n{line}", f"\n{line}" + "".join(f"{each[1:]}\n" for each in new))
    return text


def ran_in(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in the copy, which finds no other project."""
    path = os.pathsep.join([str(copy), str(copy / "kernels")])
    return subprocess.run(
        words, cwd=copy, env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def commands(title: str) -> list[list[str]]:
    """The commands of a recipe, `python` being this one."""
    lines = [
        shlex.split(line.removeprefix("$ "))
        for block in recipe(title)
        if block.language == "console"
        for line in block.text.splitlines()
    ]
    return [[sys.executable if word == "python" else word for word in line] for line in lines]


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The project, as far as its code and pages go."""
    folder = tmp_path_factory.mktemp("project")
    skipped = shutil.ignore_patterns("*.safetensors")  # compiled code is taken along
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=skipped)
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    return folder


RECIPES = {
    "Add a verifier": (
        ["planner/verifiers/guess.py"],
        ["planner/verifiers/__init__.py", "tests/verifiers/one_node.py", "docs/verifiers.md"],
    ),
    "Add a policy": (
        ["planner/policies/hedge.py"],
        ["planner/policies/__init__.py", "tests/policies/settings.py", "docs/policies.md"],
    ),
    "Add a solver": (
        ["planner/optimizer/solvers/hedge_solver.py", "tests/optimizer/test_hedge_solver.py"],
        ["planner/optimizer/solvers/__init__.py", "docs/policies.md"],
    ),
    "Add an engine": (
        ["planner/export/outline.py", "tests/export/test_outline.py"],
        ["planner/export/__init__.py", "docs/engines.md"],
    ),
}
"""One class, one row, its test, its row in the documentation: (files created, files changed)."""


@pytest.fixture(scope="module")
def followed(copy) -> dict[str, tuple[list[str], list[str]]]:
    """The files that each recipe touched, all of them carried out one after the other."""
    return {title: follow(title, copy) for title in RECIPES}


def test_every_recipe_is_followed():
    assert re.findall(r"^## (Add .*)$", PAGE, re.MULTILINE) == list(RECIPES)


@pytest.mark.parametrize("title", RECIPES)
def test_a_method_is_one_class_and_one_row(title, followed):
    assert followed[title] == RECIPES[title]
    assert commands(title)


@pytest.fixture(scope="module")
def printed(copy, followed) -> list[tuple[str, str]]:
    """(what it printed, its exit code) of each recipe's command, and then of the program that uses
    what was added; a last one for what ended before."""
    every = [words for title in RECIPES for words in commands(title)]
    assert len(every) == len(RECIPES)
    assert all(words[:3] == [sys.executable, "-m", "pytest"] for words in every)
    lists = json.dumps([[*words[3:], "-p", "no:cacheprovider"] for words in every])
    programs = [str(ROOT / "tests" / "docs" / name) for name in PROGRAMS]
    made = ran_in(copy, sys.executable, programs[0], lists, programs[1])
    ended = re.findall(rf"(.*?)^{MARK}(\d+)\n", made.stdout, re.MULTILINE | re.DOTALL)
    return [*ended, (made.stdout[-3000:] + made.stderr[-3000:], str(made.returncode or "none"))]


@pytest.mark.parametrize("place", range(len(RECIPES)), ids=RECIPES)
def test_what_the_recipe_runs_passes(place, printed):
    text, code = printed[place]
    assert code == "0", text[-3000:]
    assert re.search(r"\[100%\]|\d+ passed", text)


def test_what_was_added_works(printed):
    """Profiled, planned, shown, decoded and exported, on a pair of tables."""
    text, code = printed[len(RECIPES)]
    assert code == "0", text
    assert text.splitlines()[-1] == "guess, hedge and outline work"


def test_what_was_added_obeys_the_linter(copy, followed):
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    assert ruff is not None
    files = [file for created, changed in followed.values() for file in (*created, *changed)]
    code = [file for file in files if file.endswith(".py")]
    for words in (["check"], ["format", "--check"]):
        made = ran_in(copy, ruff, *words, "--no-cache", *code)
        assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]


def test_a_line_that_is_not_there_is_seen():
    with pytest.raises(AssertionError, match="0 times"):
        inserted("a\nb\n", " c\n+d\n")
