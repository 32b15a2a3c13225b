"""From a profile to a plan: estimates, proposals, grading, choice.  Offline, no GPU needed."""

from .acceptance import Evidence, Prediction, PromptMeans, Traces, expected_tokens, recorded
from .attained import acceptance_by_rank, optimum, share_of_optimum
from .choice import (
    NO_SOLVER,
    SOLVERS,
    Contest,
    contests,
    rank_candidates,
    ranked,
    sampling_at,
    solve,
)
from .comparison import Comparison, compare
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
    "Comparison",
    "Contest",
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
    "acceptance_by_rank",
    "acceptance_rates",
    "best_tree",
    "compare",
    "contests",
    "estimated_acceptance",
    "expected_tokens",
    "frontier",
    "grade",
    "optimal_acceptance",
    "optimum",
    "rank_candidates",
    "ranked",
    "recorded",
    "sampling_at",
    "share_of_optimum",
    "solve",
    "step_costs",
]
