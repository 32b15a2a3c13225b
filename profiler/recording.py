"""Trees drafted at every position of the target's texts, given those texts: see `profile.Replay`.

All positions of a text are drafted together: the text stands in the draft's cache once, and the
nodes of many trees behind it, each seeing its own text and its own ancestors.

Where whole paths are judged, a rejected child was rejected with all that stands below it, which
says something about what does: there the target reads the nodes too, and what is drawn below such a
child is drawn given that none of it is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from planner.documents.arrays import ReplayArrays
from planner.documents.head_card import HeadFile
from planner.documents.profile import Replay, ReplayedPrompt
from planner.documents.sampling import Sampling
from planner.policies.policy import FEATURES
from planner.verifiers import VERIFIERS, verifier_at
from runtime.cache import RowCache
from runtime.candidates import shown
from runtime.heads import AcceptanceHead
from runtime.held_tokens import held_with
from runtime.language_model import HiddenModel, LanguageModel, read_text
from runtime.pair import Pair
from runtime.randomness import Source, seeded_source
from runtime.token_distribution import distribution
from runtime.written import Written

from .acceptance import distributions_along, held_in_front
from .cached_nodes import CachedNodes
from .chances import Chances
from .journal import Piece

EXPANDED_AT_ONCE = 2
"""Nodes of each tree in one draft pass behind the first: the fewer, the better they are chosen."""
TREES_AT_ONCE = {"cpu": 64, "cuda": 512}
"""Trees whose nodes stand in the cache together: each of them is masked for all others."""
LEAST_VALUE = 1e-4
"""Places that are reached more seldom are not worth a draft pass."""
MAX_LEVELS = 24
"""Levels below the root to which it is recorded what is accepted."""


@dataclass(frozen=True)
class Width:
    """How much of the trees is recorded."""

    num_expanded: int = 41
    """Draft distributions of each tree."""
    num_children: int = 8
    """Candidates below each of them."""


def replayed_verifiers(sampling: Sampling, *, whole_paths: bool) -> tuple[str, ...]:
    """The verifiers whose trees are recorded under `sampling`, for themselves and for others.

    whole_paths  also of those that judge whole paths
    """
    recorded = (
        each.recorded_as
        for each in VERIFIERS.values()
        if each.recorded_as and (whole_paths or not each.whole_paths)
    )
    return tuple(dict.fromkeys(verifier_at(name, sampling).name for name in recorded))


@dataclass(frozen=True)
class Recording:
    """The trees to record, and how.

    verifier  one that grows and is recorded as itself; at temperature 0 `GREEDY_VERIFIER`
    width     how much of each tree
    head      scores the nodes, if there is one
    of_draft  how the draft's logits become what a policy sees, where that is not as in decoding
              here; for verifiers whose candidates are the draft's most probable tokens
    """

    verifier: str
    width: Width
    seed: int
    head: AcceptanceHead | None = None
    of_draft: Sampling | None = None


@torch.inference_mode()
def record_replays(
    pair: Pair, texts: Sequence[Written], sampling: Sampling, recording: Recording
) -> Piece:
    """Trees at every position of `texts`, which the target itself wrote.

    Returns the arrays of `ReplayArrays` by name, and "num_positions", int64 [texts].
    """
    device = pair.target.device
    draft = pair.draft if recording.head is None else pair.hidden_draft
    target = pair.target if VERIFIERS[recording.verifier].whole_paths else None
    source = seeded_source(recording.seed, device)
    of_draft = recording.of_draft or sampling.of_draft
    drafting = _Drafting(draft, target, sampling, of_draft, recording, Chances(device), source)
    parts = []
    for written in texts:
        found = distributions_along(pair, written, sampling, recording.of_draft)
        parts += _recorded_text(drafting, _Along(*found, written))
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    arrays["first"] = np.concatenate(([0], np.cumsum(arrays.pop("sizes"))))
    arrays["num_positions"] = np.array([len(written.text) for written in texts])
    return arrays


def replay_entry(
    piece: Piece, sampling: Sampling, verifier: str, width: Width, head: HeadFile | None = None
) -> tuple[Replay, dict[str, np.ndarray]]:
    """The profile's entry for what `record_replays` returned, and the arrays that it names."""
    prefix = f"{str(sampling).replace(' ', ',')}/{verifier}/replay"
    entry = Replay(
        sampling=sampling,
        verifier=verifier,
        num_children=piece["drawn"].shape[1],
        num_expanded=width.num_expanded,
        prompts=[
            ReplayedPrompt(prompt=index, num_positions=int(count))
            for index, count in enumerate(piece["num_positions"])
        ],
        head=head,
        arrays=prefix,
    )
    return entry, {f"{prefix}/{name}": piece[name] for name in ReplayArrays._fields}


