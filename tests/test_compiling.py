"""Compiled code goes once a source that is in it has changed, and no other does."""

import subprocess
import sys
from pathlib import Path

import pytest

import planner
from planner import compiling
from planner.compiling import NAME, forget_if_changed

SOURCES = {
    "__init__.py": "from . import compiling\n",
    "compiling.py": Path(compiling.__file__).read_text(),
    "facts/__init__.py": "",
    "facts/numbers.py": "STEP = 1\n",
    "loops/__init__.py": "",
    "loops/inner/__init__.py": "",
    "loops/inner/steps.py": """
from ...compiling import compiled
from ...facts.numbers import STEP


@compiled
def step(number):
    return number + STEP
""",
    "play/__init__.py": "",
    "play/rounds.py": """
from ..compiling import compiled
from ..loops.inner.steps import step


@compiled(nogil=True)
def two_steps(number):
    return step(step(number))
""",
    "play/others.py": """
from . import (
    rounds,
)
from ..loops.inner import steps
""",
    "words/__init__.py": "",
    "words/names.py": "from ..play.rounds import two_steps\n",
}
"""A package like ours: `play` has in it what `loops` is and `facts` says; `words` only calls it."""
RUN = """
from package.play.rounds import two_steps

print(two_steps(1), sum(two_steps.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    for name, text in SOURCES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def kept_after(package: Path) -> set[str]:
    """The sources of which code is still kept once the changes so far were looked for."""
    forget_if_changed(package)
    return {path.name.split(".")[0] for path in package.rglob("*.nbi")}


def keep(package: Path) -> None:
    """What Numba would have kept of each source."""
    forget_if_changed(package)
    for source in SOURCES:
        path = package / source
        (path.parent / "__pycache__" / f"{path.stem}.f-1.py311.nbi").touch()
        (path.parent / "__pycache__" / f"{path.stem}.f-1.py311.1.nbc").touch()


ALL = {Path(source).stem for source in SOURCES}


def test_what_is_kept_stays_as_long_as_its_sources(package):
    keep(package)
    assert kept_after(package) == ALL


@pytest.mark.parametrize(
    ("changed", "gone"),
    [
        ("play/rounds.py", {"rounds", "names", "others"}),
        ("play/others.py", {"others"}),
        ("loops/inner/steps.py", {"steps", "rounds", "names", "others"}),
        ("facts/numbers.py", {"numbers", "steps", "rounds", "names", "others"}),
        ("compiling.py", {"compiling", "steps", "rounds", "names", "others"}),
        ("words/names.py", {"names"}),
    ],
)
def test_a_change_takes_what_has_it_in_it(package, changed, gone):
    keep(package)
    path = package / changed
    path.write_text(path.read_text() + "# another\n")
    assert kept_after(package) == ALL - gone


@pytest.mark.parametrize("how", ["gone", "added"])
def test_a_source_that_comes_or_goes_takes_what_imports_it(package, how):
    if how == "added":
        (package / "facts" / "numbers.py").rename(package / "numbers.py")
        keep(package)
        (package / "numbers.py").rename(package / "facts" / "numbers.py")
    else:
        keep(package)
        (package / "facts" / "numbers.py").unlink()
    assert kept_after(package) == ALL - {"steps", "rounds", "names", "others"} - (
        {"numbers"} if how == "added" else set()
    )


def test_code_of_which_nobody_knows_the_sources_goes(package):
    keep(package)
    (package / "loops" / "inner" / "__pycache__" / NAME).unlink()
    assert kept_after(package) == ALL - {"steps"}


def test_files_that_are_no_sources_are_passed_over(package):
    keep(package)
    (package / "play" / ".#rounds.py").symlink_to("somebody@a.machine:1")
    (package / "play" / "scratch.py").write_text("from ....elsewhere import nothing\n")
    (package / "words" / "__pycache__" / NAME).write_bytes(b"\xff\n")
    assert kept_after(package) == ALL - {"names"}


def test_folders_that_cannot_be_written_are_left_alone(package):
    for name in ("loops", "play"):
        (package / name / "__pycache__").touch()
    forget_if_changed(package)
    assert (package / "play" / "__pycache__").is_file()


def test_a_constant_two_sources_away_is_computed_with_once_it_has_changed(package):
    found = []
    for number in (1, 1, 10):
        (package / "facts" / "numbers.py").write_text(f"STEP = {number}\n")
        run = subprocess.run(
            [sys.executable, "-c", RUN],
            cwd=package.parent, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.append(run.stdout.strip())
    assert found == ["3 0", "3 1", "21 0"]


def test_all_that_we_compile_is_compiled_here():
    sources = Path(planner.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "njit" in path.read_text()] == ["compiling.py"]
