"""Recorded trees made up for tests: every candidate is accepted as often as the draft says."""

from __future__ import annotations

from functools import cache

import numpy as np

from planner.documents.head_card import HeadFile
from planner.documents.profile import Replay, ReplayedPrompt
from planner.documents.sampling import Sampling
from planner.replay.recorded import Recorded
from planner.replay.replays import Replays

LEVELS = 24
HEAD = HeadFile(file="head.safetensors", sha256="0" * 64)


@cache
def made_up(
    seed: int,
    *,
    lengths: tuple[int, ...] = (40, 25, 31),
    num_children: int = 4,
    num_expanded: int = 12,
    skill: float = 1.0,
    deterministic: bool = False,
    scores: bool = False,
    goes_on: bool = True,
) -> Replays:
    """Trees at every position of texts of these lengths; the same for all who ask for the same.

    skill    a candidate is accepted with its drawn probability times so much
    goes_on  is something to be found where they end?
    """
    rng = np.random.default_rng(seed)
    first, rows, paths = [0], [], []
    for length in lengths:
        for place in range(length):
            tree, path = _tree(rng, length - place, num_children, num_expanded, skill)
            rows += tree
            paths.append(path)
            first.append(len(rows))
    features = np.array([row["features"] for row in rows])
    if not scores:
        features[:, 3] = np.nan
    recorded = Recorded(
        texts=np.column_stack([np.cumsum([0, *lengths[:-1]]), np.cumsum(lengths)]),
        first=np.array(first),
        drawn=np.array([row["drawn"] for row in rows]),
        child=np.array([row["child"] for row in rows], np.int8),
        taken=np.array([row["taken"] for row in rows], np.int8),
        features=features,
        path=np.array(paths, np.int8),
        goes_on=goes_on,
    )
    head = HEAD if scores else None
    return Replays(recorded=recorded, deterministic=deterministic, head=head)


def in_profile(profile, replays: Replays, *, verifier: str = "rrsw", temperature: float = 0.6):
    """`profile` with these recorded trees."""
    lengths = np.diff(replays.recorded.texts)[:, 0].tolist()
    entry = Replay(
        sampling=Sampling(temperature=temperature),
        verifier=verifier,
        num_children=replays.num_children,
        num_expanded=int(np.diff(replays.recorded.first).max()),
        prompts=[
            ReplayedPrompt(prompt=index, num_positions=length)
            for index, length in enumerate(lengths)
        ],
        head=replays.head,
        arrays=f"{verifier}/replay",
    )
    arrays = {
        f"{entry.arrays}/{name}": array.astype(np.float32) if array.dtype == float else array
        for name, array in replays.recorded._asdict().items()
        if name not in ("texts", "goes_on")
    }
    content = profile._content | arrays
    profile = profile.model_copy(update={"replays": [*profile.replays, entry]})
    return profile.with_arrays(content, "test.safetensors")


def _node(rng, on_text: bool, num_children: int, skill: float) -> dict:
    q = np.sort(rng.dirichlet(np.full(num_children + 2, 0.5)))[::-1]
    order = rng.choice(len(q), num_children, replace=False, p=q)
    left = 1 - np.concatenate(([0], np.cumsum(q[order])[:-1]))
    drawn = np.clip(q[order] / left, 0, 1).astype(np.float32).astype(np.float64)
    taken = -1
    for rank in range(num_children if on_text else 0):
        if rng.random() < skill * drawn[rank]:
            taken = rank
            break
    features = [q[0], -(q * np.log(q)).sum(), (q**2).sum(), rng.random()]
    child = np.full(num_children, -1)
    return {"drawn": drawn, "taken": taken, "features": features, "child": child}


def _tree(rng, room: int, num_children: int, num_expanded: int, skill: float):
    """Rows of one tree with `room` tokens of text in front of it, and its path."""
    root = _node(rng, True, num_children, skill)
    rows = [root]
    places = [(1.0, 0, rank, 0, True) for rank in range(num_children)]
    while len(rows) < num_expanded and places:
        places.sort(key=lambda place: -place[0])
        value, above, rank, depth, on_text = places.pop(0)
        on_text = on_text and rows[above]["taken"] == rank and depth + 1 < room
        rows[above]["child"][rank] = len(rows)
        rows.append(_node(rng, on_text, num_children, skill))
        own = rows[-1]["drawn"]
        places += [
            (value * own[r] * 0.8**r + 1e-9, len(rows) - 1, r, depth + 1, on_text)
            for r in range(num_children)
        ]
    path, row, depth = [], 0, 0
    while depth < min(room, LEVELS):
        node = rows[row] if row >= 0 else _node(rng, True, num_children, skill)
        path.append(int(node["taken"]))
        if node["taken"] < 0:
            break
        row = int(node["child"][node["taken"]]) if row >= 0 else -1
        depth += 1
    return rows, path + [-1] * (LEVELS - len(path))
