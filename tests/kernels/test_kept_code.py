"""Compiled code goes once a source beside it has changed, and not before."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tree_kernels.host.kept_code import NAME, forget_if_changed

CALLED = """
from tree_kernels.host.by_name import DONE, called_by_name


@called_by_name(1)
def {name}(address):
    return DONE
"""
CALLS = """
from numba import njit

import called


@njit(cache=True)
def call(number):
    called.{name}((number,))
"""
ABOVE = """
from numba import njit

from calls import call


@njit(cache=True)
def call_twice(number):
    call(number)
    call(number)
"""
RUN = """
import sys
from pathlib import Path

from tree_kernels.host.kept_code import forget_if_changed

forget_if_changed(Path("room"))
sys.path.insert(0, "room")

from above import call_twice

call_twice(1)
print(sum(call_twice.stats.cache_hits.values()))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.py").write_text("1")
    forget_if_changed(tmp_path)
    for name in ("one.f-1.py311.nbi", "one.f-1.py311.1.nbc", "one.cpython-311.pyc"):
        (tmp_path / "__pycache__" / name).touch()
    return tmp_path


def kept(folder: Path) -> list[str]:
    return sorted(file.name.split(".", 1)[1] for file in (folder / "__pycache__").iterdir())


def test_what_is_kept_stays_as_long_as_its_sources(folder):
    before = kept(folder)
    forget_if_changed(folder)
    assert kept(folder) == before


@pytest.mark.parametrize("change", ["changed", "added", "gone", "renamed"])
def test_any_change_of_a_source_takes_all_compiled_code(folder, change):
    if change == "added":
        (folder / "two.py").touch()
    elif change == "gone":
        (folder / "one.py").unlink()
    elif change == "renamed":
        (folder / "one.py").rename(folder / "two.py")
    else:
        (folder / "one.py").write_text("2")
    forget_if_changed(folder)
    assert kept(folder) == ["cpython-311.pyc", NAME.split(".", 1)[1]]


def test_code_of_which_nobody_knows_the_sources_goes(folder):
    (folder / "__pycache__" / NAME).unlink()
    forget_if_changed(folder)
    assert kept(folder) == ["cpython-311.pyc", NAME.split(".", 1)[1]]


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path):
    (tmp_path / "__pycache__").touch()
    forget_if_changed(tmp_path)
    assert (tmp_path / "__pycache__").is_file()


def test_a_function_that_is_called_by_name_may_get_another_name(tmp_path, monkeypatch, capsys):
    """Of three sources one stays as it is; what was compiled from it calls the old name.

    Compiled here, found here, compiled anew in another process, which knows no old name; that
    others find what is kept, `test_by_name.py` sees.
    """

    def here() -> str:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "path", [*sys.path])
            runpy.run_path("run.py")
        for module in ("above", "calls", "called"):
            del sys.modules[module]
        return capsys.readouterr().out

    def there() -> str:
        return subprocess.run(
            [sys.executable, "run.py"], capture_output=True, text=True, check=True
        ).stdout

    room, found = tmp_path / "room", []
    room.mkdir()
    (room / "above.py").write_text(ABOVE)
    (tmp_path / "run.py").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    for name, run in (("known", here), ("known", here), ("new", there)):
        (room / "called.py").write_text(CALLED.format(name=name))
        (room / "calls.py").write_text(CALLS.format(name=name))
        found.append(run().strip())
    assert found == ["0", "1", "0"]
