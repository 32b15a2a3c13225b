"""OpenVINO GenAI: its pipeline in this process, with a draft model or without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import process_time
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from planner.documents.document import PlannerError
from planner.documents.engine import EngineFacts
from planner.documents.sampling import Sampling
from planner.export.openvino import settings_of
from planner.policies import Drafting, TreeDrafting

from .program import Answer, ToldByName

PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
"""Unless others are asked for: in narrower types texts change."""
CACHE_GB = 1


class OpenVinoPipeline(ToldByName):
    """`LLMPipeline`, one request at a time, greedy.

    Where the target samples, OpenVINO GenAI does not follow its distribution: a drafted token is
    accepted by chance q(drafted) / p(another token, drawn from the target), and after a rejection
    the next row of logits is drawn from (`validate_candidate` in its sampler.cpp, 2026.4; its
    output shows it too: tests/engines/test_openvino.py).
    """

    default = TreeDrafting(parents=[-1, *range(5)])

    @cached_property
    def facts(self) -> EngineFacts:
        for role, folder in (("target", self.files.target), ("draft", self.files.draft)):
            if not (Path(folder) / "openvino_model.xml").is_file():
                raise PlannerError(
                    f"engine-{role}: got {folder}, expected a folder with openvino_model.xml, as "
                    "optimum-cli export openvino writes it"
                )
        return EngineFacts(
            name="openvino",
            version=str(_package().get_version()),
            verifier="topk",
            greedy_only=True,
            solvers=["chain"],
            most_tokens=self.files.most_tokens,
            target=self.files.target,
            draft=self.files.draft,
            options=list(self.files.options),
            threads=self.files.threads,
        )

    def told(self, drafting: Drafting) -> Mapping[str, object]:
        return settings_of(drafting)

    @contextmanager
    def running(self, drafting: Drafting | None, requests: int = 1) -> Iterator[_Pipeline]:
        drafts = drafting is not None
        settings = {} if drafting is None else settings_of(drafting)
        asked = _Pipeline(self._started.get(drafts) or self._start(drafts), settings)
        self._started[drafts] = asked.pipeline
        try:
            yield asked
        finally:
            asked.pipeline = None  # whoever still holds `asked` would keep it running

    @cached_property
    def _started(self) -> WeakValueDictionary[bool, Any]:
        """Pipelines that run now, by whether they have a draft: how long a chain is, every request
        says for itself."""
        return WeakValueDictionary()

    def _start(self, drafts: bool) -> Any:
        genai = _package()
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GB
        scheduler.enable_prefix_caching = False
        more: dict[str, Any] = {"scheduler_config": scheduler, **self._properties}
        try:
            if drafts:
                more["draft_model"] = genai.draft_model(self.files.draft, "CPU", **self._properties)
            return genai.LLMPipeline(self.files.target, "CPU", **more)
        except RuntimeError as error:
            raise PlannerError(f"engine: openvino does not start: {_line(error)}") from None

    @property
    def _properties(self) -> dict[str, Any]:
        named = dict(word.split("=", 1) for word in self.files.options if "=" in word)
        threads = self.files.threads
        return PROPERTIES | ({} if threads is None else {"INFERENCE_NUM_THREADS": threads}) | named


@dataclass
class _Pipeline:
    """The pipeline's own record says what every step emitted and how long it took.

    Its first step reads the prompt; all are counted that begin behind that, and before the text's
    end.  What the last of them emits behind the end is of no use, and is not counted, as in a text
    that ends by itself.  Its number of accepted tokens leaves out the last step's (2026.4).
    """

    pipeline: Any
    settings: dict[str, int | float]

    def decode(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        requests: int = 1,
        *,
        num_tokens: int,
        seed: int,
    ) -> Answer:
        if not sampling.is_greedy:
            raise PlannerError(
                f"sampling: got {sampling}, expected temperature 0: where OpenVINO GenAI samples "
                "with a draft, its text does not follow the target's distribution"
            )
        # its last chains would be shorter, and take less: it has room for one behind the text
        longest = 1 + int(self.settings.get("num_assistant_tokens", 0))
        answer, cpu = self._generate(prompt, num_tokens + longest)
        raw = answer.perf_metrics.raw_metrics
        ms = np.array(raw.token_infer_durations) / 1e3
        counts = np.array(raw.m_batch_sizes)
        begins = np.cumsum(counts) - counts
        timed = (begins > 0) & (begins < num_tokens)
        num_steps = int(timed.sum())
        return Answer(
            tokens=[int(token) for token in answer.tokens[0][:num_tokens]],
            num_timed=num_tokens - int(counts[0]),
            num_steps=num_steps,
            num_drafted=num_steps * (longest - 1),
            num_accepted=int(counts[timed].sum()) - num_steps,
            ms=float(ms[timed].sum()),
            cpu_ms=cpu * float(ms[timed].sum() / ms.sum()),
        )

    def _generate(self, prompt: Sequence[int], num_tokens: int) -> tuple[Any, float]:
        """The answer, and milliseconds of all threads."""
        import openvino

        config = _package().GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = num_tokens, True, False
        for name, value in self.settings.items():
            setattr(config, name, value)
        ids = openvino.Tensor(np.array([list(prompt)], dtype=np.int64))
        cpu = process_time()
        try:
            answer = self.pipeline.generate(ids, config)
        except RuntimeError as error:
            raise PlannerError(f"engine: openvino failed: {_line(error)}") from None
        return answer, 1e3 * (process_time() - cpu)


def _package() -> Any:
    try:
        import openvino_genai
    except ImportError:
        raise PlannerError(
            "engine: openvino_genai is not installed; pip install openvino-genai"
        ) from None
    return openvino_genai


def _line(error: Exception) -> str:
    return next((line for line in reversed(str(error).splitlines()) if line.strip()), "")[:300]
