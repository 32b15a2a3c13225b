"""How every document of the project becomes JSON and comes back: strict, versioned, atomic.

A document is a pydantic model with a `format` and a `version`.  Reading one either gives a valid
document or raises `PlannerError` with one line that names the file, the field, what was got and
what was expected.  Writing one either replaces the file whole or leaves it as it was.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import PlannerError

Count = Annotated[int, Field(ge=1, le=1 << 53)]
Probability = Annotated[float, Field(ge=0, le=1)]
MOST_MS = 1e12
"""Thirty years: a longer time is a mistake, and what follows from it may be no number."""
Milliseconds = Annotated[float, Field(gt=0, le=MOST_MS)]


class Part(BaseModel):
    """A strict, immutable piece of a document: unknown keys, NaN and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, content: Any, source: str) -> Self:
        """`content` (what `json.loads` gave) as this model.

        Raises PlannerError naming `source` and the first wrong field.
        """
        try:
            return cls.model_validate_json(json.dumps(content))
        except ValidationError as error:
            raise PlannerError(f"{source}: {_first_fault(error, content)}") from None


class Document(Part):
    """A part that is a file of its own.  Subclasses pin `format` and `version` as literals."""

    format: str
    version: int
    written_by: str | None = Field(
        default=None, description="the version of Espalier that measured, chose or decoded this"
    )

    @classmethod
    def parse(cls, content: Any, source: str) -> Self:
        """The document in `content`, as `Part.parse` reads it; it must say its format and version.

        Where one of them is another, nothing else is looked at: all else would be wrong too.
        """
        if isinstance(content, dict):
            for key in ("format", "version"):
                if key not in content:
                    raise PlannerError(f"{source}: {key}: missing; expected this key")
                expected = cls.model_fields[key].default
                if type(content[key]) is not type(expected) or content[key] != expected:
                    raise PlannerError(
                        f"{source}: {key}: got {_shorten(content[key])}, expected {expected!r}"
                    )
        return super().parse(content, source)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and check the document at `path`.  Raises PlannerError."""
        return cls.opened(read_json(path), path)

    @classmethod
    def opened(cls, content: Any, path: str | Path) -> Self:
        """The same of what was read at `path`, once: a pipe cannot be read again."""
        return cls.parse(content, str(path))

    def save(self, path: str | Path) -> None:
        """Write it whole, or raise PlannerError and leave what is there: see `write_atomically`."""
        write_atomically(path, self.to_json())

    def to_json(self) -> str:
        """The document as indented JSON, number lists on one line, ending in a newline."""
        return _compact(self.model_dump(mode="json")) + "\n"

    def fingerprint(self) -> str:
        """SHA-256 of the document's canonical JSON: what a later document cites as its origin.

        A document that does not say who wrote it keeps the fingerprint that it had before
        documents could say so.
        """
        content = self.model_dump(mode="json")
        if self.written_by is None:
            del content["written_by"]
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode()).hexdigest()


def read_json(path: str | Path) -> dict[str, Any]:
    """The JSON object in the file at `path`.

    Raises PlannerError for a missing, unreadable, truncated or non-object file, for a key that
    stands twice and for nesting deeper than any document's.  NaN is let through here so that the
    model can name the field it stands in; so is the mark that some editors put before UTF-8.
    """
    return json_object(read_text(path, "a JSON document"), str(path))


def json_object(text: str, source: str) -> dict[str, Any]:
    """The JSON object in `text`.  Raises PlannerError naming `source`, as `read_json` does."""
    try:
        content = json.loads(text, object_pairs_hook=unique_keys, parse_int=_number)
    except json.JSONDecodeError as error:
        raise PlannerError(
            f"{source}: not valid JSON at line {error.lineno}, column {error.colno} "
            f"({error.msg}); the file may be truncated: write it again"
        ) from None
    except RecursionError:
        raise PlannerError(f"{source}: is nested too deeply; expected a JSON document") from None
    except (PlannerError, ValueError) as error:
        raise PlannerError(f"{source}: {error}") from None
    if not isinstance(content, dict):
        found = _shorten(" ".join(text.split()), 60)
        raise PlannerError(f"{source}: got {found}, expected an object in braces")
    return content


def read_text(path: str | Path, expected: str, *, newline: str | None = None) -> str:
    """The UTF-8 text in the file at `path`.

    expected  what it should be, for the PlannerError where there is none
    newline   as for `open`
    """
    name = _named(path)
    try:
        with open(path, encoding="utf-8-sig", newline=newline) as file:
            return file.read()
    except FileNotFoundError:
        raise PlannerError(f"{name}: no such file; expected {expected}") from None
    except UnicodeDecodeError as error:
        raise PlannerError(
            f"{name}: cannot be read: got bytes that are no UTF-8 text (at byte {error.start}), "
            f"expected {expected}"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise PlannerError(f"{name}: cannot be read: {_reason(error)}") from None


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Replace the file at `path` by `content`, whole or not at all.

    A link is followed.  What is there and no file (a device, a pipe) is written to instead: it
    must not be replaced.

    Raises PlannerError when the folder is missing, not writable or full; the old file, if any,
    then stands unchanged and no partial file is left behind.
    """
    data = content.encode() if isinstance(content, str) else content
    name = _named(path)
    partial: str | None = None
    try:
        path = Path(path)
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(data)
            return
        path = Path(os.path.realpath(path))
        handle, partial = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=".partial"
        )
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, _default_mode())
        os.replace(partial, path)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise PlannerError(
            f"{name}: cannot be written: {_reason(error)}; nothing was changed there"
        ) from None
    finally:
        if partial is not None and os.path.exists(partial):
            os.unlink(partial)


