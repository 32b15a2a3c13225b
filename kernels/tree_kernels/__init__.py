"""Attention of token trees, and the drawing of their nodes: tensors in, tensors out."""

# `dispatch` loads the module `tree_attention` first: its name in this package is then the function.
from .dispatch import (
    accept_walk,
    ancestor_bits,
    available,
    keep_rows_,
    shared_blocks,
    tree_attention,
    verify_walk,
)
from .verified import VerifiedTree

__all__ = [
    "VerifiedTree",
    "accept_walk",
    "ancestor_bits",
    "available",
    "keep_rows_",
    "shared_blocks",
    "tree_attention",
    "verify_walk",
]
