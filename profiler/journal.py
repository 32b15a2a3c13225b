"""Finished pieces of a long measurement, kept on disk so that an interrupted run can continue.

One safetensors file per piece in a folder named after the output file and the exact settings, so
that pieces of another measurement are never taken for this one's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as dump_arrays

from planner.documents.document import PlannerError, write_atomically

Piece = dict[str, np.ndarray]

CODE = "code"
"""The file in a journal's folder that says which code took its pieces."""


class Journal:
    """Pieces done so far for one output path and one collection of settings.

    output    the file that the whole measurement will be written to; None keeps nothing
    settings  everything that was asked for and that the measurement depends on, as JSON data
    code      the code that measures, in one word; pieces that other code took are removed, and
              `num_outdated` says how many they were; "": any code's are taken
    """

    def __init__(self, output: str | Path | None, settings: dict[str, Any], code: str = "") -> None:
        self.folder: Path | None = None
        self.num_outdated = 0
        self._code = code
        if output is not None:
            canonical = json.dumps(settings, sort_keys=True).encode()
            output = Path(output)
            self.folder = output.parent / f".{output.name}.{sha256(canonical).hexdigest()[:12]}"
            if self._mark() != code:
                self.num_outdated = self.num_pieces
                shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def num_pieces(self) -> int:
        """Pieces that an earlier, interrupted run left."""
        if self.folder is None or not self.folder.is_dir():
            return 0
        return sum(1 for _ in self.folder.glob("*.piece"))

    @property
    def resumption(self) -> str:
        """One line on what an earlier run left, "" if it left nothing."""
        if self.num_outdated:
            return (
                f"{self.num_outdated} pieces of an interrupted run were taken by other code or "
                "another version of Espalier: they are measured anew"
            )
        if self.num_pieces:
            return f"continuing an interrupted run: {self.num_pieces} pieces are done"
        return ""

    def holds(self, name: str) -> bool:
        """Was the piece `name` taken already?"""
        return self.folder is not None and (self.folder / f"{name}.piece").exists()

    def piece(self, name: str, measure: Callable[[], Piece]) -> Piece:
        """The piece `name`: read if it was measured before, else measured now and kept.

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
        self.make_folder()
        write_atomically(path, dump_arrays(content))
        return content

    def make_folder(self) -> None:
        """Make the folder that pieces are kept in, if any are to be kept, and mark whose they are.

        Raises PlannerError when it cannot be made.
        """
        if self.folder is None or self.folder.is_dir():
            return
        try:
            self.folder.mkdir()
        except OSError as error:
            raise PlannerError(f"{self.folder}: cannot be made: {error.strerror}") from None
        write_atomically(self.folder / CODE, self._code)

    def _mark(self) -> str:
        """The code that took the pieces which lie there; "" where nothing is said of it."""
        if self.folder is None or not self.folder.is_dir():
            return self._code
        try:
            return (self.folder / CODE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""


def discard_pieces(output: str | Path) -> None:
    """Remove the pieces kept for `output`, whatever settings they were measured with."""
    output = Path(output)
    for folder in output.parent.glob(f".{output.name}.{'[0-9a-f]' * 12}"):
        shutil.rmtree(folder, ignore_errors=True)
