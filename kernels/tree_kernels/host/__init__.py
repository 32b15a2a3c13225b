"""Compiled passes on the host: orders of a tree's nodes, its mask, and what follows n-grams."""
