"""How loops over numbers are compiled: kept from run to run, and anew once their sources change.

Numba keeps beside a source what it made of it, and makes that again when this source changes.  But
other sources' functions and constants are in it, too: kept any longer, it would compute as before.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

from numba import njit

compiled = partial(njit, cache=True)
"""Numba's `njit`, bare or with further options, for a function that later runs shall find made."""

NAME = "sources.sha256"
"""The file beside compiled code that says what it was made from."""
IMPORTED = re.compile(rb"^from \.\.+(\w+)", re.MULTILINE)
"""The part of the package that a source imports from, when it is loaded."""


def forget_if_changed(package: Path) -> None:
    """Delete the code that is kept for each folder of `package` that compiles, unless it was made
    from the sources that are there: the folder's own, and those of all that it imports from.

    Where nothing can be written, nothing is kept there either; a folder that `NUMBA_CACHE_DIR`
    names instead is not looked at.
    """
    texts = {path.relative_to(package): path.read_bytes() for path in package.rglob("*.py")}
    needed: dict[str, set[str]] = {}
    for path, text in texts.items():
        imported = (name.decode() for name in IMPORTED.findall(text))
        needed.setdefault(_part(path), {_part(path)}).update(imported)
    compiling = [part for part, parts in needed.items() if Path(__file__).stem in parts - {part}]
    for through, theirs in needed.items():
        for parts in needed.values():
            if through in parts:
                parts |= theirs
    for part in compiling:
        sources = sha256()
        for path in sorted(path for path in texts if _part(path) in needed[part]):
            sources.update(f"{path.as_posix()}\n".encode() + texts[path])
        _forget_unless(package / part, sources.hexdigest())


def _part(path: Path) -> str:
    """The folder or the source at the top of a package that a path in it leads to."""
    return path.parts[0].removesuffix(".py")


def _forget_unless(folder: Path, sources: str) -> None:
    """Delete what is kept in a folder and those below, unless this is what it was made from."""
    made_from = folder / "__pycache__" / NAME
    with suppress(OSError):
        if made_from.exists() and made_from.read_text() == sources:
            return
        for kept in folder.rglob("*.nb[ci]"):
            kept.unlink(missing_ok=True)
        made_from.parent.mkdir(exist_ok=True)
        made_from.write_text(sources)


forget_if_changed(Path(__file__).parent)
