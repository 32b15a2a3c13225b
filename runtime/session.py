"""One text being decoded: draft, verify, keep, record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling
from planner.policies import Policy
from planner.verifiers import Verifier, verifier_at

from .candidates import Seen, shown
from .draft_tree import DraftTree, Room, on_device
from .held_tokens import held_at_nodes
from .language_model import HiddenModel, LanguageModel, PassInput, PassOutput, PreparedModel
from .passes import Asking, alone
from .randomness import Source
from .token_distribution import distribution, most_probable
from .walks import walked, walked_greedily

Score = Callable[[Tensor], Tensor]
"""Last hidden states of the draft, float [w, H], to P(the token there is accepted), float [w]."""


@dataclass(frozen=True)
class StepRecord:
    """The record of one draft-and-verify round: what it did, and how long each part took.

    tokens     emitted: the accepted path, then the bonus token
    path       accepted nodes, without the root, as the policy numbers them
    ranks      theirs
    num_nodes  verified, root included
    depth      levels below the root
    widths     nodes expanded by each draft pass
    draft_ms   each draft pass with the sampling of the children
    grow_ms    deciding what to draft, and building the tree
    verify_ms  the target's pass, up to its distributions
    accept_ms  acceptance walk and cache keeping
    logprobs   of the emitted tokens, where they were asked for
    """

    tokens: tuple[int, ...]
    path: tuple[int, ...]
    ranks: tuple[int, ...]
    num_nodes: int
    depth: int
    widths: tuple[int, ...]
    draft_ms: tuple[float, ...]
    grow_ms: float
    verify_ms: float
    accept_ms: float
    total_ms: float
    logprobs: tuple[float, ...] = ()


class Session:
    """Both models' caches, the committed tokens, and the source of randomness.

    target    the model whose distribution is sampled
    draft     the model that proposes; None when no policy ever asks for a draft
    verifier  how children are sampled and verified; at temperature 0 it is `topk` over the draft's
              plain softmax instead, to which all verifiers then amount
    capacity  cache rows to allocate at first; more are made when needed
    score     a head's word on drafted tokens, for policies that look at it
    timed     wait for a GPU at the end of every draft pass and phase, so that their times are
              their own; without it only `total_ms` is right on a GPU
    logprobs  record of every emitted token the logarithm of its probability, in the target's
              distribution as it is sampled from

    The last committed token is the root of the next tree.  The target's cache holds all tokens
    before it; the draft's may lack some of them, which its next first pass reads.
    """

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel | None,
        *,
        verifier: Verifier,
        sampling: Sampling,
        rng: Source,
        capacity: int = 1024,
        score: Score | None = None,
        timed: bool = True,
        logprobs: bool = False,
    ) -> None:
        self.target = target
        self.draft = draft
        self.rng = rng
        self.tokens: list[int] = []
        self.tree: DraftTree | None = None  # the last step's, until the next one drafts
        self.max_positions = min(m.max_positions for m in (target, draft) if m is not None)
        self._sampling, self._draft_sampling = sampling, sampling.of_draft
        self._target_cache = target.new_cache(capacity)
        self._draft_cache = None if draft is None else draft.new_cache(capacity)
        self.score = score
        self._room = Room(target.device)
        self._timed = timed and target.device.type == "cuda"
        self._logprobs = logprobs
        self.use(verifier)

    def use(self, verifier: Verifier) -> None:
        """Sample and verify with `verifier` from the next step on; at temperature 0 with
        `GREEDY_VERIFIER`, whatever is asked for."""
        self._verifier = verifier_at(verifier, self._sampling)

    def prepare(self, most_nodes: int) -> None:
        """Let models that make ready for passes do so, for trees of up to so many nodes."""
        for model, cache in ((self.draft, self._draft_cache), (self.target, self._target_cache)):
            if isinstance(model, PreparedModel):
                assert cache is not None
                model.prepare(cache, most_nodes)

    def prefill(self, ids: Sequence[int]) -> float:
        """Start over with the text `ids` and read all of it but its last token, the first root.

        ids  at least one token, each inside the vocabulary

        Returns the milliseconds that it took.
        """
        return alone(self.prefilling(ids))

    def prefilling(self, ids: Sequence[int]) -> Asking[float]:
        """`prefill`, asking for its passes."""
        self.begin(ids)
        return (yield from self.reading())

    def begin(self, ids: Sequence[int]) -> None:
        """Start over with the text `ids`, of which nothing is read yet."""
        self.tokens = list(ids)
        self._target_cache.rewind(0)
        if self._draft_cache is not None:
            self._draft_cache.rewind(0)

    @property
    def num_unread(self) -> int:
        """Tokens before the root that the target has not read."""
        return len(self.tokens) - 1 - self._target_cache.length

    def reading(self, most: int | None = None) -> Asking[float]:
        """Read on in a text that was begun, up to its root.

        most  tokens to read now; None: all

        Returns the milliseconds that it took.
        """
        start, end = self.now(), len(self.tokens) - 1
        for model, cache in ((self.draft, self._draft_cache), (self.target, self._target_cache)):
            if model is not None and cache is not None:
                stop = end if most is None else min(end, cache.length + most)
                if stop > cache.length:
                    tokens = on_device(self.tokens[cache.length : stop], model.device)
                    places = torch.arange(cache.length, stop)
                    yield PassInput(model, tokens, places, cache, num_logits=0)
        return 1e3 * (self.now() - start)

    def step(self, policy: Policy, *, max_tokens: int | None = None) -> StepRecord:
        """One round: draft a tree, verify it, keep the accepted path.

        max_tokens  no use for more: the tree is grown no deeper than max_tokens - 1

        Emits 1 to depth + 1 tokens.  Raises PlannerError if the root has no position left.
        """
        return alone(self.stepping(policy, max_tokens=max_tokens))

    def stepping(self, policy: Policy, *, max_tokens: int | None = None) -> Asking[StepRecord]:
        """`step`, asking for its passes; times then include the wait for whoever shares them."""
        room = self.max_positions - len(self.tokens)
        if room < 0:
            raise PlannerError(
                f"text: got {len(self.tokens)} tokens, expected at most {self.max_positions} "
                "positions; start from a shorter text"
            )
        start = self.now()
        max_depth = room if max_tokens is None else min(room, max_tokens - 1)
        tree, draft_ms = yield from self._drafted(policy, max_depth)
        drafted = perf_counter()
        answer = yield self._verification(tree)
        nodes = range(tree.num_nodes)
        if self._sampling.is_greedy:
            held = self._held(self._sampling, tree, nodes, answer.logits.shape[-1])
            chosen = most_probable(answer.logits, self._sampling, held)
            verified = self.now()
            path, ranks, tokens = walked_greedily(tree, chosen)
            logprobs = (0.0,) * len(tokens) if self._logprobs else ()
        else:
            target_probs = self._distribution(answer.logits, self._sampling, tree, nodes)
            verified = self.now()
            path, ranks, tokens = walked(self._verifier, tree, target_probs, self.rng)
            logprobs = _logprobs(target_probs, path, tokens) if self._logprobs else ()
        self._keep(tree, path)
        self.tokens.extend(tokens)
        end = self.now()
        policy.verified(path, 1e3 * (end - start))
        return StepRecord(
            tokens=tuple(tokens),
            path=tuple(path),
            ranks=tuple(ranks),
            num_nodes=tree.num_nodes,
            depth=tree.depth,
            widths=tuple(tree.widths),
            draft_ms=tuple(draft_ms),
            grow_ms=1e3 * (drafted - start) - sum(draft_ms),
            verify_ms=1e3 * (verified - drafted),
            accept_ms=1e3 * (end - verified),
            total_ms=1e3 * (end - start),
            logprobs=logprobs,
        )

    def rewind(self, num_tokens: int) -> None:
        """Return to the text's first `num_tokens` tokens, as if no more had been decoded.

        The caches are exactly what they were then; the source of randomness goes on.
        """
        if not 1 <= num_tokens <= len(self.tokens):
            raise PlannerError(
                f"num_tokens: got {num_tokens}, expected 1 to {len(self.tokens)} tokens"
            )
        del self.tokens[num_tokens:]
        self._target_cache.rewind(num_tokens - 1)
        if self._draft_cache is not None:
            self._draft_cache.rewind(num_tokens - 1)

    def _drafted(self, policy: Policy, max_depth: int) -> Asking[tuple[DraftTree, list[float]]]:
        """The tree that the policy asks for, and the milliseconds of each draft pass."""
        tree = self.tree = DraftTree(self.tokens[-1], self._room)
        times: list[float] = []
        policy.start(max_depth)
        while requests := policy.grow():
            nodes = tree.add(requests)
            if nodes:
                start = perf_counter()
                answer = yield self._expansion(tree, nodes)
                seen = self._expand(tree, nodes, policy, answer)
                times.append(1e3 * (self.now() - start))
                if seen is not None:
                    policy.expanded(nodes, seen.drawn, seen.features)
        return tree, times

    def _expansion(self, tree: DraftTree, nodes: Sequence[int]) -> PassInput:
        """The draft pass over `nodes`, which join the draft's cache; with hidden states, if there
        is a head that they are for."""
        draft, cache = self.draft, self._draft_cache
        if draft is None or cache is None:
            raise PlannerError(
                "draft: got none, but the policy asks for drafted tokens; pass a draft model"
            )
        if self.score is not None and not isinstance(draft, HiddenModel):
            raise PlannerError(
                f"draft: got {draft.info.name}, which does not give its hidden states, but the "
                "plan stops by a head; pass a transformers model"
            )
        if tree.expanded:
            tokens, places = tree.tokens_of(nodes), tree.positions(len(self.tokens) - 1, nodes)
            visible = tree.visible(nodes, [*tree.expanded[1:], *nodes])
        else:  # all that the draft has not read yet, the root last
            tokens = on_device(self.tokens[cache.length :], draft.device)
            places = torch.arange(cache.length, len(self.tokens))
            visible = None
        hidden = self.score is not None
        return PassInput(draft, tokens, places, cache, visible, len(nodes), hidden)

    def _expand(
        self, tree: DraftTree, nodes: list[int], policy: Policy, answer: PassOutput
    ) -> Seen | None:
        """Draw below `nodes`: candidates, of which the policy is shown what it may see, or exactly
        the children that they have, of which there is nothing to be shown."""
        draft_probs = self._distribution(answer.logits, self._draft_sampling, tree, nodes)
        num = policy.num_candidates
        counts = tuple(num or len(tree.children[node]) for node in nodes)
        tokens, chosen = _sampled(self._verifier, draft_probs, counts, self.rng)
        tree.draw(nodes, draft_probs, counts, tokens, chosen)
        if num == 0:
            return None
        score = None
        if self.score is not None and answer.hidden is not None:
            score = self.score(answer.hidden)
        candidates, distinct = tokens.view(-1, num), self._verifier.distinct
        return shown(draft_probs, candidates, policy.columns, score, distinct=distinct)

    def _distribution(
        self, logits: Tensor, sampling: Sampling, tree: DraftTree, nodes: Sequence[int]
    ) -> Tensor:
        """float [len(nodes), V]: what `sampling` makes of the logits behind `nodes`."""
        held = self._held(sampling, tree, nodes, logits.shape[-1])
        return distribution(logits, sampling, held)

    def _held(
        self, sampling: Sampling, tree: DraftTree, nodes: Sequence[int], vocab_size: int
    ) -> Tensor | None:
        """bool [len(nodes), V]: the tokens that the text holds up to each node, where `sampling`
        wants to know."""
        if not sampling.penalizes:
            return None
        return held_at_nodes(self.tokens, tree, nodes, vocab_size)

    def _verification(self, tree: DraftTree) -> PassInput:
        """The target's pass over all nodes."""
        visible = None if tree.num_nodes == 1 else tree.visible_to_all()
        places = tree.positions(len(self.tokens) - 1)
        return PassInput(self.target, tree.tokens, places, self._target_cache, visible)

    def _keep(self, tree: DraftTree, path: list[int]) -> None:
        """Leave in the caches what the committed text needs; the rest of the tree goes."""
        prefix = len(self.tokens) - 1
        self._target_cache.keep_rows(prefix, [0, *path])
        if tree.expanded and self._draft_cache is not None:
            row_of = {node: row for row, node in enumerate(tree.expanded[1:])}
            rows = [row_of[node] for node in path if node in row_of]
            self._draft_cache.keep_rows(prefix + 1, rows)

    def now(self) -> float:
        """Seconds on the clock; of a GPU that is waited for, once it has done what it was given."""
        if self._timed:
            torch.cuda.synchronize(self.target.device)
        return perf_counter()


