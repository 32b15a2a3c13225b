"""The way from a profile to a plan: estimates, proposals, grading, choice.  No GPU needed."""

from ..estimates.evidence import expected_tokens
from ..trees.frontier import best_tree, frontier
from ..verifiers.rates import acceptance_rates, optimal_acceptance
from .choice import Question, rank_candidates, solve

__all__ = [
    "Question",
    "acceptance_rates",
    "best_tree",
    "expected_tokens",
    "frontier",
    "optimal_acceptance",
    "rank_candidates",
    "solve",
]
