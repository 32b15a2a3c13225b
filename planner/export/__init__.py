"""Plans in the terms of the engines that people serve with.

Acceptance under one way of drafting and verifying does not carry over to another, so an export is
planned anew for what its engine does, from the profile that the plan was made from.  Without that
profile a plan is exported as it is, where the engine can carry it out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ..documents.document import PlannerError
from ..documents.profile import Profile
from ..documents.sampling import Sampling
from ..plans.plan import Plan
from . import llamacpp, sglang, vllm
from .engine_lookup import LOOKUPS, check_told
from .hugging_face import HuggingFace
from .llamacpp import LlamaCpp
from .llamacpp_costs import LlamaCppCosts
from .nvidia import NvidiaProfile
from .openvino import OpenVino
from .rank_paths import Paths
from .setting import Reading, Setting, setting
from .sglang import Sglang, SglangAdaptive, SglangTimes
from .sglang_additive import SglangAdditive
from .task import Export, Task
from .trtllm import TensorRT, TensorRTTree
from .vllm import Synthetic, Vllm, VllmTree

__all__ = ["ENGINES", "READERS", "Engine", "Export", "Import", "export", "read"]


class Engine(Protocol):
    """A program that serves: what it makes of a plan, and how it is told."""

    def export(self, task: Task) -> Export:
        """The task's plan in its terms.  Raises PlannerError for what it cannot carry out."""
        ...


@runtime_checkable
class Reader(Protocol):
    """An engine whose setting can be read back."""

    def read(self, setting: Setting) -> Reading:
        """The setting in our terms.  Raises PlannerError for what no plan says."""
        ...


ENGINES: dict[str, Engine] = {
    "vllm": Vllm(),
    "vllm-tree": VllmTree(),
    "sglang": Sglang(),
    "sglang-adaptive": SglangAdaptive(),
    "sglang-sps": SglangTimes(),
    "sglang-sps-additive": SglangAdditive(),
    "trtllm": TensorRT(),
    "trtllm-tree": TensorRTTree(),
    "medusa": Paths(
        "a head of Medusa drafts one level: the tree needs as many as it has levels",
        "Medusa's own typical acceptance is not lossless at temperatures above 0",
    ),
    "eagle": Paths(),
    "llamacpp": LlamaCpp(),
    "llamacpp-costs": LlamaCppCosts(),
    "openvino": OpenVino(),
    "hf": HuggingFace(),
    "synthetic": Synthetic(),
    "nvidia-profile": NvidiaProfile(),
}
METHODS = {"vllm": vllm.OWN_METHODS, "sglang": sglang.ALGORITHMS, "llamacpp": llamacpp.OWN_METHODS}
"""Words of engines for the methods that they can be told to draft by."""
OF_VLLM = {"synthetic": "vllm"}
"""Exports for vLLM that are not called so."""
WITHOUT_MIN_P = ("vllm", "vllm-tree", "synthetic")
"""Exports for vLLM, which refuses requests with it while it speculates."""
MIN_P_UNSURE = ("sglang", "sglang-adaptive")
"""Exports of drafts for SGLang, of which versions were seen that verify without it."""
MATCHED = (
    "the draft's own vocabulary is another, which this runtime matches to the target's; an engine "
    "may refuse the pair: vLLM asks for equal sizes, llama.cpp for at most 128 tokens' difference"
)
"""A note on drafts that engines load by themselves."""
READERS = {name: engine for name, engine in ENGINES.items() if isinstance(engine, Reader)}
"""The part of `ENGINES` that reads, too."""


@dataclass(frozen=True)
class Import:
    """An engine's setting as a plan, and what to know of it."""

    plan: Plan
    notes: list[str]


