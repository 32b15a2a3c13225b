"""The pages are right: commands exist, links lead somewhere, examples compute what they show."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import click
import pytest

from planner.cli import main
from planner.documents.version import VERSION

from .reading import EVERYTHING, PAGES, ROOT, fenced, name_of, program, prose

README = ROOT / "README.md"
EXAMPLES = [page for page in PAGES if ">>>" in page.read_text()]


def commands(page: Path) -> list[list[str]]:
    """Every line of a fenced block that calls `planner`, in words; continued lines are one."""
    blocks = [content.replace("\\\n", " ") for _, content in fenced(page.read_text())]
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("planner ")]


COMMANDS = [
    pytest.param(words, id=f"{name_of(page)}: {' '.join(words[1:3])}")
    for page in EVERYTHING
    for words in commands(page)
]


def wrong_words(words: list[str]) -> list[str]:
    """The words of a command that `planner ... --help` does not know."""
    context = click.Context(main)
    command = main.get_command(context, words[1])
    if command is None:
        return [words[1]]
    known = {name for each in command.params for name in each.opts} | {"--help"}
    return [word for word in words[2:] if word.startswith("-") and word not in known]


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_are_those_of_help(words):
    assert wrong_words(words) == []


@pytest.mark.parametrize("line", ["planner grow", "planner solve profile.json --quickly"])
def test_an_unknown_word_is_seen(line):
    assert len(wrong_words(shlex.split(line))) == 1


def test_every_option_in_running_text_is_known():
    context = click.Context(main)
    options = {
        name
        for command in main.list_commands(context)
        for each in main.get_command(context, command).params
        for name in (*each.opts, *each.secondary_opts)
    }
    others = {  # of benchmarks, and of engines
        "--page", "--weights", "--speculative-config", "--speculative-adaptive-config",
        "--speculative-dspark-sps-table-path", "--help", "--strict", "--readme", "--repeats",
        "--gpu-memory-utilization", "--enable-deterministic-inference",
        "--spec-synth-len", "--spec-draft-sampling", "--enable-metrics",
    }  # fmt: skip
    used = {
        option
        for page in EVERYTHING
        for code in re.findall(r"`([^`\n]+)`", prose(page.read_text()))
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)
    }
    assert used - options - others == set()


@pytest.mark.parametrize("command", main.list_commands(click.Context(main)))
def test_the_readme_names_every_command(command):
    assert f"`planner {command}`" in README.read_text()


@pytest.mark.parametrize("page", EXAMPLES, ids=name_of)
def test_worked_examples_compute_what_they_show(page):
    """Every `>>>` of the page, in order, as a reader would type them."""
    found = doctest.testfile(str(page), module_relative=False, verbose=False)
    assert found.attempted > 2
    assert found.failed == 0


def anchors(page: Path) -> set[str]:
    """The names that links may put behind `#`."""
    headings = re.findall(r"^#+ (.*)$", prose(page.read_text()), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"\s+", "-", heading) for heading in plain}


def broken_links(page: Path) -> list[str]:
    """Relative links and pictures of a page that lead nowhere."""
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text())):
        if link.startswith("https:"):
            continue
        place, _, anchor = link.partition("#")
        path = (page.parent / place).resolve() if place else page
        if path.name in ("contributing.md", "changelog.md"):  # the files of the root, as pages
            path = ROOT / f"{path.stem.upper()}.md"
        generated = anchor.startswith("planner.")  # by the API page
        if not path.exists() or (anchor and not generated and anchor not in anchors(path)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", EVERYTHING, ids=name_of)
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


def test_a_broken_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](gone.md) [b](#one) [c](#two) [d](page.md#one)\n")
    assert broken_links(page) == ["gone.md", "#two"]


def test_every_page_stands_in_the_navigation():
    listed = re.findall(r"([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text())
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES]
    made = [f"notebooks/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")]
    assert sorted(listed) == sorted(pages + made)


def test_the_readme_is_a_front_door():
    """Small, and its first screen has a picture, how to install it and the commands."""
    text = README.read_text()
    assert len(text.encode()) <= 6000
    first = text.splitlines()[:40]
    for wanted in ("![", "pip install", "$ planner solve", "$ planner decode"):
        assert any(wanted in line for line in first), wanted
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("page", program(".ci/readme.py").PRINTED, ids=name_of)
def test_what_a_page_shows_was_printed(page):
    """The output below its commands is what they print of the committed run."""
    assert program(".ci/readme.py").with_outputs(page) == page.read_text()


def test_the_readme_runs_the_demo(monkeypatch):
    """Its commands are those of `make demo`, so that the demo's profile may stand for its own."""
    from benchmarks import demo

    ran: list[list[str]] = []
    monkeypatch.setattr(demo, "run", lambda *words: ran.append(list(words)))
    monkeypatch.setattr(demo, "load", lambda path: None)
    monkeypatch.setattr(demo, "overview", lambda *documents: None)
    monkeypatch.setattr(demo, "save_png", lambda figure, path: None)
    demo.plan_and_decode(*demo.SHAPES["inflated to 25 M"], Path("."))
    shown = [words[1:] for words in commands(README)]
    assert [words for words in shown if words[0] != "show"] == [
        words for words in ran if words[0] != "show"
    ]


def test_the_version_is_told_alike_everywhere():
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    first = re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == VERSION
