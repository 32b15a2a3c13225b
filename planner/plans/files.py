"""Reading and writing any document of the project by the `format` it carries; its JSON Schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ..documents.counted import counted
from ..documents.document import PlannerError, read_json
from ..documents.given_costs import GivenCosts
from ..documents.profile import Profile
from .check import Check
from .plan import Plan
from .report import Report, Reports

AnyDocument = Profile | Plan | Report | Check | GivenCosts

DOCUMENTS: dict[str, type[Profile] | type[Plan] | type[Report] | type[Check] | type[GivenCosts]] = {
    "profile": Profile,
    "plan": Plan,
    "report": Report,
    "check": Check,
    "costs": GivenCosts,
}

REPORT = re.compile(rb'"format"\s*:\s*"report"')


def load(path: str | Path) -> AnyDocument:
    """The document in the JSON file at `path`.

    Raises PlannerError for a missing or truncated file, an unknown format or version, an unknown
    or missing key, a wrong value: one line naming the file and the field.
    """
    return opened(read_json(path), path)


def opened(content: dict[str, Any], path: str | Path) -> AnyDocument:
    """The document that `content`, which was read at `path`, is.  Raises PlannerError likewise."""
    known = ", ".join(DOCUMENTS)
    if "format" not in content:
        raise PlannerError(
            f"{path}: format: missing; expected one of {known} "
            "(is this a file that the planner wrote?)"
        )
    name = content["format"]
    if not isinstance(name, str) or name not in DOCUMENTS:
        raise PlannerError(f"{path}: format: got {name!r}, expected one of {known}")
    return DOCUMENTS[name].opened(content, path)


def load_reports(folder: Path) -> Reports:
    """All reports in a folder and in those below it, hidden ones left out, by their paths.

    Raises PlannerError where there is none, and as `load` does for one that is damaged.
    """
    paths = [
        path for path in sorted(folder.rglob("*.json"))
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]  # fmt: skip
    found = {path: Report.load(path) for path in paths if _begins_a_report(path)}
    if not found:
        raise PlannerError(
            f"{folder}: holds no reports, among {counted(len(paths), 'JSON file')}; expected those "
            "that planner decode writes, or the path of one document"
        )
    return Reports(found)


def _begins_a_report(path: Path) -> bool:
    """Does the file say so at its beginning?  Others may be large, or somebody else's."""
    with path.open("rb") as file:
        return REPORT.search(file.read(200)) is not None


def load_costs(path: str | Path) -> GivenCosts | Profile:
    """The costs in a file: given ones, or a profile's.  Raises PlannerError as `load` does."""
    document = load(path)
    if isinstance(document, GivenCosts | Profile):
        return document
    raise PlannerError(
        f"{path}: format: got {document.format!r}, expected costs, or a profile, which holds some "
        "(planner schema costs says what to write)"
    )


def save(document: AnyDocument, path: str | Path) -> None:
    """Write `document` to `path` atomically (a profile also writes its arrays beside it).

    Raises PlannerError when the path cannot be written; nothing is changed there then.
    """
    document.save(path)


def schema_json(name: str) -> str:
    """The JSON Schema of document `name`, one of `DOCUMENTS`, as text.

    A file that satisfies it has every key that its reader demands; what one field says of another
    (a plan's tree and its verifier) only the reader checks.  Raises KeyError for an unknown name.
    """
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= DOCUMENTS[name].model_json_schema()
    schema["required"] = ["format", "version", *schema.get("required", [])]
    return json.dumps(schema, indent=1) + "\n"
