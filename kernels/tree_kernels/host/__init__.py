"""Compiled passes on the host: orders of a tree's nodes, its mask, one search."""