@dataclass(frozen=True)
class _Drafting:
    """All that drafts the trees: the same for all texts."""

    draft: LanguageModel
    target: LanguageModel | None
    """None where it need not read what is drafted."""
    sampling: Sampling
    of_draft: Sampling
    recording: Recording
    chances: Chances
    source: Source


class _Along(NamedTuple):
    """A text of N tokens; p and q are the distributions in front of each, float [N, V]."""

    p: Tensor
    q: Tensor
    written: Written


def _recorded_text(drafting: _Drafting, along: _Along) -> list[Piece]:
    """One text's trees, some at a time."""
    prompt, text = along.written
    read = [*prompt, *text[:-1]]
    models = [each for each in (drafting.draft, drafting.target) if each is not None]
    caches = [each.new_cache(len(read)) for each in models]
    for model, cache in zip(models, caches, strict=True):
        read_text(model, read, cache, 0)
    some = TREES_AT_ONCE.get(along.p.device.type, TREES_AT_ONCE["cuda"])
    parts = []
    for start in range(0, len(text), some):
        trees = _Trees(drafting, caches, along, range(start, min(start + some, len(text))))
        trees.grow()
        trees.note_chances()
        parts.append(trees.arrays())
        for cache in caches:
            cache.rewind(len(read))
    return parts


