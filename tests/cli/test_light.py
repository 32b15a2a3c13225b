"""Planning needs no model library: what the commands import, and what they say where it is missing.

Each test runs the real command line in a process of its own, in which some packages cannot be
imported; several commands one after the other, since starting costs more than most of them.
"""

import configparser
import gc
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from planner.cli import OBJECTS, Commands, main
from planner.cli.extras import DISTRIBUTION, EXTRAS

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "notebooks" / "data" / "as-it-is"
PAYS = DATA.parent / "inflated-to-25-M"
"""A profile where engines, too, are the faster for drafting."""
HEAVY = ("torch", "transformers", "tokenizers", "cvxpy", "matplotlib")
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise {error}

sys.meta_path.insert(0, Blocked())
from planner.cli import main
codes = []
for arguments in {commands!r}:
    try:
        main(arguments, prog_name="planner")
    except SystemExit as ended:
        codes.append(ended.code or 0)
        if ended.code and not {anyway}:
            print("ended at", arguments)
            raise
print(codes)
"""
ABSENT = "ModuleNotFoundError(f'No module named {name!r}', name=name)"


def planner(
    *commands, without=(), error=ABSENT, cwd=None, anyway=False
) -> subprocess.CompletedProcess:
    """`planner COMMAND`, one after the other up to the first that fails, or all of them `anyway`,
    where importing the packages `without` raises `error`; last, their exit codes are printed."""
    words = [list(map(str, command)) for command in commands]
    code = BLOCKED.format(packages=set(without), error=error, commands=words, anyway=anyway)
    return _python(code, cwd)


def _python(code, cwd=None) -> subprocess.CompletedProcess:
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd or ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_imports_neither_models_nor_arrays_nor_documents():
    """`planner --help` imports click and the standard library, and so it answers at once."""
    result = _python(
        "import sys; from planner.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print(sorted({ ({'numpy', 'scipy', 'numba', 'pydantic', 'rich'} | set(HEAVY))!r} "
        "& set(sys.modules)))"
    )
    assert result.stdout.splitlines()[-1] == "[]", result.stderr
    assert "planner profile" in result.stdout


def test_public_names_are_imported_when_they_are_asked_for():
    result = _python(
        "import sys, planner\n"
        "assert 'pydantic' not in sys.modules\n"
        "from planner import Plan, PlannerError, Profile, Report, Tree, load, save\n"
        "assert planner.Tree is Tree and set(planner.__all__) <= set(dir(planner))\n"
        "assert load.__module__ == save.__module__ == 'planner.plans.files'\n"
        "try: planner.Forest\n"
        "except AttributeError as error: print(error)"
    )
    assert result.stdout == "module 'planner' has no attribute 'Forest'\n", result.stderr


def test_solve_show_and_export_need_no_extra(tmp_path):
    """The way from a recorded profile to a plan and to an engine's settings, all extras missing."""
    profile, costs = PAYS / "profile.json", tmp_path / "costs.json"
    plan, told = tmp_path / "plan.json", tmp_path / "told.json"
    solve = ["solve", profile, "--solver", "sequoia", "--verifier", "rrs", "-o", plan]
    result = planner(
        solve,
        ["show", profile],
        ["show", plan],
        ["show", DATA / "report.json"],
        ["show", "--all", "--json", profile],
        ["doctor"],
        ["export", plan, "--to", "vllm", "--profile", profile],
        ["export", "--help"],
        ["import", "--from", "vllm", '{"num_speculative_tokens": 3}', "-o", told],
        ["import", "--help"],
        ["compare", told, "--profile", profile, "--solver", "chain"],
        ["grade", profile, "2x2", "2^2"],
        ["sweep", profile, "--solver", "chain", "-o", tmp_path / "table.csv"],
        [
            "predict",
            "--gpu",
            "H100",
            "--target",
            "embedded/target@25M",
            "--draft",
            "embedded/draft",
            "-o",
            costs,
        ],
        [*solve, "--costs", costs],
        without=HEAVY,
    )
    assert result.returncode == 0, (result.stdout.splitlines()[-1:], result.stderr)
    assert plan.is_file()


