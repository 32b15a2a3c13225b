"""SGLang: `sglang serve` with a draft model, or heads.

Read in the source of SGLang 0.5.23, and untried on a GPU:

- `--speculative-algorithm STANDALONE` with top-k 1 drafts chains of the draft's likeliest tokens,
  in every step as many as it was told, and so do heads with `EAGLE`, `EAGLE3` and `NEXTN`.  Drawn
  ones are not to be had with a draft model, and with heads not asked for
  (`--speculative-use-rejection-sampling` is for EAGLE).
- `srt/speculative/eagle_utils.py` verifies with `tree_speculative_sampling_target_only`, draft
  probabilities all zero and thresholds 1 unless others are given: a token is accepted with the
  chance that the target gives it.  That is `topk` with one child.  On a CPU, an XPU and ROCm the
  target's likeliest token is taken instead, whatever the temperature: plan for 0 there.
- `sglang:spec_verify_calls_total` (`srt/observability/metrics_collector.py`) is counted when a
  request ends, and stands on the page from the first one that speculated on.  Its other metrics of
  speculation are means over a window of time, of no use here.
- A request's seed is obeyed with `--enable-deterministic-inference` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

from planner.documents.engine import EngineFacts
from planner.export.sglang import ALGORITHMS, WITHOUT_MODEL, flags_of
from planner.policies import ConfidentDrafting, Drafting

from .completions import StreamedServer, cache_room, chain_facts, command_of, streaming
from .metrics_page import CounterNames
from .running_servers import ServedByName

COUNTERS = CounterNames(steps="sglang:spec_verify_calls_total")


class SglangServer(ServedByName):
    """`sglang serve` with a draft model or heads, or alone."""

    default = ConfidentDrafting(max_depth=3, confidence=0.0)
    batches = True
    version_page = ("server_info", "version")
    methods = ALGORITHMS
    without_model = WITHOUT_MODEL

    @cached_property
    def facts(self) -> EngineFacts:
        return chain_facts(self, "sglang", version_word="version")

    def told(self, drafting: Drafting) -> Mapping[str, object]:
        name = "speculative-num-steps"
        return {name: self._flags(drafting)[name]}

    def _flags(self, drafting: Drafting) -> dict[str, str | int | None]:
        return flags_of(drafting, self.files.draft or None, self.files.method)

    @contextmanager
    def started(self, drafting: Drafting | None, requests: int = 1) -> Iterator[StreamedServer]:
        command = [command_of("sglang", self.files), "serve", "--model-path", self.files.target]
        command += ["--context-length", str(self.context), "--disable-radix-cache"]
        room = cache_room(self.context, requests)
        command += ["--max-total-tokens", str(room), "--enable-metrics"]
        if drafting is not None:
            told = {name: each for name, each in self._flags(drafting).items() if each is not None}
            command += [word for name, value in told.items() for word in (f"--{name}", str(value))]
        counters = None if drafting is None else COUNTERS
        with streaming("sglang", command, self.files.options, counters) as server:
            yield server

    def answering(self, address: str, *, alone: bool) -> StreamedServer:
        return StreamedServer("sglang", address, COUNTERS, alone)
