"""transformers' own assisted generation, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from time import perf_counter, process_time
from typing import Any

import torch

from planner.documents.document import PlannerError
from planner.documents.engine import EngineFacts
from planner.documents.sampling import Sampling
from planner.export.hugging_face import settings_of
from planner.policies import Drafting, DynamicDrafting
from runtime.loading import load_model

from .program import Answer, PassTimes, ToldByName


class AssistedGeneration(ToldByName):
    """`generate` with an `assistant_model`, one request at a time."""

    default = DynamicDrafting(max_depth=20, num_tokens=20, confidence=0.4)

    @property
    def has_benchmark(self) -> bool:
        """Its modules' passes are timed here."""
        return True

    @cached_property
    def facts(self) -> EngineFacts:
        import transformers

        return EngineFacts(
            name="hf",
            version=f"transformers {transformers.__version__}, torch {torch.__version__}",
            verifier="chain",
            solvers=["chain", "assisted-tuned"],
            most_tokens=self.files.most_tokens,
            target=self.files.target,
            draft=self.files.draft,
            threads=self.files.threads,
        )

    def told(self, drafting: Drafting) -> Mapping[str, object]:
        return settings_of(drafting)

    @contextmanager
    def running(self, drafting: Drafting | None, requests: int = 1) -> Iterator[AssistedText]:
        target, draft = self._modules
        yield AssistedText(target, draft, None if drafting is None else settings_of(drafting))

    def passes(self, sizes: Sequence[int], *, context: int, repeats: int) -> PassTimes:
        found = PassTimes({size: [] for size in sizes}, {size: [] for size in sizes})
        for _ in range(repeats):
            for module, rows in zip(self._modules, found, strict=True):
                for size in sizes:
                    rows[size].append(_pass_ms(module, size, context))
        return found

    @cached_property
    def _modules(self) -> tuple[Any, Any]:
        if self.files.threads is not None:
            torch.set_num_threads(self.files.threads)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = "bfloat16" if device == "cuda" else "float32"
        load = partial(load_model, device=device, dtype=dtype, attention="sdpa")
        target, draft = self.files.target, self.files.draft
        return load(target).module, load(draft, drafts_for=target).module


@dataclass(frozen=True)
class AssistedText:
    """`generate` of two modules, with these `settings` of the draft's, or None: without it."""

    target: Any
    draft: Any
    settings: dict[str, str | int | float] | None

    def decode(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        requests: int = 1,
        *,
        num_tokens: int,
        seed: int,
    ) -> Answer:
        torch.manual_seed(seed)
        chances: dict[str, Any] = {"do_sample": False}
        if not sampling.is_greedy:
            chances = {
                "do_sample": True,
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
                "min_p": sampling.min_p or None,
            }
        chances["repetition_penalty"] = 1.0  # a model's own would stand in for it
        assisted: dict[str, Any] = {}
        if self.settings is not None:
            for name, value in self.settings.items():
                setattr(self.draft.generation_config, name, value)
            assisted["assistant_model"] = self.draft
        ids = torch.tensor([list(prompt)], device=self.target.device)
        noted = _Passes()
        hooks = (
            self.target.register_forward_pre_hook(noted.before, with_kwargs=True),
            self.target.register_forward_hook(noted.after),
        )
        try:
            made = self.target.generate(
                ids, max_new_tokens=num_tokens, min_new_tokens=num_tokens, **chances, **assisted
            )
        except (RuntimeError, ValueError) as error:
            raise PlannerError(f"engine: transformers failed: {str(error)[:300]}") from None
        finally:
            for hook in hooks:
                hook.remove()
        wall, cpu = perf_counter(), process_time()
        tokens = made[0, ids.shape[1] :].tolist()
        first = noted.lengths[1] - len(prompt) + 1 if len(noted.lengths) > 1 else len(tokens)
        steps = len(noted.lengths) - 1
        timed = len(tokens) - first
        return Answer(
            tokens=tokens,
            num_timed=timed,
            num_steps=steps,
            num_drafted=0,
            num_accepted=timed - steps,
            ms=1e3 * (wall - noted.first[0]),
            cpu_ms=1e3 * (cpu - noted.first[1]),
        )


@dataclass
class _Passes:
    """Notes on the target's passes: tokens in the cache before each, and when the first ended."""

    lengths: list[int] = field(default_factory=list)
    first: tuple[float, float] = (0.0, 0.0)

    def before(self, module: Any, arguments: Any, named: dict[str, Any]) -> None:
        cache = named.get("past_key_values")
        self.lengths.append(0 if cache is None else int(cache.get_seq_length()))

    def after(self, module: Any, arguments: Any, output: Any) -> None:
        if len(self.lengths) == 1:
            _wait_for(module)
            self.first = perf_counter(), process_time()


@torch.inference_mode()
def _pass_ms(module: Any, size: int, context: int) -> float:
    """One pass over `size` tokens behind `context` others."""
    ids = torch.zeros((1, context + size), dtype=torch.long, device=module.device)
    cache = module(ids[:, :context], use_cache=True).past_key_values
    _wait_for(module)
    start = perf_counter()
    module(ids[:, context:], past_key_values=cache, use_cache=True).logits.cpu()
    return 1e3 * (perf_counter() - start)


def _wait_for(module: Any) -> None:
    """Wait until a GPU has done what it was given: what comes next is timed."""
    if module.device.type == "cuda":
        torch.cuda.synchronize(module.device)
