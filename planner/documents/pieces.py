"""Finished pieces of a long piece of work, kept on disk so that an interrupted run can continue.

One file per piece in a folder named after the output file and the exact settings, so that pieces of
other work are never taken for this one's.
"""

from __future__ import annotations

import glob
import json
import shutil
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as dump_arrays

from .document import PlannerError, write_atomically
from .version import WRITTEN_BY

Piece = dict[str, np.ndarray]

CODE = "code"
"""The file in a journal's folder that says which code took its pieces."""


class Journal:
    """Pieces done so far for one output path and one collection of settings.

    output       the file that the whole will be written to; None keeps nothing
    settings     everything that was asked for and that the pieces depend on, as JSON data
    code         the code that takes them, in one word: pieces that other code took are removed
    report_line  told what an earlier, interrupted run left, if it left anything
    """

    def __init__(
        self,
        output: str | Path | None,
        settings: dict[str, Any],
        code: str = "",
        report_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.folder: Path | None = None
        self._code = code
        if output is None:
            return
        canonical = json.dumps(settings, sort_keys=True).encode()
        output = Path(output)
        self.folder = output.parent / f".{output.name}.{sha256(canonical).hexdigest()[:12]}"
        num_pieces, mark = len([*self.folder.glob("*.piece")]), self.folder / CODE
        found = f"continuing an interrupted run: {num_pieces} pieces are done"
        if self.folder.is_dir() and not (mark.is_file() and mark.read_bytes() == code.encode()):
            shutil.rmtree(self.folder, ignore_errors=True)
            found = (
                f"{num_pieces} pieces of an interrupted run were taken by other code or another "
                "version of Espalier: they are taken anew"
            )
        if num_pieces:
            report_line(found)

    def holds(self, name: str) -> bool:
        """Was the piece `name` taken already?"""
        return self.folder is not None and (self.folder / f"{name}.piece").exists()

    def piece(self, name: str, measure: Callable[[], Piece]) -> Piece:
        """The piece `name`: read if it was taken before, else measured now and kept.

        Raises PlannerError when it cannot be written.
        """
        if self.folder is None:
            return measure()
        path = self.folder / f"{name}.piece"
        if path.exists():
            try:
                return dict(load_arrays(path.read_bytes()))
            except (OSError, SafetensorError):
                path.unlink(missing_ok=True)
        content = {key: np.ascontiguousarray(array) for key, array in measure().items()}
        self.place(path.name)
        write_atomically(path, dump_arrays(content))
        return content

    def place(self, name: str) -> Path | None:
        """The path to keep a file of that name at, its folder made and marked; None: keep nothing.

        Raises PlannerError when it cannot be made.
        """
        if self.folder is None:
            return None
        try:
            self.folder.mkdir()
        except FileExistsError:  # made before, maybe this very moment by another run
            return self.folder / name
        except OSError as error:
            raise PlannerError(f"{self.folder}: cannot be made: {error.strerror}") from None
        write_atomically(self.folder / CODE, self._code)
        return self.folder / name


def discard_pieces(output: str | Path) -> None:
    """Remove the pieces kept for `output`, whatever settings they were taken with."""
    output = Path(output)
    for folder in output.parent.glob(f".{glob.escape(output.name)}.{'[0-9a-f]' * 12}"):
        shutil.rmtree(folder, ignore_errors=True)


def written_by_code(packages: Sequence[str]) -> str:
    """The version of Espalier and the SHA-256 of all sources of some packages, as one word.

    Pieces that were taken under another word must not be mixed with new ones: the code may come to
    something else since.
    """
    digest = sha256()
    for package in packages:
        for folder in _folders(package):
            for path in sorted(folder.rglob("*.py")):
                digest.update(f"{package}/{path.relative_to(folder).as_posix()}".encode())
                digest.update(path.read_bytes())
    return f"{WRITTEN_BY.replace(' ', '-')}-{digest.hexdigest()}"


def _folders(package: str) -> list[Path]:
    spec = find_spec(package)
    places = None if spec is None else spec.submodule_search_locations
    return [Path(place) for place in places or ()]
