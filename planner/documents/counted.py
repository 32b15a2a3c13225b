"""Numbers of things in words."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number with its noun: "1 level", "2 levels"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
