"""vLLM: `vllm serve` with a draft model, or another method of its own.

Read in the source of vLLM 0.33.0, and untried on a GPU:

- `method: draft_model` drafts chains.  With `draft_sample_method: greedy`, the default, a drafted
  token is the draft's likeliest.
- `v1/sample/rejection_sampler.py` then takes the chance with which it was drafted for 1
  (`NO_DRAFT_PROBS`), and accepts it with the chance that the target gives it; what stands in for a
  rejected one is drawn from the target's distribution without it.  The newer runner's, in
  `v1/worker/gpu/spec_decode/rejection_sampler_utils.py`, does the same (`HAS_DRAFT_LOGITS`).  A
  token is accepted as often where the target's own draw is the same: that is `topk` with one child,
  and the text follows the target's distribution.  Where greedy, the target's likeliest is accepted.
- `v1/spec_decode/metrics.py` counts what `COUNTERS` names, in steps with drafted tokens alone;
  tokens accepted behind the end of a text are counted too.
- So it is with the heads of `eagle`, `eagle3`, `mtp` and others, and with what `ngram` copies: a
  token is drafted as the likeliest one, or without any distribution.
- `rejection_sample_method: synthetic` is not used here: a step takes as long whatever is accepted,
  so that times are of the same texts that a check decodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

from planner.documents.engine import EngineFacts
from planner.export.notations import as_json
from planner.export.vllm import LOOKED_UP, OWN_METHODS, WITHOUT_MODEL, settings_of
from planner.policies import ConfidentDrafting, Drafting

from .completions import StreamedServer, cache_room, chain_facts, command_of, streaming
from .metrics_page import CounterNames
from .running_servers import ServedByName

COUNTERS = CounterNames(
    steps="vllm:spec_decode_num_drafts_total",
    drafted="vllm:spec_decode_num_draft_tokens_total",
    accepted="vllm:spec_decode_num_accepted_tokens_total",
)
SHARE = "0.45"
"""Share of the GPU's memory that has to be free when a server starts, unless another is asked for:
two or more run at a time."""
BLOCK = 16
"""Tokens in a block of the cache, at least."""
EXAMPLE = 5
"""Tokens that are drafted in its documentation's example; it has no default."""


class VllmServer(ServedByName):
    """`vllm serve` with a draft model or another method, or alone."""

    default = ConfidentDrafting(max_depth=EXAMPLE, confidence=0.0)
    batches = True
    version_page = ("version", "version")
    methods = OWN_METHODS
    looked_up = tuple(LOOKED_UP)
    without_model = WITHOUT_MODEL

    @cached_property
    def facts(self) -> EngineFacts:
        return chain_facts(self, "vllm", version_word="--version")

    def told(self, drafting: Drafting) -> Mapping[str, object]:
        name = "num_speculative_tokens"
        return {name: self._settings(drafting)[name]}

    def _settings(self, drafting: Drafting) -> dict[str, object]:
        return settings_of(drafting, self.files.draft or None, method=self.files.method)

    @contextmanager
    def started(self, drafting: Drafting | None, requests: int = 1) -> Iterator[StreamedServer]:
        command = [
            command_of("vllm", self.files),
            "serve",
            self.files.target,
            "--no-enable-prefix-caching",
        ]
        command += ["--max-model-len", str(self.context), "--gpu-memory-utilization", SHARE]
        command += ["--num-gpu-blocks-override", str(cache_room(self.context, requests) // BLOCK)]
        if drafting is not None:
            command += ["--speculative-config", as_json(self._settings(drafting)).strip()]
        counters = None if drafting is None else COUNTERS
        with streaming("vllm", command, self.files.options, counters) as server:
            yield server

    def answering(self, address: str, *, alone: bool) -> StreamedServer:
        return StreamedServer("vllm", address, COUNTERS, alone)
