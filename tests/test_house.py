"""The rules of the house that a reader of any file may rely on, checked in every file.

No function of more than six parameters, no file of more than 400 lines, no class name with two
meanings, no docstring that begins in the middle of a sentence.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLANNER = sorted(path for path in (ROOT / "planner").iterdir() if (path / "__init__.py").exists())
ROOMS = [
    *(str(path.relative_to(ROOT)) for path in PLANNER),
    "profiler", "runtime", "engines", "kernels/tree_kernels", "benchmarks",
]  # fmt: skip
MOST_PARAMETERS = 6
MOST_LINES = 400
NO_SUBJECT = {
    "Of", "As", "From", "By", "For", "Where", "What", "Which", "In", "At", "With", "Those", "That",
    "Under", "On", "When", "To", "Behind",
}  # fmt: skip
"""Words that begin a docstring without saying what it is about."""

MANY_PARAMETERS = {
    # Each tensor of a call is an argument, as in torch's own attention; the three are twins.
    "tree_kernels.dispatch.tree_attention",
    "tree_kernels.reference.tree_attention",
    "tree_kernels.tree_attention.tree_attention",
    # The public interface: what may be asked of a profile or of a run, each by its name.
    "planner.optimizer.choice.solve",
    "runtime.decode.decode_prompts",
    "runtime.session.Session.__init__",
    # As transformers calls it.
    "runtime.attention._attend",
}
"""Functions that may take more, and why."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def files(*rooms: str) -> list[Path]:
    return [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]


def name_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts[1:] if parts[0] == "kernels" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def definitions(path: Path) -> Iterator[tuple[str, Definition]]:
    """(full name, class or function) for every one of a file, inner ones too."""

    def below(node: ast.AST, name: str) -> Iterator[tuple[str, Definition]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Definition):
                yield f"{name}.{child.name}", child
                yield from below(child, f"{name}.{child.name}")
            else:
                yield from below(child, name)

    yield from below(parsed(path), name_of(path))


def decorators(node: Definition) -> str:
    return " ".join(ast.unparse(each) for each in node.decorator_list)


def crowded(path: Path) -> list[str]:
    """Functions of a file with too many parameters; Triton kernels and commands may have them."""
    found = []
    for name, node in definitions(path):
        if isinstance(node, ast.ClassDef) or name in MANY_PARAMETERS:
            continue
        if "triton.jit" in decorators(node) or "click." in decorators(node):
            continue
        taken = node.args
        names = [each.arg for each in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
        count = len([each for each in names if each not in ("self", "cls")])
        count += (taken.vararg is not None) + (taken.kwarg is not None)
        if count > MOST_PARAMETERS:
            found.append(f"{name} takes {count} parameters")
    return found


def without_subject(path: Path) -> list[str]:
    """Docstrings of a file, attributes' too, that begin with a word of `NO_SUBJECT`."""
    found = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str) and text.split()[0] in NO_SUBJECT:
                found.append(f"{name_of(path)}:{node.lineno}: {text.splitlines()[0]}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_no_function_takes_more_than_six_parameters(room):
    assert [each for path in files(room) for each in crowded(path)] == []


@pytest.mark.parametrize("room", [*ROOMS, "tests"])
def test_no_file_is_longer_than_four_hundred_lines(room):
    long = {name_of(path): len(path.read_text().splitlines()) for path in files(room)}
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_their_subject(room):
    assert [each for path in files(room) for each in without_subject(path)] == []


def test_a_class_name_has_one_meaning():
    homes = defaultdict(list)
    for path in files(*ROOMS):
        for name, node in definitions(path):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_a_file_name_stands_once_in_a_package():
    """A stack trace can be read without its folders; a command's file is named as the command."""
    homes = defaultdict(list)
    for path in files(*ROOMS):
        if not path.name.startswith("__") and path.parent.name not in ("cli", "benchmarks", "gpu"):
            homes[path.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_exceptions_are_still_needed():
    known = {name for path in files(*ROOMS) for name, _ in definitions(path)}
    assert known >= MANY_PARAMETERS


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("def f(a, b, c, d, *, e, f, g): ...", crowded),
        ("class A:\n def f(self, a, b, c, d, e, f, g): ...", crowded),
        ("def f():\n 'Of a node.'", without_subject),
        ("class A:\n 'As in B.'", without_subject),
    ],
)
def test_a_fault_is_seen(line, check, tmp_path, monkeypatch):
    monkeypatch.setattr(__name__ + ".ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(line)
    assert len(check(path)) == 1
