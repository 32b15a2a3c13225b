"""The picture of the rooms, from the imports that are allowed; a line a module, from docstrings.

`<!-- rooms -->` becomes the picture, `<!-- modules -->` a line for each module.
"""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
WIDTH, HEIGHT, GAP_ACROSS, GAP_DOWN = 118, 40, 22, 44


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page, with picture and list where the marks were; called by mkdocs."""
    if "<!-- rooms -->" in markdown:
        markdown = markdown.replace("<!-- rooms -->", picture(arrows()))
    return markdown.replace("<!-- modules -->", "\n".join(module_lines()))


def arrows() -> dict[str, set[str]]:
    """Room -> rooms that it may import: the table `INSIDE` of tests/test_arrows.py, read unrun."""
    tree = ast.parse((ROOT / "tests/test_arrows.py").read_text())
    wanted = {"OUTSIDE", "VOCABULARY", "INSIDE"}
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in wanted:
            exec(compile(ast.Module([node], []), "arrows", "exec"), found)
    return {room: set(others) - {room} for room, others in found["INSIDE"].items()}


def direct(allowed: dict[str, set[str]]) -> dict[str, set[str]]:
    """The arrows that no longer way round replaces."""
    reached: dict[str, set[str]] = {}
    for room in TopologicalSorter(allowed).static_order():
        reached[room] = set(allowed[room]).union(*(reached[each] for each in allowed[room]))
    return {
        room: {each for each in below if not any(each in reached[other] for other in below)}
        for room, below in allowed.items()
    }


def floors(allowed: dict[str, set[str]]) -> list[list[str]]:
    """Rooms by the longest way down, the ones that import nothing last."""
    floor: dict[str, int] = {}
    for room in TopologicalSorter(allowed).static_order():
        floor[room] = 1 + max((floor[each] for each in allowed[room]), default=-1)
    return [[r for r in allowed if floor[r] == f] for f in range(max(floor.values()), -1, -1)]


def picture(allowed: dict[str, set[str]]) -> str:
    """SVG: a box for each room, a line down to each room that it imports directly."""
    rows = floors(allowed)
    most = max(len(row) for row in rows)
    width = most * (WIDTH + GAP_ACROSS) + GAP_ACROSS
    height = len(rows) * (HEIGHT + GAP_DOWN)
    place = {}
    for down, row in enumerate(rows):
        left = (width - len(row) * (WIDTH + GAP_ACROSS) + GAP_ACROSS) / 2
        for across, room in enumerate(row):
            place[room] = (left + across * (WIDTH + GAP_ACROSS), 8 + down * (HEIGHT + GAP_DOWN))
    parts = []
    for room, below in direct(allowed).items():
        for other in sorted(below):
            (x, y), (to_x, to_y) = place[room], place[other]
            start, end = f"{x + WIDTH / 2:.0f}", f"{to_x + WIDTH / 2:.0f}"
            parts.append(
                f'<path d="M{start} {y + HEIGHT} C{start} {y + HEIGHT + 28} {end} {to_y - 28} '
                f'{end} {to_y}" fill="none" stroke="#9aa5a9" stroke-width="1.5" '
                f'data-arrow="{room}-{other}"/>'
            )
    for room, (x, y) in place.items():
        parts.append(
            f'<rect x="{x:.0f}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#1f6f8b"/>'
            f'<text x="{x + WIDTH / 2:.0f}" y="{y + 25}" text-anchor="middle" fill="#fff" '
            f'font-size="15" font-family="sans-serif">{escape(room)}</text>'
        )
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="rooms and arrows" '
        f'style="width:100%;max-width:480px">{"".join(parts)}</svg>'
    )


def module_lines() -> list[str]:
    """Markdown: each room's heading with its question, then a line for each of its modules."""
    lines: list[str] = []
    for top in ("planner", "profiler", "runtime", "engines", "kernels/tree_kernels"):
        for path in sorted((ROOT / top).rglob("*.py"), key=lambda path: (path.parent, path.name)):
            about = first_sentence(ast.get_docstring(ast.parse(path.read_text())) or "")
            folder = path.parent.relative_to(ROOT)
            if path.name == "__init__.py":
                lines += ["", f"### `{folder}/`", "", about, ""]
            else:
                lines.append(f"- `{path.name}`: {about}")
    return lines


def first_sentence(docstring: str) -> str:
    """The first paragraph of a docstring up to its first full stop."""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return paragraph.partition(".  ")[0].partition(". ")[0].rstrip(".") + "."
