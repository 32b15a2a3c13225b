"""The notebooks: each asks a question and ends with what to try; pages show what its cells do.

They are executed where the documentation is built, in which a cell that fails ends the build.
"""

from base64 import b64encode
from pathlib import Path

import nbformat
import pytest
from mkdocs.exceptions import PluginError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.docs.reading import ROOT, program

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WANTED = {"first_plan", "curves", "verifiers", "trees_and_prices", "truth", "engines", "papers"}
HOOK = program("docs/hooks/notebooks.py")


def test_the_notebooks_are_those_that_are_promised():
    assert {path.stem for path in NOTEBOOKS} == WANTED


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_asks_shows_and_leaves_something_to_try(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    first, last = notebook.cells[0], notebook.cells[-1]
    assert first.source.startswith("# ")
    assert first.source.splitlines()[0].endswith("?")
    assert last.source.startswith("## What to try\n")
    assert 5 <= len(notebook.cells) <= 10
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert not any(word in cell.source for cell in code for word in ("torch", "runtime"))


def test_a_failing_cell_ends_the_build(tmp_path, monkeypatch):
    notebook = new_notebook(cells=[new_code_cell("wrong = 1 / 0")])
    nbformat.write(notebook, tmp_path / "broken.ipynb")
    monkeypatch.setattr(HOOK, "FOLDER", tmp_path)
    with pytest.raises(PluginError, match=r"(?s)broken\.ipynb: .*ZeroDivisionError"):
        HOOK.on_files([], None)


def test_a_page_has_the_cells_their_outputs_and_links_between_pages():
    picture = b"\x89PNG of a cell"
    drawn = new_output("display_data", {"image/png": b64encode(picture).decode()})
    said = [new_output("stream", name="stdout", text=text) for text in ("1\n", "2\n")]
    page, pictures = HOOK.as_page(
        new_notebook(
            cells=[
                new_markdown_cell("# Why?\n[on](curves.ipynb), [page](../docs/papers.md)"),
                new_code_cell("%matplotlib inline\nprint(1)", outputs=[said[0], drawn, said[1]]),
            ]
        ),
        "some",
    )
    assert page == (
        "# Why?\n[on](curves.md), [page](../papers.md)\n\n"
        "```python\nprint(1)\n```\n\n"
        "```text\n1\n2\n```\n\n"
        "![What this cell draws](some-1.png)\n\n"
        "This page is `notebooks/some.ipynb`, executed when it was built.\n"
    )
    assert pictures == {"some-1.png": picture}
