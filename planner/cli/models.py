"""Models by the names on the command line, and token ids of the prompts there.

Embedded names: `embedded/target`, `embedded/draft`, `embedded/draft-plain`, each with `@SHAPE`
behind it (`embedded/target@25M`) for the same function inflated to a larger shape.  The draft
`lookup` is no model but the text's own n-grams, and `MODEL+lookup` is a model with these beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ..documents.counted import counted
from ..documents.document import PlannerError
from ..documents.origin import BESIDE_LOOKUP, LOOKUP, looks_up
from ..documents.prompts import Prompt, read_prompts
from ..plans.plan import Plan
from . import options

if TYPE_CHECKING:
    from runtime.language_model import LanguageModel

TARGET, DRAFT, WEAK_DRAFT = "embedded/target", "embedded/draft", "embedded/draft-plain"
EMBEDDED = {TARGET: ("distilled", 0), DRAFT: ("distilled", 1), WEAK_DRAFT: ("plain", 1)}
"""Name -> (pair, which of the two)."""
PROMPTS = ("embedded/profile", "embedded/evaluation")
"""The embedded sets of prompts, token ids of the embedded tokenizer."""
NUM_EMBEDDED = 64
"""So many of a set, unless more or fewer are asked for."""


@dataclass(frozen=True)
class NamedPair:
    """The target and the draft of a command, as its options say, or else the plan it is given."""

    target: str | None
    draft: str | None
    device: str | None
    dtype: str | None
    attention: str
    threads: int | None
    plan: Plan | None = None
    target_memory: float | None = None
    tensor_parallel: int | None = None

    @cached_property
    def names(self) -> tuple[str, str]:
        return pair_names(self.target, self.draft, self.plan)

    @cached_property
    def tokenizer(self) -> Any:
        from runtime import embedded, loading

        name = self.names[0]
        return embedded.load_tokenizer() if is_embedded(name) else loading.load_tokenizer(name)

    def load(self) -> tuple[LanguageModel, LanguageModel]:
        """The target and the draft.  Raises PlannerError for a name that leads to none."""
        import torch

        from runtime.processes import num_launched

        dtype, memory, processes = self.dtype, self.target_memory, self.tensor_parallel
        if self.plan is not None and self.plan.made_from is not None:
            planned = self.plan.made_from.execution
            dtype = dtype or planned.dtype
            if memory is None:
                processes = processes or planned.tensor_parallel
            if memory is None and (processes or num_launched()) == 1:
                memory = planned.target_memory
        processes = processes or num_launched()
        usual = max(1, torch.get_num_threads() // processes)
        torch.set_num_threads(self.threads or free_threads(usual))
        load = partial(load_named, device=self.device, dtype=dtype, attention=self.attention)
        several = processes if processes > 1 else None
        target = load(self.names[0], memory=memory, num_processes=several)
        draft = self.names[1]
        if not any(is_embedded(each.removesuffix(BESIDE_LOOKUP)) for each in self.names):
            load = partial(load, drafts_for=self.names[0])
        if not looks_up(draft):
            return target, load(draft)
        from runtime.lookup import LookupBeside, LookupModel

        if draft == LOOKUP:
            return target, LookupModel(target)
        return target, LookupBeside(load(draft.removesuffix(BESIDE_LOOKUP)))

    def prompts(self, source: str, limit: int | None = None) -> list[list[int]]:
        """Token ids of the prompts in the file `source`, or of a set of `PROMPTS`, which goes
        through its text for another tokenizer than its own.

        limit  only the first so many; None: all in a file, 64 of a set

        Raises PlannerError naming the file and the line, and where a set has fewer.
        """
        if not source.startswith("embedded/"):
            return [self.encoded(prompt) for prompt in read_prompts(source)[:limit]]
        from runtime.embedded import load_prompts, load_tokenizer

        if source not in PROMPTS:
            known = ", ".join(PROMPTS)
            raise PlannerError(f"prompts: got {source!r}, expected a file or one of {known}")
        prompts = load_prompts(source.removeprefix("embedded/"), limit or NUM_EMBEDDED)
        if is_embedded(self.names[0]):
            return prompts
        own = load_tokenizer()
        return [self.encoded(own.decode(prompt)) for prompt in prompts]

    def encoded(self, prompt: Prompt) -> list[int]:
        """Token ids of one prompt, at least one.

        Raises PlannerError where none come out and for what is no Unicode: bytes on the command
        line that are no UTF-8, half of a surrogate pair in JSON.
        """
        if isinstance(prompt, list):
            return prompt
        if any("\ud800" <= character <= "\udfff" for character in prompt):
            raise PlannerError(f"prompt: got {prompt!r:.60}, expected text that is valid Unicode")
        ids = list(self.tokenizer(prompt, verbose=False)["input_ids"])  # lengths are checked here
        if not ids:
            raise PlannerError(f"prompt: got {prompt!r:.60}, expected text of at least one token")
        return ids


def free_threads(usual: int) -> int:
    """The usual number, or no more than there are cores that no other program holds: all threads
    of a pass wait for the one that has to share its core."""
    if usual == 1:
        return 1
    from profiler.disturbance import free_cores

    free = free_cores()
    threads = max(1, min(usual, round(free)))
    if threads < usual:
        options.say(
            f"note: other programs leave {max(free, 0.0):.1f} cores: {counted(threads, 'thread')} "
            f"instead of {usual}; --threads {usual} takes all"
        )
    return threads


def pair_names(target: str | None, draft: str | None, plan: Plan | None = None) -> tuple[str, str]:
    """Names of the target and the draft.

    One that is not given is the one that the plan was made for, else the embedded one.
    Raises PlannerError for an empty name: a shell's variable that was never set; and for a target
    that can only draft.
    """
    defaults = (TARGET, DRAFT)
    if plan is not None and plan.made_from is not None:
        defaults = (plan.made_from.target.name, plan.made_from.draft.name)
    names = defaults[0] if target is None else target, defaults[1] if draft is None else draft
    for role, name in zip(("target", "draft"), names, strict=True):
        if name in ("", BESIDE_LOOKUP):
            raise PlannerError(f"{role}: got an empty name, expected a hub id or a folder")
    if looks_up(names[0]):
        raise PlannerError(f"target: got {names[0]}, which only drafts, expected a model")
    return names


def load_named(
    name: str, *, device: str | None, dtype: str | None, attention: str, **others: Any
) -> LanguageModel:
    """The model called `name`, with what `load_model` is told besides, or, of the number of
    processes, `load_parallel`.

    Raises PlannerError for a name that leads to none.
    """
    import torch

    from runtime.loading import checked_device

    quiet_hub()
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = dtype or ("float32" if checked_device(device).type == "cpu" else "bfloat16")
    others = {word: value for word, value in others.items() if value is not None}
    load = _loader(name, set(others))
    return load(name, device=device, dtype=dtype, attention=attention, **others)


def _loader(name: str, told: set[str]) -> Callable[..., LanguageModel]:
    """The function that loads a model, which can be told this besides."""
    from runtime.loading import load_model
    from runtime.tensor_parallel import load_parallel

    if not is_embedded(name):
        if {"memory", "num_processes"} <= told:
            raise PlannerError(
                "target: got --target-memory and --tensor-parallel, expected one of them"
            )
        return load_parallel if "num_processes" in told else load_model
    if told:
        raise PlannerError(
            f"target: got {name}, which is made in memory, expected a model that was saved: only "
            "such a one can be read in parts"
        )
    return _load_embedded


def quiet_hub() -> None:
    """Silence the hub's library, which tells every attempt that fails; here it is the last one."""
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def is_embedded(name: str) -> bool:
    """True of a model that ships with the project.

    Raises PlannerError for one called so that does not: it is looked for nowhere else.
    """
    if name.split("@")[0] in EMBEDDED:
        return True
    if name.startswith("embedded/"):
        raise PlannerError(
            f"got {name!r}, expected one of {', '.join(EMBEDDED)} "
            "(with @SHAPE behind it to inflate it)"
        )
    return False


def _load_embedded(name: str, *, device: str, dtype: str, attention: str) -> LanguageModel:
    from transformers.utils import logging

    from runtime.embedded import pair_paths
    from runtime.loading import checked_attention, load_model, rounded, with_attention

    checked_attention(attention)
    base, at, shape = name.partition("@")
    pair, place = EMBEDDED[base]
    logging.disable_progress_bar()  # a bar for a few megabytes
    try:
        folder = pair_paths(pair)[place]
        computed_in = "float32" if dtype == "int8" else dtype
        module = load_model(folder, device=device, dtype=computed_in, attention="sdpa").module
    finally:
        logging.enable_progress_bar()
    if at:
        from runtime.embedded.inflate import inflate

        kind = module.dtype
        module = inflate(module.float(), like=shape, dtype=kind, device=module.device)
    return with_attention(rounded(module, dtype), attention, name=name)
