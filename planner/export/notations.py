"""Numbers and lists in the notations that engines read."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from ..documents.document import PlannerError, unique_keys
from ..documents.tree import Tree
from ..policies import TreeDrafting

Schedule = Sequence[tuple[int, int]]
"""(batch size, tokens to draft), by batch size; each holds down to the size before it."""

HEADS_NOTE = (
    "predicted for the profiled draft model; heads, which this setting is for, have an acceptance "
    "and passes of their own"
)


def one_length(batch_size: int) -> str:
    """A note: nothing is known of other batch sizes."""
    return f"one length for all batches: of their sizes only {batch_size} is known"


def as_json(content: Mapping[str, Any] | Sequence[Any]) -> str:
    """JSON on one line, for a shell's quotes, without settings that are None."""
    filled = _filled(content) if isinstance(content, Mapping) else content
    return json.dumps(filled) + "\n"


def as_yaml(content: Mapping[str, Mapping[str, Any]]) -> str:
    """Sections of settings, in their order, without those that are empty or None."""
    import yaml  # type: ignore[import-untyped]

    filled = {name: _filled(section) for name, section in content.items()}
    return str(yaml.safe_dump(filled, sort_keys=False))


def as_flags(flags: Mapping[str, str | int | float | None]) -> str:
    """`--name value ...` on one line, as a shell reads it, without those that are None."""
    given = (f"--{name} {quote(str(value))}" for name, value in _filled(flags).items())
    return " ".join(given) + "\n"


def _filled(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value not in (None, {})}


def ranges(schedule: Schedule) -> list[tuple[int, int, int]]:
    """(first, last, tokens): all batch sizes up to the largest, equal neighbours as one."""
    found: list[tuple[int, int, int]] = []
    first = 1
    for size, num_tokens in schedule:
        if found and found[-1][2] == num_tokens:
            found[-1] = (found[-1][0], size, num_tokens)
        else:
            found.append((first, size, num_tokens))
        first = size + 1
    return found


def is_there(words: str) -> bool:
    """Do these words name a file, or a folder, that is there?"""
    try:
        return words != "" and Path(words).exists()
    except (OSError, ValueError):  # no name of a file: too long, a zero byte
        return False


def unassigned(text: str) -> str:
    """A list without the name that it is assigned to, as in Medusa's and EAGLE's files."""
    return re.sub(r"\A[\w.]+\s*=\s*(?=\[)", "", text.strip())


def literal(text: str, where: str) -> Any:
    """JSON, or Python's notation of the same.  Raises PlannerError naming `where`."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except PlannerError as error:
        raise PlannerError(f"{where}: {error}") from None
    except json.JSONDecodeError as error:
        fault = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except (RecursionError, ValueError):
        raise PlannerError(f"{where}: is nested too deeply, or no number") from None
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        raise PlannerError(f"{where}: not valid JSON: {fault}") from None


def rank_paths(tree: Tree) -> list[tuple[int, ...]]:
    """The ranks on the way to each node but the root, by (length, path)."""
    paths: list[tuple[int, ...]] = [()]
    for parent, rank in zip(tree.parents[1:], tree.ranks[1:], strict=True):
        paths.append((*paths[parent], int(rank)))
    return sorted(paths[1:], key=lambda path: (len(path), path))


def tree_of(paths: Sequence[Sequence[int]]) -> Tree:
    """The tree with these nodes: the inverse of `rank_paths`, in whatever order they come.

    Raises PlannerError for what is no list of paths, for a path that stands twice, and for one
    without its parent or without the sibling of the rank before it.
    """
    for path in paths:
        ranks = path if isinstance(path, list | tuple) else []
        if not ranks or not all(type(rank) is int and rank >= 0 for rank in ranks):
            raise PlannerError(f"paths: got {path!r:.40}, expected ranks from the root on")
    known = sorted((tuple(path) for path in paths), key=lambda path: (len(path), path))
    places = {(): 0} | {path: place for place, path in enumerate(known, start=1)}
    for earlier, path in pairwise(known):
        if earlier == path:
            raise PlannerError(f"paths: {list(path)} stands there twice")
    for path in known:
        needed = [path[:-1], *([(*path[:-1], path[-1] - 1)] if path[-1] else [])]
        for other in needed:
            if other not in places:
                raise PlannerError(f"paths: {list(path)} stands there without {list(other)}")
    return Tree([-1, *(places[path[:-1]] for path in known)])


def chain_of(num_tokens: int) -> TreeDrafting:
    """A chain of so many drafted tokens; 0: do not speculate."""
    return TreeDrafting(parents=[-1, *range(num_tokens)])


def by_position(reach: Sequence[float], depths: np.ndarray) -> list[float]:
    """P(at least so many tokens of a step are accepted), from 1: each depth's reach summed.

    reach   [n]  of every node; the root's, which is 1, comes first
    depths  int32 [n]
    """
    return np.minimum(np.bincount(depths, weights=reach)[1:], 1.0).tolist()
