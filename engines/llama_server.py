"""llama.cpp: its server decodes, its benchmark times passes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from planner.documents.document import PlannerError
from planner.documents.engine import EngineFacts
from planner.documents.sampling import Sampling
from planner.export.llamacpp import LOOKED_UP, OWN_METHODS, WITHOUT_MODEL, flags_of
from planner.policies import ConfidentDrafting, Drafting

from .asking import asked, at_once, is_healthy
from .process import cpu_ms, free_port, leaving_nothing, program, served
from .program import Answer, PassTimes
from .running_servers import ServedByName

LOOKED_AT = Sampling(temperature=1.0, top_k=10)
"""A chain is ended by the likeliest token's share of the draft's ten likeliest, whatever the
temperature that the target is sampled at (common/speculative.cpp, `draft-simple`)."""
SAMPLERS = ["temperature", "top_k", "top_p", "min_p"]
ADVICE = "build llama-server and llama-bench, and give their folder with --engine-path"
SHARED_OPTIONS = {
    "--flash-attn": "-fa",
    "--cache-type-k": "-ctk",
    "--cache-type-v": "-ctv",
    "--gpu-layers": "-ngl",
    "--n-gpu-layers": "-ngl",
    "--batch-size": "-b",
    "--ubatch-size": "-ub",
}
"""Options that the server and the benchmark share, each with a value: the server's long names, and
those that both have."""


class LlamaServer(ServedByName):
    """`llama-server` with a draft model (`draft-simple`), or another method."""

    default = ConfidentDrafting(max_depth=3, confidence=0.0)
    batches = True
    version_page = ("props", "build_info")
    methods = OWN_METHODS
    looked_up = tuple(LOOKED_UP)
    without_model = WITHOUT_MODEL

    @property
    def has_benchmark(self) -> bool:
        """Yes, but it does not time other methods' drafts, nor servers that run already."""
        return self.files.method is None and not self.files.servers

    @cached_property
    def facts(self) -> EngineFacts:
        for role, file in (("target", self.files.target), ("draft", self.files.draft)):
            is_needed = role == "target" or file or self.files.method is None
            if is_needed and not self.files.servers and not Path(file).is_file():
                raise PlannerError(f"engine-{role}: got {file}, expected a GGUF file of the {role}")
        if any(option.startswith("--spec-draft-sampling") for option in self.files.options):
            raise PlannerError(
                "engine-option: got --spec-draft-sampling, expected none: drafts are measured as "
                "their likeliest tokens, which is what it does by itself"
            )
        return EngineFacts(
            name="llamacpp",
            version=self._version(),
            verifier="topk",
            solvers=["chain", "confident"] if self.has_benchmark else ["chain"],
            most_tokens=self.files.most_tokens,
            confidence_of=LOOKED_AT if self.has_benchmark else None,
            method=self.files.method,
            target=self.files.target,
            draft=self.files.draft,
            place=self.files.place,
            servers=dict(self.files.servers),
            options=list(self.files.options),
            threads=self.files.threads,
        )

    def told(self, drafting: Drafting) -> Mapping[str, object]:
        flags = flags_of(drafting, self.files.method)
        names = ("n-max", "p-min", "size-m")
        return {name: value for name in names for key, value in flags.items() if key.endswith(name)}

    def started(
        self, drafting: Drafting | None, requests: int = 1
    ) -> AbstractContextManager[_Server]:
        return self._running(drafting, requests)

    def answering(self, address: str, *, alone: bool) -> _Server:
        return _Server(address, None)

    def accepting(self, drafting: Drafting, requests: int = 1) -> AbstractContextManager[_Server]:
        return self._running(drafting, requests, "--spec-synth-len", str(drafting.most_nodes))

    @contextmanager
    def _running(self, drafting: Drafting | None, requests: int, *more: str) -> Iterator[_Server]:
        address = f"http://127.0.0.1:{free_port()}"
        command = [self._program("llama-server"), "-m", self.files.target]
        command += ["--host", "127.0.0.1", "--port", address.rsplit(":", 1)[1]]
        command += ["-c", str(requests * self.context), "-np", str(requests)]
        command += self._threads("-t", "-tb")
        if drafting is not None:
            flags = flags_of(drafting, self.files.method)
            if self.files.draft:
                flags = {"spec-draft-model": self.files.draft, **flags}
            command += [word for name, value in flags.items() for word in (f"--{name}", str(value))]
            command += self._threads("-td", "-tbd")
        with served([*command, *more, *self.files.options], lambda: is_healthy(address)) as process:
            yield _Server(address, process)

    def passes(self, sizes: Sequence[int], *, context: int, repeats: int) -> PassTimes | None:
        if not self.has_benchmark:
            return None
        return PassTimes(
            *(
                self._bench(file, sizes, context, repeats)
                for file in (self.files.target, self.files.draft)
            )
        )

    def _bench(
        self, model: str, sizes: Sequence[int], context: int, repeats: int
    ) -> dict[int, list[float]]:
        command = [self._program("llama-bench"), "-m", model, "-n", "0", "-d", str(context)]
        command += ["-p", ",".join(map(str, sizes)), "-r", str(repeats), "-o", "json"]
        command += [*self._threads("-t"), *for_bench(self.files.options)]
        with leaving_nothing():
            done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
        try:
            rows = json.loads(done.stdout)
            return {row["n_prompt"]: [ns / 1e6 for ns in row["samples_ns"]] for row in rows}
        except (ValueError, KeyError, TypeError):
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1][:300]
            raise PlannerError(f"engine: llama-bench gave no times: {last}") from None

    def _program(self, name: str) -> str:
        return program(name, self.files.place, ADVICE)

    def _version(self) -> str:
        if self.files.servers:
            return self.version_there()
        said = subprocess.run(
            [self._program("llama-server"), "--version"], capture_output=True, text=True
        )
        version = re.search(r"version: (.*)", said.stderr + said.stdout)
        return version[1].strip() if version else "unknown"

    def _threads(self, *flags: str) -> list[str]:
        number = self.files.threads
        return [] if number is None else [word for each in flags for word in (each, str(number))]


