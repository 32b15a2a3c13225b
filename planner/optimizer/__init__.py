"""From a profile to a plan: estimates, proposals, grading, choice.  Offline, no GPU needed."""

from .acceptance import Evidence, Prediction, PromptMeans, Traces, expected_tokens, recorded
from .choice import NO_SOLVER, SOLVERS, rank_candidates, solve
from .cost import StepCosts, Time, TimeTable, step_costs
from .couplings import (
    EstimatedAcceptance,
    acceptance_rates,
    estimated_acceptance,
    optimal_acceptance,
)
from .grading import Candidate, grade
from .law import AcceptanceLaw
from .problem import Estimates, Limits, Solver
from .sequoia import best_tree, frontier

__all__ = [
    "NO_SOLVER",
    "SOLVERS",
    "AcceptanceLaw",
    "Candidate",
    "EstimatedAcceptance",
    "Estimates",
    "Evidence",
    "Limits",
    "Prediction",
    "PromptMeans",
    "Solver",
    "StepCosts",
    "Time",
    "TimeTable",
    "Traces",
    "acceptance_rates",
    "best_tree",
    "estimated_acceptance",
    "expected_tokens",
    "frontier",
    "grade",
    "optimal_acceptance",
    "rank_candidates",
    "recorded",
    "solve",
    "step_costs",
]
