"""Compiled code goes once a source that is in it has changed, and no other does."""

import subprocess
import sys
from pathlib import Path

import pytest

import planner
from planner import compiling
from planner.compiling import NAME, forget_if_changed

SOURCES = {
    "__init__.py": "",
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
    """The parts whose code is still kept once the changes so far were looked for."""
    forget_if_changed(package)
    return {path.relative_to(package).parts[0] for path in package.rglob("*.nbi")}


def keep(package: Path) -> None:
    """What Numba would have kept of each part, deeper ones too."""
    forget_if_changed(package)
    for name in ("facts", "loops", "loops/inner", "play", "words"):
        folder = package / name / "__pycache__"
        folder.mkdir(exist_ok=True)
        (folder / "each.f-1.py311.nbi").touch()
        (folder / "each.f-1.py311.1.nbc").touch()


def test_what_is_kept_stays_as_long_as_its_sources(package):
    keep(package)
    assert kept_after(package) == {"facts", "loops", "play", "words"}


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ("play/rounds.py", {"facts", "loops", "words"}),
        ("loops/inner/steps.py", {"facts", "words"}),
        ("facts/numbers.py", {"facts", "words"}),
        ("compiling.py", {"facts", "words"}),
        ("words/names.py", {"facts", "loops", "play", "words"}),
    ],
)
@pytest.mark.parametrize("how", ["changed", "renamed"])
def test_a_change_takes_what_has_it_in_it(package, changed, how, left):
    keep(package)
    path = package / changed
    if how == "changed":
        path.write_text(path.read_text() + "# another\n")
    else:
        path.rename(path.with_name("other.py"))
    assert kept_after(package) == left
    assert not (package / "words" / "__pycache__" / NAME).exists()


def test_code_of_which_nobody_knows_the_sources_goes(package):
    keep(package)
    (package / "loops" / "__pycache__" / NAME).unlink()
    assert kept_after(package) == {"facts", "play", "words"}


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
