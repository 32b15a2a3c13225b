"""Docstrings as Markdown: an aligned list of names and meanings becomes a list."""

from __future__ import annotations

import re
from typing import Any

import griffe

LINE = re.compile(r"^(`?[\w.,*() ]+?`?)\s{2,}(\S.*)$")


class AlignedLists(griffe.Extension):
    """Every paragraph whose first line is `name  meaning` (two blanks or more) becomes a list."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrites the docstring of one object; called by griffe."""
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(text: str) -> str:
    """The docstring with its aligned paragraphs as Markdown lists."""
    return "\n\n".join(as_list(paragraph) for paragraph in text.split("\n\n"))


def as_list(paragraph: str) -> str:
    """One paragraph; as it was, where it is prose, code, or indented as a formula."""
    lines = paragraph.split("\n")
    if not LINE.match(lines[0]) or lines[0].startswith((" ", ">>>")) or lines[0].endswith("."):
        return paragraph
    items: list[str] = []
    for line in lines:
        found = None if line.startswith(" ") else LINE.match(line)
        if found:
            items.append(f"- `{found[1].strip('`')}`: {found[2]}")
        elif line.startswith(" ") and items:
            items[-1] += " " + line.strip()
        else:
            return paragraph
    return "\n".join(items)