class _Trees:
    """The trees at some positions of one text while they grow, best places first.

    Everything is by tree and row, a row being an expanded node, the first of them the root, at the
    token in front of its position: [G, R], and with K candidates [G, R, K].
    """

    def __init__(
        self, drafting: _Drafting, caches: Sequence[RowCache], along: _Along, places: range
    ) -> None:
        self._drafting = drafting
        self._verifier = VERIFIERS[drafting.recording.verifier]
        self._p, self._q, (prompt, text) = along
        device = self._p.device
        self._text = torch.tensor(text, device=device)
        self._held = held_in_front(along.written, self._p.shape[-1], device, drafting.sampling)
        """Tokens held in front of each of the text's, if a distribution depends on them."""
        self._num_rows = drafting.recording.width.num_expanded
        self._most = min(drafting.recording.width.num_children, self._p.shape[-1])
        size = len(places), self._num_rows
        wide = *size, self._most
        self._places = torch.arange(places.start, places.stop, device=device)
        self._roots = self._places + len(prompt) - 1
        models = [each for each in (drafting.draft, drafting.target) if each is not None]
        self._rooms = min(each.max_positions for each in models) - 1 - self._roots
        self._sizes = torch.zeros(size[0], dtype=torch.long, device=device)
        self._candidates = torch.zeros(wide, dtype=torch.long, device=device)
        self._drawn = torch.zeros(wide, dtype=torch.float64, device=device)
        self._values = torch.zeros(wide, dtype=torch.float64, device=device)
        self._child = torch.full(wide, -1, device=device)
        self._taken = torch.full(size, -1, device=device)
        self._on_text = torch.zeros(size, dtype=torch.bool, device=device)
        self._entered = torch.ones(size, dtype=torch.float64, device=device)
        self._entering = torch.ones(wide, dtype=torch.float64, device=device)
        self._rejected = torch.zeros(size, dtype=torch.bool, device=device)
        """Nodes rejected with all below them, where whole paths are judged; else none."""
        self._features = torch.full((*size, len(FEATURES)), torch.nan, device=device)
        self._depths = torch.zeros(size, dtype=torch.long, device=device)
        self._behind_root = torch.full((*size, self._num_rows), -1, device=device)
        """Tokens on the way from the root to each row, by depth, the root's left out; else -1."""
        self._drafted, *read = (CachedNodes(each, self._roots, size[1]) for each in caches)
        self._read = read[0] if read else None
        """The target's nodes: rejected ones, and above them those that are the text's own."""

    def grow(self) -> None:
        """Draft until the trees are as wide as wanted."""
        trees = torch.arange(len(self._places), device=self._places.device)
        self._on_text[:, 0] = True
        certain = torch.ones(len(trees), dtype=torch.float64, device=trees.device)
        self._expand(trees, torch.zeros_like(trees), self._q[self._places], certain)
        while int(self._sizes.min()) < self._num_rows:
            trees, parents, ranks = self._best_places()
            if len(trees) == 0:
                break
            self._draft_below(trees, parents, ranks)

    def note_chances(self) -> None:
        """Learn from what was accepted, for the trees to come."""
        self._drafting.chances.note(self._drawn[self._on_text], self._taken[self._on_text])

    def arrays(self) -> Piece:
        """The arrays of a profile's `Replay`, with "sizes" int64 [trees] instead of "first"."""
        rows = torch.arange(self._num_rows, device=self._sizes.device)
        there = rows < self._sizes[:, None]
        arrays = {
            "sizes": self._sizes,
            "drawn": self._drawn[there].float(),
            "child": self._child[there].to(torch.int8),
            "taken": self._taken[there].to(torch.int8),
            "features": self._features[there],
            "path": self._paths().to(torch.int8),
        }
        return {name: array.cpu().numpy() for name, array in arrays.items()}

    def _paths(self) -> Tensor:
        """int64 [G, MAX_LEVELS]: ranks accepted one below the other, -1 behind the last.

        Behind what was expanded the draft's distribution is that along the text, and the children
        are drawn anew.
        """
        trees = torch.arange(len(self._places), device=self._places.device)
        rows, entered = torch.zeros_like(trees), self._entered[:, 0]
        paths = torch.full((len(trees), MAX_LEVELS), -1, device=trees.device)
        for level in range(MAX_LEVELS):
            here = self._places[trees] + level < len(self._text)
            trees, rows, entered = trees[here], rows[here], entered[here]
            if len(trees) == 0:
                break
            ranks, entering = self._taken[trees, rows], self._entering[trees, rows]
            fresh = rows < 0
            places = self._places[trees[fresh]] + level
            _, ranks[fresh], entering[fresh] = self._drawn_behind(
                entered[fresh], self._p[places], self._q[places], self._text[places]
            )
            paths[trees, level] = ranks
            on, ranks = ranks >= 0, ranks.clamp(min=0)
            below = torch.where(rows >= 0, self._child[trees, rows, ranks], -1)
            entered = entering.gather(1, ranks[:, None])[:, 0]
            trees, rows, entered = trees[on], below[on], entered[on]
        return paths

    def _drawn_behind(
        self, entered: Tensor, p: Tensor, q: Tensor, tokens: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The children that `Verifier.draw_entered` draws at nodes with `tokens` behind them."""
        source, most = self._drafting.source, self._most
        if len(tokens) == 0:
            wide = len(tokens), most
            return tokens.new_zeros(wide), tokens, entered.new_ones(wide)
        return self._verifier.draw_entered(entered, p, q, tokens, most, source)

    def _best_places(self) -> tuple[Tensor, Tensor, Tensor]:
        """(trees, parents' rows, ranks) of the candidates to be expanded next, int64 [w] each."""
        flat = self._values.flatten(1)
        values, where = flat.topk(min(EXPANDED_AT_ONCE, flat.shape[1]), dim=-1)
        left = self._num_rows - self._sizes
        order = torch.arange(values.shape[1], device=values.device)
        wanted = (values >= LEAST_VALUE) & (order < left[:, None])
        return wanted.nonzero()[:, 0], where[wanted] // self._most, where[wanted] % self._most

    def _draft_below(self, trees: Tensor, parents: Tensor, ranks: Tensor) -> None:
        """One draft pass over the candidates at `ranks` of rows `parents`, which become rows."""
        order = torch.arange(len(trees), device=trees.device)
        first = torch.searchsorted(trees, trees)  # trees ascend: the first of the same tree
        rows = self._sizes[trees] + order - first
        depths = self._depths[trees, parents] + 1
        self._depths[trees, rows] = depths
        self._child[trees, parents, ranks] = rows
        self._on_text[trees, rows] = (
            self._on_text[trees, parents] & (self._taken[trees, parents] == ranks)
        )  # fmt: skip
        tokens, positions = self._candidates[trees, parents, ranks], self._roots[trees] + depths
        if self._held is not None:
            self._behind_root[trees, rows] = self._behind_root[trees, parents]
            self._behind_root[trees, rows, depths] = tokens
        p = self._p_rejected(trees, parents, ranks, rows)
        at = self._drafted.cache.length + order
        self._drafted.place(trees, parents, rows, depths, at)
        logits, scores = self._passed(tokens, positions, self._drafted.visible(trees, rows, depths))
        values = self._values[trees, parents, ranks]
        self._values[trees, parents, ranks] = 0
        q = distribution(logits, self._drafting.of_draft, self._held_at(trees, rows))
        self._expand(trees, rows, q, values, p, scores)

    def _p_rejected(self, trees: Tensor, parents: Tensor, ranks: Tensor, rows: Tensor) -> Tensor:
        """float [rejected, V]: where whole paths are judged, p at those of the new rows that were
        rejected with all below them; which these are is noted."""
        target, read = self._drafting.target, self._read
        if target is None or read is None:
            return self._p[:0]
        taken, judged = self._taken[trees, parents], self._rejected | self._on_text
        gone = judged[trees, parents] & ((taken < 0) | (ranks < taken))
        self._rejected[trees, rows] = gone
        self._entered[trees, rows] = self._entering[trees, parents, ranks]
        tokens, depths = self._candidates[trees, parents, ranks], self._depths[trees, rows]
        at = self._roots[trees] + depths  # of the text's own, should it be one of them
        at[gone] = read.cache.length + torch.arange(int(gone.sum()), device=at.device)
        read.place(trees, parents, rows, depths, at)
        if not bool(gone.any()):
            return self._p[:0]
        trees, rows, depths = trees[gone], rows[gone], depths[gone]
        visible = read.visible(trees, rows, depths)
        logits = target.forward(tokens[gone], self._roots[trees] + depths, read.cache, visible)
        held = self._held_at(trees, rows)
        return distribution(logits.to(self._p.device), self._drafting.sampling, held)

    def _held_at(self, trees: Tensor, rows: Tensor) -> Tensor | None:
        """bool [w, V]: what the texts hold up to these rows, if a distribution depends on it."""
        if self._held is None:
            return None
        return held_with(self._held[self._places[trees]], self._behind_root[trees, rows])

    def _passed(
        self, tokens: Tensor, positions: Tensor, visible: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """One draft pass: logits [w, V], and the head's word on the tokens, float [w]."""
        draft, head = self._drafting.draft, self._drafting.recording.head
        if head is None:
            return draft.forward(tokens, positions, self._drafted.cache, visible), None
        assert isinstance(draft, HiddenModel)  # checked where the recording began
        cache = self._drafted.cache
        logits, hidden = draft.forward_with_hidden(tokens, positions, cache, visible)
        return logits, head.scores(hidden)

    def _expand(
        self,
        trees: Tensor,
        rows: Tensor,
        q: Tensor,
        values: Tensor,
        p_rejected: Tensor | None = None,
        scores: Tensor | None = None,
    ) -> None:
        """Draw the candidates of `rows`, which are reached with the chances `values` [w]."""
        candidates = self._verifier.sample(q, self._most, self._drafting.source)
        places = self._places[trees] + self._depths[trees, rows]
        on_text = self._on_text[trees, rows] & (places < len(self._text))
        self._on_text[trees, rows] = on_text
        where, gone = places[on_text], self._rejected[trees, rows]
        known = [(on_text, (self._p[where], self._q[where], self._text[where]))]
        if p_rejected is not None:
            known.append((gone, (p_rejected, q[gone], torch.full_like(trees[gone], -1))))
        for these, laws in known:
            at = trees[these], rows[these]
            found = self._drawn_behind(self._entered[at], *laws)
            candidates[these], self._taken[at], self._entering[at] = found
        seen = shown(q, candidates, FEATURES, scores, distinct=self._verifier.distinct)
        drawn = torch.from_numpy(seen.drawn).to(q.device)
        self._candidates[trees, rows] = candidates
        self._drawn[trees, rows] = drawn
        self._features[trees, rows] = torch.from_numpy(seen.features).to(self._features)
        accepted = self._drafting.chances.of(drawn)
        passed = torch.cat((torch.ones_like(drawn[:, :1]), 1 - accepted[:, :-1]), -1).cumprod(-1)
        room = self._depths[trees, rows] < self._rooms[trees]
        self._values[trees, rows] = values[:, None] * passed * accepted * room[:, None]
        self._sizes.index_add_(0, trees, torch.ones_like(trees))
