"""Reading prompts: `.txt`, one prompt a line, or `.jsonl` with `text` or `ids` on each line."""

from __future__ import annotations

import json
from pathlib import Path

from .document import PlannerError, read_text

Prompt = str | list[int]


def read_prompts(path: str | Path) -> list[Prompt]:
    """The prompts in the file at `path`: text, or token ids where a line gives them.

    Lines end in a line feed, a carriage return before it or not, and in nothing else: a form feed
    or a Unicode line separator belongs to its prompt.  Empty lines are passed over.  Raises
    PlannerError naming the file and the line.
    """
    path = Path(path)
    if path.suffix not in READERS:
        raise PlannerError(
            f"{path}: got a name that ends in {path.suffix or 'nothing'}, expected .txt (one "
            "prompt a line) or .jsonl (an object with text or ids a line)"
        )
    text, read = read_text(path, "prompts", newline=""), READERS[path.suffix]
    prompts = [
        read(line.removesuffix("\r"), f"{path}, line {number}")
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if not prompts:
        raise PlannerError(f"{path}: got no prompts, expected at least one line")
    return prompts


def _text(line: str, where: str) -> Prompt:
    return line


def _json_line(line: str, where: str) -> Prompt:
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise PlannerError(f"{where}: not valid JSON ({error.msg})") from None
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number without end
        raise PlannerError(f"{where}: cannot be read as JSON ({error})") from None
    if not isinstance(content, dict) or ("text" in content) == ("ids" in content):
        raise PlannerError(f"{where}: expected an object with either text or ids")
    if "text" in content:
        if not isinstance(content["text"], str) or not content["text"]:
            raise PlannerError(f"{where}: text: got {content['text']!r}, expected a string")
        return content["text"]
    ids = content["ids"]
    whole = isinstance(ids, list) and all(type(token) is int and token >= 0 for token in ids)
    if not whole or not ids:
        raise PlannerError(f"{where}: ids: got {ids!r:.60}, expected a list of token ids")
    return ids


READERS = {".txt": _text, ".jsonl": _json_line}