def check_writable(path: str | Path) -> None:
    """Raise PlannerError now if a file could not be written to `path` after long work."""
    path = Path(path)
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if path.is_dir():
        raise PlannerError(f"{path}: is a folder; expected the path of a file to write")
    if path.exists() and not path.is_file():  # a device or a pipe: nothing is put beside it
        return
    if not folder.is_dir():
        raise PlannerError(f"{path}: the folder {folder} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise PlannerError(f"{path}: the folder {folder} is not writable; choose another path")


def _named(path: str | Path) -> str:
    """The path for a message of one line.  Raises PlannerError for what is none: a number would be
    taken for a file that is open already."""
    if not isinstance(path, str | os.PathLike):
        raise PlannerError(f"path: got a {type(path).__name__}, expected a str or a Path")
    name = str(path)
    return name if name.isprintable() and len(name) <= 200 else _shorten(name)


def unheld(error: ValidationError) -> str:
    """A line on a result that no document can hold: it is too large, too small, or no number."""
    fault = error.errors(include_url=False)[0]
    name = ".".join(map(str, fault["loc"])) or error.title
    return (
        f"{name}: came out as {_shorten(fault['input'])}, which no document can hold; a number "
        "that was given is far too large or too small"
    )


def _first_fault(error: ValidationError, content: Any) -> str:
    faults = error.errors(include_url=False)
    fault = faults[0]
    field = _field(fault["loc"], content)
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    if fault["type"] in ("union_tag_not_found", "union_tag_invalid"):
        field += f".{fault['ctx']['discriminator']}".replace("'", "")
    if fault["type"] in ("missing", "union_tag_not_found"):
        return f"{field}: missing; expected this key{more}"
    if fault["type"] == "union_tag_invalid":
        kinds = fault["ctx"]["expected_tags"]
        return f"{field}: got {_shorten(fault['ctx']['tag'])}, expected one of {kinds}{more}"
    if fault["type"] == "extra_forbidden":
        return f"{field}: unknown key; remove it, or read it with the version that wrote it{more}"
    if fault["type"] == "json_invalid":  # what `json` reads and pydantic does not
        return f"{field}: got text that is no Unicode, or nested too deeply; expected neither"
    expected = re.sub(r"\A(Value error, |\w+ should (be|have) )", "", fault["msg"])
    expected = expected.replace(" after validation", "")
    if fault["type"] == "value_error" and isinstance(fault["input"], dict):
        return f"{field}: expected {expected}{more}"  # which says what was got itself
    return f"{field}: got {_shorten(fault['input'])}, expected {expected}{more}"


def _field(place: tuple[int | str, ...], content: Any) -> str:
    """The place of a fault, in the document's own words.

    Pydantic puts the `kind` of a part that may be of several kinds into the path too, which is left
    out; an entry of a list is called by its verifier and temperature, if it has them, since the
    place alone ("acceptance.8") tells a reader nothing.
    """
    words: list[str] = []
    here = content
    for part in place:
        if isinstance(here, dict) and part not in here and here.get("kind") == part:
            continue
        try:
            here = here[part]
        except (LookupError, TypeError):
            here = None
        name = _entry_name(here) if isinstance(part, int) and words else ""
        if name:
            words[-1] += f"[{name}]"
        else:
            words.append(str(part) if str(part).isprintable() else repr(part))
    return ".".join(words) or "document"


def _entry_name(entry: Any) -> str:
    """The verifier, the law of the children and the temperature of an entry of a profile, as far as
    it names them."""
    if not isinstance(entry, dict):
        return ""
    sampling, verifier, replacement = map(entry.get, ("sampling", "verifier", "replacement"))
    temperature = sampling.get("temperature") if isinstance(sampling, dict) else None
    words = [_shorten(verifier)[1:-1]] if isinstance(verifier, str) else []
    if isinstance(replacement, bool):
        words.append(f"{'with' if replacement else 'without'} replacement")
    words += [f"T={temperature:g}"] if isinstance(temperature, int | float) else []
    return ", ".join(words)


def _shorten(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _number(digits: str) -> float:
    """A JSON number without a fraction, as a hook of `json.loads`.  Beyond 64 bits it is a float,
    which no field of integers takes, since what is computed from it would overflow."""
    number = int(digits)
    return number if abs(number) < 1 << 63 else float(digits)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, as a hook of `json.loads`.  Raises PlannerError for a key that comes twice,
    of which JSON says nothing and Python keeps the last."""
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise PlannerError(f"the key {key!r} stands twice; expected once")
        content[key] = value
    return content


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _compact(value: Any, indent: int = 0) -> str:
    """JSON with one key per line, but lists of numbers and strings on a single line."""
    pad = "  " * (indent + 1)
    if isinstance(value, dict) and value:
        rows = [f"{pad}{json.dumps(k)}: {_compact(v, indent + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + "  " * indent + "}"
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        rows = [pad + _compact(item, indent + 1) for item in value]
        return "[\n" + ",\n".join(rows) + "\n" + "  " * indent + "]"
    return json.dumps(value, allow_nan=False)
