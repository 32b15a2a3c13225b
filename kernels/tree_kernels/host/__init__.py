"""Compiled passes on the host: orders of a tree's nodes, its mask, what follows n-grams, rows that
a cache keeps, and layers of few rows."""

from pathlib import Path

from .kept_code import forget_if_changed

forget_if_changed(Path(__file__).parent)
