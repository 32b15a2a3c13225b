"""Plans in the terms of the engines that people serve with.

Acceptance under one way of drafting and verifying does not carry over to another, so an export is
planned anew for what its engine does, from the profile that the plan was made from.  Without that
profile a plan is exported as it is, where the engine can carry it out.
"""

from __future__ import annotations

from typing import Protocol

from ..documents.document import PlannerError
from ..documents.profile import Profile
from ..plans.plan import Plan
from .hugging_face import HuggingFace
from .llamacpp import LlamaCpp
from .llamacpp_costs import LlamaCppCosts
from .nvidia import NvidiaProfile
from .openvino import OpenVino
from .rank_paths import Paths
from .sglang import Sglang, SglangAdaptive, SglangTimes
from .sglang_additive import SglangAdditive
from .task import Export, Task
from .trtllm import TensorRT, TensorRTTree
from .vllm import Synthetic, Vllm, VllmTree

__all__ = ["ENGINES", "Engine", "Export", "export"]


class Engine(Protocol):
    """A program that serves: what it makes of a plan, and how it is told."""

    def export(self, task: Task) -> Export:
        """The task's plan in its terms.  Raises PlannerError for what it cannot carry out."""
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


def export(
    plan: Plan, engine: str, *, profile: Profile | None = None, draft: str | None = None
) -> Export:
    """`plan` as `engine` takes it.

    engine   one of `ENGINES`
    profile  that the plan was made from: what the engine cannot do is planned anew
    draft    what the engine is to call the draft model; None: as the plan does

    Raises PlannerError for an unknown engine, for a plan that it cannot carry out, where not to
    speculate is faster, and for a profile that the plan was not made from.
    """
    if engine not in ENGINES:
        raise PlannerError(f"engine: got {engine!r}, expected one of {', '.join(ENGINES)}")
    made_from = plan.made_from
    if profile and made_from and profile.fingerprint() != made_from.profile_sha256:
        raise PlannerError(
            "profile: got another one than the plan was made from (by its SHA-256); solve again "
            "with it, or give the other"
        )
    return ENGINES[engine].export(Task(engine, plan, profile, draft))
