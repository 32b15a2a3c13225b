"""Tables of the pages have a row for everything that there is, and for nothing else."""

from __future__ import annotations

import json
import re

import pytest

from planner.export import ENGINES
from planner.optimizer.solvers import SOLVERS
from planner.plans.files import DOCUMENTS, schema_json
from planner.policies import POLICIES
from planner.verifiers import VERIFIERS

from .reading import PAGES, ROOT, program


def rows(page: str, column: int) -> set[str]:
    """The words in code letters in one column of a page's tables."""
    table = re.findall(r"^\|---.*\n((?:\|.*\n)+)", (ROOT / page).read_text(), re.MULTILINE)
    cells = [line.split(" | ")[column] for each in table for line in each.splitlines()]
    return {name for cell in cells for name in re.findall(r"^(?:\| )?`([^`]+)`$", cell)}


def test_verifiers_have_a_row_each():
    assert rows("docs/verifiers.md", 0) == set(VERIFIERS)


def test_solvers_and_policies_have_a_row_each():
    assert rows("docs/policies.md", 0) == set(SOLVERS)
    assert rows("docs/policies.md", 1) == set(POLICIES)


def test_engines_have_a_row_each():
    assert rows("docs/engines.md", 0) == set(ENGINES)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_field_of_a_document_is_in_its_tables(name):
    """Fields of the document itself and of all its parts."""
    schema = json.loads(schema_json(name))
    shown = program("docs/hooks/fields.py").document_tables(name, set())
    for part in [schema, *schema.get("$defs", {}).values()]:
        for field in part.get("properties", {}):
            assert f"| `{field}` |" in shown
    for part in schema.get("$defs", {}):
        assert shown.count(f"### {part} {{") == 1


def test_every_document_stands_on_its_page():
    page = (ROOT / "docs/documents.md").read_text()
    assert re.findall(r"^<!-- fields: (\w+) -->$", page, re.MULTILINE) == [
        "plan",
        "profile",
        "report",
        "check",
        "costs",
    ]
    assert set(DOCUMENTS) == {"plan", "profile", "report", "check", "costs"}


def terms() -> list[str]:
    """The words that the glossary explains, in its order, each once."""
    text = (ROOT / "docs/glossary.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("**")]
    return [term for line in lines for term in re.findall(r"\*\*([^*]+)\*\*", line)]


def test_the_glossary_explains_each_word_once_and_in_order():
    assert len(terms()) == len(set(terms()))
    heads = re.findall(r"^\*\*([^*]+)\*\*", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    assert heads == sorted(heads, key=lambda term: re.sub(r"\W", "", term).lower())
    wanted = {
        "policy", "verifier", "solver", "profile", "plan", "report", "sweep", "replay", "slot",
        "reach", "law", "column", "walk", "piece", "pace", "knot", "price of time", "certificate",
        "bonus token", "step", "target", "draft",
    }  # fmt: skip
    assert wanted <= set(terms())


def test_no_page_says_rule():
    """A verifier and a policy are two things; one word for both hid which was meant."""
    for page in PAGES:
        assert not re.search(r"\brules?\b", page.read_text()), page


def test_the_picture_has_every_room_and_only_arrows_that_imports_may_follow():
    rooms = program("docs/hooks/rooms.py")
    from tests.test_arrows import INSIDE

    picture = rooms.picture(rooms.arrows())
    assert set(re.findall(r">([a-z]+)</text>", picture)) == set(INSIDE)
    arrows = {tuple(each.split("-")) for each in re.findall(r'data-arrow="([^"]+)"', picture)}
    assert all(below in INSIDE[room] for room, below in arrows)
    reached = {room: set() for room in INSIDE}
    for _ in INSIDE:  # every allowed import follows the drawn arrows downwards
        for room, below in arrows:
            reached[room] |= {below, *reached[below]}
    assert all(set(INSIDE[room]) - {room} <= reached[room] for room in INSIDE)


def test_every_module_has_its_line():
    lines = program("docs/hooks/rooms.py").module_lines()
    modules = [line for line in lines if line.startswith("- ")]
    assert len(modules) > 100
    assert all(re.fullmatch(r"- `\w+\.py`: \S.*\.", line) for line in modules)


def test_aligned_lists_of_docstrings_become_lists():
    pytest.importorskip("griffe", reason="only `make docs` installs what makes the API page")
    as_list = program("docs/hooks/docstrings.py").as_list
    assert as_list("p  float [V]  the\n             target's\nk  how many") == (
        "- `p`: float [V]  the target's\n- `k`: how many"
    )
    prose = "Raises PlannerError for none.  See\nthere."
    assert as_list(prose) == prose
