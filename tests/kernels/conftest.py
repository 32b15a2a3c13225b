"""Interpreted kernels are collected by a process of their own: see test_interpreter.py."""

from tree_kernels.backend import interpreted

collect_ignore = [] if interpreted() else ["interpreted"]
