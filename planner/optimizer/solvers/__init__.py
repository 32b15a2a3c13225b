"""Solvers, which say what is worth trying: one class and one row a solver."""

from __future__ import annotations

from ..problem import Solver
from .assisted import AssistedSolver, ConfidentSolver, TunedAssistedSolver
from .dyspec import DySpecSolver
from .pricing import PriceSolver
from .sequoia import NarrowSolver, SequoiaSolver
from .simple_trees import ChainSolver, IndependentSolver, KarySolver
from .specdecpp import SpecDecSolver
from .uniform import UniformSolver

SOLVERS: dict[str, Solver] = {
    "chain": ChainSolver(),
    "kary": KarySolver(),
    "independent": IndependentSolver(),
    "sequoia": SequoiaSolver(),
    "narrow": NarrowSolver(),
    "dyspec": DySpecSolver(),
    "specdecpp": SpecDecSolver(),
    "assisted": AssistedSolver(),
    "price": PriceSolver(),
    "assisted-tuned": TunedAssistedSolver(),
    "confident": ConfidentSolver(),
    "uniform": UniformSolver(),
}
"""A tree that several propose counts for the first of them."""