@dataclass(frozen=True)
class _Server:
    address: str
    process: int | None
    """None: somewhere else."""

    def decode(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        requests: int = 1,
        *,
        num_tokens: int,
        seed: int,
    ) -> Answer:
        greedy = sampling.is_greedy
        wanted = {
            "prompt": list(prompt),
            "n_predict": num_tokens,
            "temperature": sampling.temperature,
            "top_k": 1 if greedy else sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "samplers": SAMPLERS[1::-1] if greedy else SAMPLERS,
            "cache_prompt": False,
            "ignore_eos": True,
            "return_tokens": True,
            "seed": seed,
        }
        before = cpu_ms(self.process)
        at_once(partial(self._post, {**wanted, "n_predict": 1}), requests)
        read = cpu_ms(self.process)
        answers = at_once(partial(self._post, wanted), requests)
        after = cpu_ms(self.process)
        try:
            timings = [answer["timings"] for answer in answers]
            accepted = sum(each.get("draft_n_accepted", 0) for each in timings)
            timed = sum(len(answer["tokens"]) - 1 for answer in answers)
            known = None if before is None or read is None or after is None else (
                (after - read) - (read - before)
            )  # fmt: skip
            return Answer(
                tokens=answers[0]["tokens"],
                num_timed=timed,
                num_steps=timed - accepted,
                num_drafted=sum(each.get("draft_n", 0) for each in timings),
                num_accepted=accepted,
                ms=sum(each["predicted_ms"] for each in timings),
                cpu_ms=known,
            )
        except (KeyError, TypeError):
            raise PlannerError(
                "engine: llama-server answered without tokens or timings; expected both, as of "
                "its versions since November 2026"
            ) from None

    def _post(self, content: dict[str, Any]) -> dict[str, Any]:
        with asked("llama-server", f"{self.address}/completion", content) as answer:
            return dict(json.load(answer))


def for_bench(options: Sequence[str]) -> list[str]:
    """The server's options that the benchmark knows too; it has no f32 caches."""
    named = {"off": "0", "on": "1"}
    known = SHARED_OPTIONS | {short: short for short in SHARED_OPTIONS.values()}
    kept = (
        (known[word], named.get(value, value)) for word, value in pairwise(options) if word in known
    )
    return [word for pair in kept if pair[1] != "f32" for word in pair]
