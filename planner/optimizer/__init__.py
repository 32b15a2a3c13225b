"""From a profile to a plan: estimates, proposals, grading, choice.  Offline, no GPU needed."""

from .acceptance import Evidence, Prediction, PromptMeans, Traces, expected_tokens, recorded
from .attained import acceptance_by_rank, optimum, share_of_optimum
from .choice import (
    GROUPS,
    GROWING_SOLVERS,
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
from .grading import Candidate, grade, grade_grown
from .growing import GrowingSolver, GrowthEstimates
from .law import AcceptanceLaw
from .problem import Estimates, Limits, Solver
from .replay import Played, Replays, replays_of
from .sequoia import best_tree, frontier
from .thresholds import PricedThresholds, priced_thresholds

__all__ = [
    "GROUPS",
    "GROWING_SOLVERS",
    "NO_SOLVER",
    "SOLVERS",
    "AcceptanceLaw",
    "Candidate",
    "Comparison",
    "Contest",
    "EstimatedAcceptance",
    "Estimates",
    "Evidence",
    "GrowingSolver",
    "GrowthEstimates",
    "Limits",
    "Played",
    "Prediction",
    "PricedThresholds",
    "PromptMeans",
    "Replays",
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
    "grade_grown",
    "optimal_acceptance",
    "optimum",
    "priced_thresholds",
    "rank_candidates",
    "ranked",
    "recorded",
    "replays_of",
    "sampling_at",
    "share_of_optimum",
    "solve",
    "step_costs",
]
