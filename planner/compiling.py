"""How loops over numbers are compiled: kept from run to run, and anew once their sources change.

Numba keeps beside a source what it made of it, and makes that again when this source changes.  But
other sources' functions and constants are in it, too: kept any longer, it would compute as before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

from numba import njit

compiled = partial(njit, cache=True)
"""Numba's `njit`, bare or with further options, for a function that later runs shall find made."""

NAME = "sources.sha256"
"""The file beside compiled code that says, by source, what it was made from."""
IMPORTED = re.compile(rb"^from (\.+)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
"""What a source imports from its own package when it is loaded: dots, place and names."""


def forget_if_changed(package: Path) -> None:
    """Delete the code that is kept for a source in the folder `package` unless it was made from
    the sources that are there: this one, and all that it imports, and these import.

    Where nothing can be written, nothing is kept there either; a folder that `NUMBA_CACHE_DIR`
    names instead is not looked at.
    """
    texts = {}
    for path in package.rglob("*.py"):
        with suppress(OSError):  # an editor's lock is a link that leads nowhere
            texts[path.relative_to(package)] = path.read_bytes()
    imports = {path: _imported(path, text) & texts.keys() for path, text in texts.items()}
    digests = {path: sha256(text).hexdigest() for path, text in texts.items()}
    folders: dict[Path, list[str]] = {}
    for path in texts:
        behind = sorted(f"{each} {digests[each]}" for each in _reached(path, imports))
        made_from = sha256("\n".join(behind).encode()).hexdigest()
        folders.setdefault(path.parent, []).append(f"{made_from} {path.stem}")
    for folder, lines in folders.items():
        _forget_unless(package / folder, sorted(lines))


def _imported(path: Path, text: bytes) -> set[Path]:
    """Sources that a source's imports may lead to, there or not."""
    found = set()
    for dots, place, names in IMPORTED.findall(text):
        if len(dots) > len(path.parents):  # nobody's source, as it cannot be imported
            continue
        folder = path.parents[len(dots) - 1].joinpath(*place.decode().split("."))
        modules = (folder / f"{name.decode()}.py" for name in re.findall(rb"\w+", names))
        found |= {folder.parent / f"{folder.name}.py", folder / "__init__.py", *modules}
    return found


def _reached(path: Path, imports: Mapping[Path, set[Path]]) -> set[Path]:
    found, new = {path}, {path}
    while new:
        new = set[Path]().union(*(imports[each] for each in new)) - found
        found |= new
    return found


def _forget_unless(folder: Path, made_from: Sequence[str]) -> None:
    """Delete what is kept of the sources in a folder whose line is not one of what is kept."""
    place = folder / "__pycache__" / NAME
    with suppress(OSError):
        before = place.read_text(errors="replace").splitlines() if place.exists() else []
        if before == made_from:
            return
        for line in set(made_from) - set(before):
            for kept in place.parent.glob(f"{line.split()[-1]}.*.nb[ci]"):
                kept.unlink(missing_ok=True)
        place.parent.mkdir(exist_ok=True)
        place.write_text("\n".join(made_from))


forget_if_changed(Path(__file__).parent)
