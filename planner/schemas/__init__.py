"""The published JSON Schemas of profile, plan and report, as files beside this module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..documents import DOCUMENTS

FOLDER = Path(__file__).parent


def schema_path(name: str) -> Path:
    """Where the published schema of document `name` lies."""
    return FOLDER / f"{name}.schema.json"


def schema_json(name: str) -> str:
    """The JSON Schema of document `name`, made from its model now.  KeyError for an unknown one."""
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= DOCUMENTS[name].model_json_schema()
    schema["required"] = ["format", "version", *schema.get("required", [])]
    return json.dumps(schema, indent=1) + "\n"
