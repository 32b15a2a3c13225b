"""The JSON Schema of a document, made from its model."""

from __future__ import annotations

import json
from typing import Any

from .files import DOCUMENTS


def schema_json(name: str) -> str:
    """The JSON Schema of document `name`, one of `DOCUMENTS`, as text.

    A file that satisfies it has every key that its reader demands; what one field says of another
    (a plan's tree and its verifier) only the reader checks.  Raises KeyError for an unknown name.
    """
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= DOCUMENTS[name].model_json_schema()
    schema["required"] = ["format", "version", *schema.get("required", [])]
    return json.dumps(schema, indent=1) + "\n"
