"""Parts of what is shown, as HTML in which everything that documents say is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from .tables import Named, Shown, Table


def part(shown: Shown) -> str:
    """A part as it stands in a page."""
    if isinstance(shown, Named):
        return _named(shown)
    if isinstance(shown, Table):
        return _table(shown)
    return "".join(f"<p>{escape(line)}</p>" for line in shown.splitlines())


def pasted(lines: Iterable[str]) -> str:
    """Lines to copy, as they are."""
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"


def picture(svg: str, caption: str) -> str:
    """A picture with words below it."""
    return f'<figure class="picture">{svg}<figcaption>{escape(caption)}</figcaption></figure>'


def folded(summary: str, content: Sequence[str]) -> str:
    """Content that is there to be opened."""
    return f"<details><summary>{escape(summary)}</summary>{''.join(content)}</details>"


def section(title: str, content: Sequence[str]) -> str:
    """A chapter."""
    return f"<section><h2>{escape(title)}</h2>{''.join(content)}</section>"


def _named(shown: Named) -> str:
    made = {
        name: pasted([words]) if name in shown.pasted else escape(words)
        for name, words in shown.said.items()
    }
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{words}</dd>" for name, words in made.items())
    return f"<dl>{rows}</dl>" if rows else ""


def _table(shown: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        kinds = ("" if place < shown.num_left else ' class="number"' for place in range(len(cells)))
        made = (f"<{tag}{kind}>{_cell(c)}</{tag}>" for kind, c in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(row(cells, "td") for cells in shown.rows)
    title = f"<figcaption>{escape(shown.title)}</figcaption>" if shown.title else ""
    return (
        f'<figure>{title}<div class="wide"><table><thead>{row(shown.headings, "th")}</thead>'
        f"<tbody>{body}</tbody></table></div></figure>"
    )


def _cell(words: str) -> str:
    """The words of a cell; in one that begins with a tree's branches every space counts."""
    branches = words[:1] in ("├", "└", "│", " ")
    return escape(words.replace(" ", "\u00a0") if branches else words)
