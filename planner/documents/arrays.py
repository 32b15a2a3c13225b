"""The arrays beside a profile: where do they lie, and are they what the profile says?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as dump_arrays

from .document import Part, PlannerError

NUM_FEATURES = 4
"""Features of a draft distribution: see `planner.policies.policy`."""

ROUNDING = 1e-5
"""How far a sum of float32 probabilities may exceed 1 before it is called wrong."""

Arrays = Mapping[str, np.ndarray]


class ReplayArrays(NamedTuple):
    """See `planner.documents.profile.Replay`."""

    first: np.ndarray
    drawn: np.ndarray
    child: np.ndarray
    taken: np.ndarray
    features: np.ndarray
    path: np.ndarray


class ArrayFile(Part):
    """The safetensors file beside the JSON."""

    file: str = Field(pattern=r"^[^/\\]+$", description="file name, in the JSON's own folder")
    sha256: str


def check_place(path: str | Path) -> None:
    """Raise PlannerError if the arrays of a profile at `path` could not lie beside it, or would
    take the place of something else: a head, or a model."""
    path = Path(path)
    arrays = beside(path)
    if path == arrays or (path.exists() and not path.is_file()):
        raise PlannerError(
            f"{path}: a profile keeps its arrays in a .safetensors file beside it; expected the "
            "path of another file, such as profile.json"
        )
    if arrays.exists() and not all("/" in name for name in _names_in(arrays)):
        raise PlannerError(
            f"{path}: {arrays} lies where the profile's arrays would go, and is something else; "
            "choose another name for the profile"
        )


def beside(path: Path) -> Path:
    """The file of the arrays of a profile at `path`."""
    return path.parent / f"{path.stem}.safetensors"


def _names_in(path: Path) -> list[str]:
    """Names of the arrays in a safetensors file; of any other a name that no array of ours has."""
    try:
        with safe_open(path, framework="numpy") as arrays:
            return list(arrays.keys())
    except (OSError, SafetensorError):
        return [""]


def read_arrays(path: Path, expected: ArrayFile) -> dict[str, np.ndarray]:
    """The arrays at `path`.  Raises PlannerError unless it is the file that is expected."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlannerError(
            f"{path}: cannot be read: {error.strerror}; the profile keeps its acceptance traces "
            "there: keep both files together"
        ) from None
    if sha256(data).hexdigest() != expected.sha256:
        raise PlannerError(
            f"{path}: is not the file that the profile was written with (hash differs); "
            "copy both files again, or profile again"
        )
    try:
        return dict(load_arrays(data))
    except SafetensorError as error:
        raise PlannerError(f"{path}: not a valid safetensors file: {error}") from None


def packed(content: Arrays, file: str) -> tuple[bytes, ArrayFile]:
    """The content of the file that holds the arrays, and how the JSON names it."""
    data = dump_arrays(dict(content))
    return data, ArrayFile(file=file, sha256=sha256(data).hexdigest())


def check_acceptance(
    content: Arrays, name: str, shape: tuple[int, int], families: Sequence[slice], where: str
) -> None:
    """Raise PlannerError unless the array `name` holds the probabilities of children.

    families  columns that are the children of one node, so that they sum to at most 1
    """
    array = content.get(name)
    if array is None:
        raise PlannerError(f"{where}: no array {name!r} in the file beside the profile")
    if array.shape != shape:
        raise PlannerError(f"{where}: got an array of shape {array.shape}, expected {shape}")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise PlannerError(f"{where}: got NaN or negative entries, expected probabilities")
    totals = [array[:, family].sum(axis=1, dtype=np.float64) for family in families]
    if np.max(totals) > 1 + 1e-3:
        raise PlannerError(f"{where}: got a row summing above 1, expected at most 1")


def replay_arrays(content: Arrays, name: str, where: str) -> ReplayArrays:
    """The arrays `name`/... .  Raises PlannerError if one is missing."""
    missing = [field for field in ReplayArrays._fields if f"{name}/{field}" not in content]
    if missing:
        raise PlannerError(f"{where}: no array {name}/{missing[0]} in the file beside the profile")
    return ReplayArrays(*(content[f"{name}/{field}"] for field in ReplayArrays._fields))


def check_replay(
    arrays: ReplayArrays,
    *,
    num_trees: int,
    num_children: int,
    num_expanded: int,
    scored: bool,
    where: str,
) -> None:
    """Raise PlannerError unless the arrays are trees as `Replay` of a profile describes them.

    scored  was a head asked for its word on every node but the roots?
    """
    first, drawn, child, taken, features, path = arrays
    rows = int(first[-1]) if first.ndim == 1 and len(first) else -1
    expected = {
        "first": (first.shape, (num_trees + 1,)),
        "drawn": (drawn.shape, (rows, num_children)),
        "child": (child.shape, (rows, num_children)),
        "taken": (taken.shape, (rows,)),
        "features": (features.shape, (rows, NUM_FEATURES)),
        "path": (path.shape, (num_trees, path.shape[-1] if path.ndim else 0)),
    }
    for name, (got, wanted) in expected.items():
        if got != wanted:
            raise PlannerError(f"{where}.{name}: got shape {got}, expected {wanted}")
    sizes = np.diff(first)
    if first[0] != 0 or sizes.min() < 1 or sizes.max() > num_expanded:
        raise PlannerError(f"{where}.first: expected 1 to {num_expanded} rows a tree")
    if not ((drawn >= 0) & (drawn <= 1 + ROUNDING)).all():
        raise PlannerError(f"{where}.drawn: expected probabilities")
    place = np.arange(rows) - np.repeat(first[:-1], sizes)
    later = (child == -1) | ((child > place[:, None]) & (child < np.repeat(sizes, sizes)[:, None]))
    if not later.all() or (child >= 0).sum() != rows - num_trees:
        raise PlannerError(f"{where}.child: expected every row but a root once, behind its parent")
    scores = features[place > 0, -1]
    if scored and not ((scores >= 0) & (scores <= 1)).all():
        raise PlannerError(f"{where}.features: expected the head's scores between 0 and 1")
    for name, ranks in (("taken", taken), ("path", path)):
        if ranks.size and (ranks.min() < -1 or ranks.max() >= num_children):
            raise PlannerError(f"{where}.{name}: expected -1 to {num_children - 1}")
