"""The code that measures, in one word: what measurements depend on though nobody asks for it."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from planner.documents.version import WRITTEN_BY

MEASURING = ("profiler", "runtime", "planner.verifiers", "planner.policies", "tree_kernels")
"""Packages whose sources decide what is measured."""


@cache
def measured_by() -> str:
    """The version of Espalier and the SHA-256 of the sources that measure, as one word.

    Pieces of a measurement that were taken under another word must not be mixed with new ones: the
    verifiers may accept, and the passes may cost, something else since.
    """
    digest = sha256()
    for package in MEASURING:
        for folder in _folders(package):
            for path in sorted(folder.rglob("*.py")):
                digest.update(f"{package}/{path.relative_to(folder).as_posix()}".encode())
                digest.update(path.read_bytes())
    return f"{WRITTEN_BY.replace(' ', '-')}-{digest.hexdigest()}"


def _folders(package: str) -> list[Path]:
    spec = find_spec(package)
    places = None if spec is None else spec.submodule_search_locations
    return [Path(place) for place in places or ()]
