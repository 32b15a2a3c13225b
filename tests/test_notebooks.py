"""Every notebook executes, from JSON alone, and is committed with its outputs."""

from pathlib import Path

import nbclient
import nbformat
import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_executes_and_was_committed_executed(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell.outputs)
    assert not any(word in cell.source for cell in code for word in ("torch", "runtime"))
    client = nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(FOLDER)}}
    )
    client.execute()
