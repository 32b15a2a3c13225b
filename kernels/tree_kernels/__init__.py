"""Attention of token trees: tensors in, tensors out."""

from .reference import tree_attention

__all__ = ["tree_attention"]
