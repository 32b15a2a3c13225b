"""Compiled code that is kept from run to run, and goes once any of its sources has changed.

Numba keeps beside a source what it made of it, and makes that again when this source changes.  But
in it is what other sources' functions were, and it calls some by name: kept any longer, it would
compute as before, or call what is no longer there, which ends the process.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

NAME = "sources.sha256"
"""The file beside compiled code that says what it was made from."""


def forget_if_changed(folder: Path) -> None:
    """Delete the code that is kept for `folder`, unless its sources are those that it was made
    from.  Where nothing can be written, nothing is kept there either; a folder that
    `NUMBA_CACHE_DIR` names instead is not looked at."""
    sources = sha256()
    for source in sorted(folder.glob("*.py")):
        sources.update(f"{source.name}\n".encode() + source.read_bytes())
    made_from, now = folder / "__pycache__" / NAME, sources.hexdigest()
    with suppress(OSError):
        if made_from.exists() and made_from.read_text() == now:
            return
        for kept in made_from.parent.glob("*.nb[ci]"):
            kept.unlink(missing_ok=True)
        made_from.parent.mkdir(exist_ok=True)
        made_from.write_text(now)
