"""A document's fields as tables, from its JSON Schema: what `<!-- fields: plan -->` becomes."""

from __future__ import annotations

import json
import re
from typing import Any

from planner.plans.files import schema_json

MARK = re.compile(r"^<!-- fields: (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page, with tables where the marks were; called by mkdocs."""
    shown: set[str] = set()
    return MARK.sub(lambda mark: document_tables(mark[1], shown), markdown)


def document_tables(name: str, shown: set[str]) -> str:
    """Tables of document `name` and of all its parts that are not in `shown` yet, in Markdown."""
    schema = json.loads(schema_json(name))
    parts = schema.get("$defs", {})
    texts, waiting = [table(schema)], referred(schema["properties"])
    while waiting:
        part = waiting.pop(0)
        if part not in shown:
            shown.add(part)
            texts.append(f"### {part} {{ #{part} }}\n\n{table(parts[part])}")
            waiting += referred(parts[part].get("properties", {}))
    return "\n\n".join(texts)


def table(schema: dict[str, Any]) -> str:
    """One object: what it is, and a row for each field."""
    required = schema.get("required", [])
    rows = ["| field | type | required, or default | meaning |", "|---|---|---|---|"]
    for field, entry in schema.get("properties", {}).items():
        default = "required" if field in required else f"`{json.dumps(entry.get('default'))}`"
        meaning = " ".join(entry.get("description", "").split()).replace("|", "\\|")
        rows.append(f"| `{field}` | {kind(entry)} | {default} | {meaning}{limits(entry)} |")
    about = schema.get("description", "")
    return "\n\n".join([*([about] if about else []), "\n".join(rows)])


def kind(entry: dict[str, Any]) -> str:
    """The type of a field in words, other parts as links."""
    if "$ref" in entry:
        part = entry["$ref"].rpartition("/")[2]
        return f"[{part}](#{part})"
    for several in ("anyOf", "oneOf"):
        if several in entry:
            return " or ".join(kind(each) for each in entry[several])
    if "const" in entry:
        return f"`{json.dumps(entry['const'])}`"
    if "enum" in entry:
        return ", ".join(f"`{json.dumps(each)}`" for each in entry["enum"])
    if entry.get("type") == "array":
        return f"list of {kind(entry['items'])}" if "items" in entry else "list"
    return str(entry.get("type", "any"))


def limits(entry: dict[str, Any]) -> str:
    """Bounds of a number in brackets, if there are any."""
    words = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    found = [f"{sign} {entry[key]:g}" for key, sign in words.items() if key in entry]
    return f" ({', '.join(found)})" if found else ""


def referred(entry: Any) -> list[str]:
    """Names of the parts that a piece of a schema refers to, in order."""
    return re.findall(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(entry))
