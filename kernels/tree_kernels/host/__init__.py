"""Compiled passes on the host: orders of a tree's nodes, its mask, what follows n-grams, rows that
a cache keeps, and layers of few rows."""
