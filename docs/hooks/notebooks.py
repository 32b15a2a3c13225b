"""The notebooks as pages, each executed when the documentation is built, with what it shows."""

from __future__ import annotations

import os
import re
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbclient
import nbformat
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from traitlets.config import Config

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "notebooks"
SECONDS = 120
"""A cell that takes longer fails."""
AT_ONCE = 2
"""Notebooks that are executed at a time, each by a process of its own."""


def on_files(files: Files, config: Any) -> Files:
    """The files of the documentation, with a page for each notebook and its pictures; called by
    mkdocs."""
    paths = sorted(FOLDER.glob("*.ipynb"))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        notebooks = list(threads.map(executed, paths))
    for path, notebook in zip(paths, notebooks, strict=True):
        page, pictures = as_page(notebook, path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def executed(path: Path) -> Any:
    """The notebook in the file `path` with the outputs of all of its cells, by this checkout.

    Raises PluginError, which ends the build, where a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    places = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    try:
        with TemporaryDirectory() as folder:  # sockets there collide with nobody's, as ports may
            sockets = {"transport": "ipc", "ip": f"{folder}/kernel"}
            client = nbclient.NotebookClient(
                notebook,
                timeout=SECONDS,
                resources={"metadata": {"path": str(FOLDER)}},
                config=Config({"KernelManager": sockets}),
            )
            return client.execute(env={**os.environ, "PYTHONPATH": places})
    except (nbclient.exceptions.CellExecutionError, nbclient.exceptions.CellTimeoutError) as error:
        raise PluginError(f"{path.name}: {error}") from None


def as_page(notebook: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """An executed notebook as Markdown, and its pictures by their files' names."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(linked(cell.source))
            continue
        shown = "\n".join(line for line in cell.source.splitlines() if not line.startswith("%"))
        parts.append(f"```python\n{shown}\n```")
        printed = "".join(each["text"] for each in cell.outputs if each.get("name") == "stdout")
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
        for output in cell.outputs:
            picture = output.get("data", {}).get("image/png")
            if picture is not None:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = b64decode(picture)
                parts.append(f"![What this cell draws]({file})")
    parts.append(f"This page is `notebooks/{name}.ipynb`, executed when it was built.")
    return "\n\n".join(parts) + "\n", pictures


def linked(source: str) -> str:
    """Markdown whose links to other notebooks and into docs/ lead to pages."""
    source = re.sub(r"\]\((\w+)\.ipynb\)", r"](\1.md)", source)
    return source.replace("](../docs/", "](../")