DECODE = ["decode", DATA / "plan.json", "--prompt", "def "]


@pytest.mark.parametrize(
    ("commands", "package", "extra"),
    [
        ([DECODE, ["profile", "--num-prompts", "1"]], "torch", "run"),
        ([DECODE], "transformers", "run"),
        (
            [
                ["show", DATA / "plan.json", "--png", "plan.png"],
                ["report", DATA / "plan.json", "-o", "plan.html"],
            ],
            "matplotlib",
            "plot",
        ),
    ],
)
def test_where_a_package_is_missing_one_line_names_the_extra(commands, package, extra, tmp_path):
    result = planner(*commands, without={package}, cwd=tmp_path, anyway=True)
    assert result.stdout.splitlines()[-1] == str([1] * len(commands))
    assert result.stderr.splitlines() == len(commands) * [
        f"planner: {package} cannot be imported (No module named {package!r}), and this command "
        f"needs it: pip install '{DISTRIBUTION}[{extra}]'"
    ]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", ["ImportError('its library is of another system')", "OSError(8)"])
def test_a_broken_package_is_one_line_and_breaks_no_other_command(error, tmp_path):
    """One whose files are there and whose import fails, as after an update of a driver."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(f"raise {error}")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom planner.cli import main\n"
    plan = str(DATA / "plan.json")
    broken = _python(code + f"main(['decode', {plan!r}, '--prompt', 'a'], prog_name='planner')")
    assert broken.returncode == 1
    assert len(broken.stderr.splitlines()) == 1
    assert "torch cannot be imported" in broken.stderr
    whole = _python(code + f"main(['show', {plan!r}], prog_name='planner')")
    assert whole.returncode == 0, whole.stderr


@pytest.mark.parametrize(
    ("command", "variable", "value"),
    [
        (["solve", DATA / "profile.json"], "NUMBA_NUM_THREADS", "0"),
        (["show", DATA / "plan.json", "--png", "plan.png"], "MPLBACKEND", "nonsense"),
    ],
)
def test_a_package_that_refuses_the_environment_is_one_line(
    command, variable, value, tmp_path, monkeypatch
):
    monkeypatch.setenv(variable, value)
    result = planner(command, cwd=tmp_path, anyway=True)
    assert result.stdout.splitlines()[-1] == "[1]"
    assert len(result.stderr.splitlines()) == 1
    assert "cannot be imported (" in result.stderr
    assert "look for a wrong value of one of its environment variables" in result.stderr


def test_an_import_that_fails_for_another_reason_is_not_taken_for_a_missing_extra():
    result = planner(["solve", DATA / "profile.json"], without={"scipy"})
    assert result.returncode != 0
    assert "pip install" not in result.stderr


def test_garbage_is_looked_for_rarely_as_long_as_a_command_runs(monkeypatch):
    before, within = gc.get_threshold(), []
    look = click.Command("schema", callback=lambda: within.append(gc.get_threshold()[0]))
    monkeypatch.setattr(Commands, "get_command", lambda *_: look)
    assert CliRunner().invoke(main, ["schema"]).exit_code == 0
    assert within == [OBJECTS]
    assert gc.get_threshold() == before


def test_extras_are_those_of_the_distribution():
    """The message advises to install what setup.cfg offers, package by package."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["metadata"]["name"] == DISTRIBUTION
    offered = setup["options.extras_require"]
    for extra, packages in EXTRAS.items():
        assert {line.split(">=")[0] for line in offered[extra].split()} == set(packages)
        assert set(offered[extra].split()) <= set(offered["all"].split())
    required = {line.split(">=")[0] for line in setup["options"]["install_requires"].split()}
    assert not required & set(HEAVY)
