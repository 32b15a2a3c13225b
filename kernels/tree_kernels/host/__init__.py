"""Compiled passes on the host: orders of a tree's nodes, its mask, what follows n-grams, and layers
of few rows."""
