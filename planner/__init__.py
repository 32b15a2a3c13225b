"""Espalier's planner: the vocabulary (Tree, Profile, Plan, Report) and its reading and writing.

Nothing here needs torch.  The optimizer lives in `planner.optimizer`.
"""

from .documents import load, save
from .plan import Plan
from .profile import Profile
from .report import Report
from .schema import PlannerError
from .tree import Tree

__all__ = ["Plan", "PlannerError", "Profile", "Report", "Tree", "load", "save"]
