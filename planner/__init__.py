"""Espalier's planner: the vocabulary (Tree, Profile, Plan, Report) and its reading and writing.

Nothing here needs torch.  The optimizer lives in `planner.optimizer`.
"""

from .documents.document import PlannerError
from .documents.profile import Profile
from .documents.tree import Tree
from .plans.files import load, save
from .plans.plan import Plan
from .plans.report import Report

__all__ = ["Plan", "PlannerError", "Profile", "Report", "Tree", "load", "save"]
