"""Ways in: examples that work, mistyped commands, completion, and what this machine can do."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from planner.cli import COMMANDS, examination, main
from planner.cli.extras import DISTRIBUTION
from profiler import disturbance

from .test_light import DATA, ROOT

QUICK = ("show", "report", "export", "import", "compare", "schema")
"""Commands whose example takes a moment."""


def example(name):
    """The words of the line that a command's help ends with."""
    shown = CliRunner().invoke(main, [name, "--help"])
    *_, head, line = shown.output.rstrip().splitlines()
    assert head.strip() == "Example:"
    words = shlex.split(line)
    assert words[:2] == ["planner", name]
    return words[2:]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with the documents that examples name."""
    for name in ("profile", "plan", "report"):
        shutil.copy(DATA.parent / "inflated-to-25-M" / f"{name}.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_commands_help_ends_with_a_line_that_it_takes(name, folder):
    """Names, choices and numbers are checked, and what has to be writable."""
    command = main.get_command(click.Context(main), name)
    with command.make_context(name, example(name), parent=click.Context(main)) as context:
        assert context.params is not None


@pytest.mark.parametrize("name", QUICK)
def test_the_line_works(name, folder):
    result = CliRunner().invoke(main, [name, *example(name)])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("typed", "meant"), [("shwo", "show"), ("slove", "solve"), ("docter", "doctor")]
)
def test_a_mistyped_command_is_told_what_it_may_have_been(typed, meant):
    result = CliRunner().invoke(main, [typed])
    assert result.exit_code == 2
    assert f"No such command '{typed}'. Did you mean {meant}?" in result.stderr


def test_what_is_like_no_command_gets_no_advice():
    result = CliRunner().invoke(main, ["xyzzy"])
    assert result.exit_code == 2
    assert "Did you mean" not in result.stderr


def test_shells_complete_commands_and_options():
    shell = BashComplete(main, {}, "planner", "_PLANNER_COMPLETE")
    assert [each.value for each in shell.get_completions([], "re")] == ["report", "reproduce"]
    assert "--png" in [each.value for each in shell.get_completions(["show"], "--p")]


def test_the_container_file_installs_this_project():
    """Every package is copied, and what is installed and run is what setup.cfg has."""
    lines = (ROOT / "Containerfile").read_text().splitlines()
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    packages = setup["options"]["packages"].split()
    places = dict(map(str.split, setup["options"]["package_dir"].replace("=", " ").split("\n")[1:]))
    folders = {places.get(each, each).split("/")[0] for each in packages if "." not in each}
    copies = [line.split()[1:] for line in lines if line.startswith("COPY ")]
    copied = {words[0] for words in copies if len(words) == 2}
    assert copied == folders | {"constraints.txt"}
    (extra,) = re.findall(r"^ARG EXTRAS=\[(.*)\]$", "\n".join(lines), re.MULTILINE)
    assert extra in setup["options.extras_require"]
    (command,) = json.loads(lines[-1].removeprefix("ENTRYPOINT "))
    assert f"{command} = " in setup["options.entry_points"]["console_scripts"]
    assert len(lines) < 25


# ---------------------------------------------------------------------- doctor


def found(name):
    """The line on one thing of those that are quick to look at."""
    looks = (look for look in examination.LOOKS if look is not examination._accelerators)
    (line,) = (each.line for look in looks for each in look() if each.name == name)
    return line


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(examination, "WATCHED_S", 0.01)


def test_the_doctor_looks_at_everything():
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0, result.output
    names = [line.split()[0] for line in result.stdout.splitlines() if line[0] != " "]
    for name in ("planner", "libraries", "[run]", "cores", "threads", "kernels", "beside", "vllm"):
        assert name in names
    assert re.search(r"^next +planner profile ", result.stdout, re.MULTILINE)


def test_a_missing_package_leads_to_its_extra(monkeypatch):
    monkeypatch.setattr(examination, "EXTRAS", {"run": ("torch-of-nobody", "click")})
    assert found("[run]").endswith(f"no torch-of-nobody; pip install '{DISTRIBUTION}[run]'")
    assert found("next") == f"pip install '{DISTRIBUTION}[run]'"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("fpu avx2 fma sse", "avx2, fma"),
        ("fpu avx", "none that matrix kernels make use of; without avx2 passes on this CPU"),
    ],
)
def test_instructions_are_those_of_the_system(monkeypatch, flags, words):
    monkeypatch.setattr(examination, "_text", lambda path: f"model name\t: M\nflags\t\t: {flags}\n")
    monkeypatch.setattr(examination.platform, "machine", lambda: "x86_64")
    assert found("instructions").startswith(words)
    assert found("cores").endswith("x86_64, M")


@pytest.mark.parametrize(("others", "words"), [(0.0, "quiet"), (1.0, "while nothing else runs")])
def test_other_programs_are_what_is_not_ones_own(monkeypatch, others, words):
    """Busy seconds beyond this process's own, over the time that passed."""
    monkeypatch.setattr(disturbance, "sleep", lambda seconds: None)
    monkeypatch.setattr(disturbance, "perf_counter", iter([10.0, 12.0]).__next__)
    told = iter([(100.0, 30.0), (103.0 + 2 * others, 33.0)])
    monkeypatch.setattr(disturbance, "core_seconds", told.__next__)
    ((name, *_),) = line = list(examination._others())
    assert name == "beside"
    assert f"{others:.2f} cores now" in line[0].line
    assert line[0].line.endswith(words)


@pytest.mark.parametrize("place", [None, "/opt/llama-server"])
def test_engines_are_found_or_said_how(monkeypatch, place):
    monkeypatch.setattr(examination, "which", lambda name: place)
    line = found("llama-server")
    assert line == place or line.endswith("--engine llamacpp --engine-path DIR")


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs open files by name")
@pytest.mark.parametrize("words", [["show"], ["decode", "--prompt", "def ", "--max-new-tokens", 3]])
def test_a_plan_is_read_once_so_that_it_may_come_through_a_pipe(words):
    """As `planner show <(ssh server cat plan.json)` hands it over."""
    reader, writer = os.pipe()
    os.write(writer, (ROOT / "notebooks/data/as-it-is/plan.json").read_bytes())
    os.close(writer)
    result = CliRunner().invoke(main, [*map(str, words), f"/dev/fd/{reader}"])
    os.close(reader)
    assert result.exit_code == 0, result.output