def _logprobs(
    target_probs: Tensor, path: Sequence[int], tokens: Sequence[int]
) -> tuple[float, ...]:
    """Log probabilities of a path's tokens and the bonus token; target_probs float [n, V]."""
    nodes, emitted = (on_device(each, target_probs.device) for each in ([0, *path], tokens))
    return tuple(target_probs[nodes, emitted].log().tolist())


def _sampled(
    verifier: Verifier, draft_probs: Tensor, counts: tuple[int, ...], rng: Source
) -> tuple[Tensor, Tensor | None]:
    """Tokens int64 [any] drawn from float [w, V], row after row, and int64 [sum(counts)]: the
    places of the counts[i] that row i is to have; None: they are all."""
    most = max(counts)
    if min(counts) == most:
        return verifier.sample(draft_probs, most, rng).reshape(-1), None
    drawn = verifier.sample(draft_probs, most, rng).reshape(-1)
    return drawn, _leading(counts, most, draft_probs.device)


@lru_cache(maxsize=4096)
def _leading(counts: tuple[int, ...], most: int, device: torch.device) -> Tensor:
    """Flat places of the first counts[i] entries of each row of a [w, most] array."""
    places = [row * most + np.arange(count) for row, count in enumerate(counts)]
    return torch.from_numpy(np.concatenate(places)).to(device, non_blocking=True)