def export(
    plan: Plan, engine: str, *, profile: Profile | None = None, draft: str | None = None
) -> Export:
    """`plan` as `engine` takes it.

    engine   one of `ENGINES`
    profile  that the plan was made from: what the engine cannot do is planned anew
    draft    what the engine is to call the draft model; None: as the plan does

    Raises PlannerError for an unknown engine, for a plan that it cannot carry out, where not to
    speculate is faster, for a profile that the plan was not made from, for a draft with a
    temperature of its own, for a min-p that the engine refuses, and for look-up drafts where it
    cannot be told to look up.
    """
    if engine not in ENGINES:
        raise PlannerError(f"engine: got {engine!r}, expected one of {', '.join(ENGINES)}")
    if plan.sampling.draft_temperature is not None:
        raise PlannerError(
            f"plan: got one whose draft has a temperature of its own ({plan.sampling}), which no "
            "engine can be told; profile without --draft-temperature"
        )
    made_from = plan.made_from
    if profile and made_from and profile.fingerprint() != made_from.profile_sha256:
        raise PlannerError(
            "profile: got another one than the plan was made from (by its SHA-256); solve again "
            f"with it, or give the other{' and its --costs' if made_from.costs_from else ''}"
        )
    check_min_p(engine, plan.sampling)
    task, source = Task(engine, plan, profile, draft), made_from or profile
    _check_method(task)
    made_by = ENGINES[engine]
    if source is not None:
        check_told(source.draft.name, engine)
        if source.draft.is_lookup and engine in LOOKUPS:
            made_by = LOOKUPS[engine]
    made = made_by.export(task)
    notes = [*made.notes, *_about_options(task), *_about_sampling(engine, plan.sampling)]
    matched = source.draft.matched_from if source is not None else None
    return replace(made, notes=notes if matched is None else [*notes, MATCHED])


def _check_method(task: Task) -> None:
    """Raise PlannerError for what one engine counted of its own drafting, where another is told."""
    if task.method is None:
        return
    known = METHODS.get(task.timed_program, ())
    if task.method not in known:
        raise PlannerError(
            f"plan: made_from.engine.method: got {task.method}, expected {', '.join(known)}"
        )
    told = OF_VLLM.get(task.engine, task.engine.split("-")[0])
    if told not in (task.timed_program, "nvidia"):
        raise PlannerError(
            f"plan: got one for {task.method} as {task.timed_program} drafts and counts it, which "
            f"says nothing of {task.engine}; profile that engine, or export to {task.timed_program}"
        )


def check_min_p(engine: str, sampling: Sampling) -> None:
    """Raise PlannerError where an engine that speculates refuses requests with such a min-p.

    vLLM does: `SamplingParams._validate_spec_decode` there.
    """
    if engine in WITHOUT_MIN_P and sampling.min_p > 0 and not sampling.is_greedy:
        raise PlannerError(
            f"min-p: got {sampling.min_p:g}, expected none: vLLM refuses requests with it while it "
            "speculates; profile and plan without --min-p"
        )


def _about_options(task: Task) -> list[str]:
    """A note on what the engine was told besides while it was measured."""
    if not task.options:
        return []
    return [f"measured with {' '.join(task.options)}: give {task.timed_program} that, too"]


def _about_sampling(engine: str, sampling: Sampling) -> list[str]:
    """Notes on what requests have to say, and on what an engine may not keep to."""
    notes = []
    if sampling.penalizes:
        notes.append(
            f"acceptance is that under a repetition penalty of {sampling.repetition_penalty:g} on "
            "target and draft alike: send it with every request; an engine that leaves the draft "
            "without it accepts less"
        )
    if engine in MIN_P_UNSURE and sampling.min_p > 0 and not sampling.is_greedy:
        notes.append(
            "versions of SGLang were seen that verify without min-p: it does not cut texts there, "
            "and acceptance is another than was planned with"
        )
    return notes


def read(engine: str, words: str, sampling: Sampling, *, batch_size: int = 1) -> Import:
    """The plan that a setting of `engine` amounts to; nothing is predicted of it.

    engine      one of `READERS`
    words       a file, or the setting itself: JSON, YAML, flags
    sampling    that it serves with, which most engines are told with every request
    batch_size  that it serves at, where lengths are by batch size

    Raises PlannerError for what cannot be read, and for what no plan says.
    """
    if engine not in READERS:
        raise PlannerError(f"engine: got {engine!r}, expected one of {', '.join(READERS)}")
    given = setting(engine, words, sampling, batch_size)
    reading = READERS[engine].read(given)
    notes, ignored = list(reading.notes), given.ignored()
    if ignored:
        notes.append(f"ignored, not about speculation: {', '.join(ignored)}")
    plan = Plan(drafting=reading.drafting, verifier=reading.verifier, sampling=sampling)
    return Import(plan, notes)
