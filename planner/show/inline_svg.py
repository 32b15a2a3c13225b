"""A figure as SVG that stands in a page: in its colours, with words over its marks."""

from __future__ import annotations

import io
import re
from html import escape

from matplotlib import rc_context
from matplotlib.figure import Figure

from .drawing import DRAFT, INK, MANY, PAPER, QUIET, TARGET, TIP

VARIABLES = {
    INK: "ink", TARGET: "target", DRAFT: "draft", QUIET: "quiet", PAPER: "paper",
    MANY[0]: "blue", MANY[6]: "violet",
}  # fmt: skip
"""Colours that a page may have others for -> names of its variables."""


def inline_svg(figure: Figure, name: str) -> str:
    """The figure as an `svg` element without a size of its own, that asks for nothing outside.

    name  what it shows, for who cannot see it; another one for every figure of a page
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]*)"', text)
    assert box is not None
    start = f'<svg viewBox="{box[1]}" role="img" aria-label="{escape(name)}">'
    text = re.sub(r"<svg[^>]*>", lambda _: start, text, count=1)
    text = re.sub(rf'<g id="{TIP}([^"]*)">', r"<g><title>\1</title>", text)
    text = text.replace("xlink:href", "href")
    used = set(re.findall(r'(?:url\(|href=")#([^)"]*)', text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    return text
