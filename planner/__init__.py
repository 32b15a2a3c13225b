"""Espalier's planner: the vocabulary (Tree, Profile, Plan, Report) and its reading and writing.

Each name is imported when it is first asked for, so that `planner --help` answers at once.  Nothing
here needs torch.  The optimizer lives in `planner.optimizer`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .documents.errors import PlannerError
    from .documents.profile import Profile
    from .documents.tree import Tree
    from .plans.files import load, save
    from .plans.plan import Plan
    from .plans.report import Report

__all__ = ["Plan", "PlannerError", "Profile", "Report", "Tree", "load", "save"]

HOMES = {
    "PlannerError": "documents.errors",
    "Profile": "documents.profile",
    "Tree": "documents.tree",
    "load": "plans.files",
    "save": "plans.files",
    "Plan": "plans.plan",
    "Report": "plans.report",
}
"""Public name -> the module that it lives in."""


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
