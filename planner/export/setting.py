"""An engine's setting as somebody wrote it: values by name, out of a file or a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..documents.document import PlannerError, read_text
from ..documents.sampling import Sampling
from ..policies import Drafting
from .notations import is_there, literal, unassigned

MOST_TOKENS = 1000
"""Drafted by one step; a larger number is taken for a mistake."""
MOST_BATCHED = 10**6
"""Requests at once; likewise."""
ABOUT_SPECULATION = ("spec", "draft", "assist", "lookup")
"""Parts of the names of values that must not be ignored."""
SECTION = "speculative_config"
"""The key under which vLLM and TensorRT-LLM keep what is about speculation."""

OWN_HEADS = (
    "for heads, which have an acceptance and passes of their own: a profile of another draft model "
    "does not say what it is worth (one with --engine-method does)"
)


@dataclass(frozen=True)
class Reading:
    """A setting in our terms."""

    drafting: Drafting
    verifier: str
    notes: Sequence[str] = ()
    """Notes on what is different in the engine, or not known."""


@dataclass
class Setting:
    """Values by name, each to be asked for by the engine that reads them.

    Names are those of flags and of files alike: without leading hyphens, with `_` for `-`.
    Absent is what is None.
    """

    engine: str
    content: Any
    """A mapping of values by name, or a list (of paths)."""
    sampling: Sampling
    batch_size: int = 1
    _asked: set[str] = field(default_factory=set)

    def value(self, *names: str) -> Any:
        """The value of the first of these names that is there; None where none is."""
        if not isinstance(self.content, Mapping):
            raise self.error(f"got a {type(self.content).__name__}, expected settings by name")
        found = [name for name in names if self.content.get(name) is not None]
        self._asked.update(found)
        return self.content[found[0]] if found else None

    def number(self, *names: str, least: int = 1, default: int | None = None) -> int:
        """A whole number.  Raises PlannerError for another value, or none without a default."""
        value = self.value(*names)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.error(f"{names[0]}: missing; expected how many")
        return self.whole(value, names[0], least=least)

    def size(self, value: Any, name: str) -> int:
        """A value that must be a batch size."""
        return self.whole(value, name, most=MOST_BATCHED)

    def whole(self, value: Any, name: str, *, least: int = 1, most: int = MOST_TOKENS) -> int:
        """A value that must be a whole number, from `least` to `most`."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole and not re.fullmatch(r"-?\d{1,9}", str(value)):
            raise self.error(f"{name}: got {value!r:.40}, expected a whole number")
        if not least <= int(value) <= most:
            raise self.error(f"{name}: got {value}, expected {least} to {most}")
        return int(value)

    def share(self, *names: str, default: float) -> float:
        """A number from 0 to below 1."""
        value = self.value(*names)
        if value is None:
            return default
        try:
            share = float("nan") if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            share = float("nan")
        if not 0 <= share < 1:
            raise self.error(f"{names[0]}: got {value!r:.40}, expected a number from 0 to below 1")
        return share

    def word(self, *names: str, known: Sequence[Any]) -> Any:
        """One of the values that a plan can say, of which the first is the engine's default."""
        value = self.value(*names)
        if value is None:
            return known[0]
        for each in known:
            if str(value).lower() == str(each).lower():
                return each
        expected = " or ".join(map(str, known))
        raise self.error(f"{names[0]}: got {value!r:.40}, which no plan says; expected {expected}")

    def skip(self, *patterns: str) -> None:
        """Names, as regular expressions, of what changes neither drafts nor acceptance."""
        self._asked.update(
            name for name in self.content for each in patterns if re.fullmatch(each, name)
        )

    def error(self, what: str) -> PlannerError:
        """An error that says whose setting it is about."""
        return PlannerError(f"setting of {self.engine}: {what}")

    def ignored(self) -> list[str]:
        """Names that nobody asked for.

        Raises PlannerError for those that seem to be about speculation, and where nothing at all
        was asked for.
        """
        if not isinstance(self.content, Mapping):
            return []
        left = [name for name, value in self.content.items() if value is not None]
        if not self._asked:
            raise self.error(f"holds nothing about speculation (got {_listed(left)})")
        left = [name for name in left if name not in self._asked]
        for name in left:
            if any(part in name.lower() for part in ABOUT_SPECULATION):
                raise self.error(
                    f"{name}: not known here, but seems to be about speculation; leave it out if "
                    "it changes neither what is drafted nor what is accepted"
                )
        return left


def setting(engine: str, words: str, sampling: Sampling, batch_size: int = 1) -> Setting:
    """The setting in a file, or in these words themselves: JSON, YAML, or flags.

    Raises PlannerError for what is neither a file nor a setting.
    """
    where, text = f"setting of {engine}", words
    if is_there(words):
        where, text = words, read_text(words, "a setting")
    elif not re.search(r"[\s{\[=]|^-", words.strip()):
        raise PlannerError(
            f"{words!r:.80}: no such file; expected one, or the setting itself: JSON or flags"
        )
    content = _parsed(text, where)
    if isinstance(content, Mapping):
        content = _flat(content, where)
    return Setting(engine, content, sampling, batch_size)


def _parsed(text: str, where: str) -> Any:
    """JSON, Python's notation of the same, flags, or YAML: a mapping or a list."""
    text = text.strip()
    listed = unassigned(text)
    if listed.startswith(("{", "[", "(")):
        content = literal(listed, where)
    elif re.search(r"(\A|\s)--?[A-Za-z]", text):
        content = _flags(text, where)
    else:
        content = _yaml(text, where)
    if not isinstance(content, Mapping | list):
        raise PlannerError(f"{where}: got {text!r:.60}, expected JSON, YAML or flags")
    return content


def _flags(text: str, where: str) -> dict[str, Any]:
    """Values by flag; True for those without one.  What stands before any flag is left out."""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise PlannerError(f"{where}: cannot be read as flags: {error}") from None
    found: dict[str, Any] = {}
    name = ""
    for word in words:
        if re.match(r"--?[A-Za-z]", word):
            name, equals, value = word.partition("=")
            found[name] = value if equals else True
        elif name and found[name] is True:
            found[name] = word
    return found


def _yaml(text: str, where: str) -> Any:
    import yaml  # type: ignore[import-untyped]

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = str(getattr(error, "problem", None) or "it cannot be read")
        raise PlannerError(f"{where}: neither JSON nor YAML nor flags: {reason}") from None


def _flat(content: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Names as `Setting` has them, what stands in `SECTION` among them."""
    named = {str(name).lstrip("-").replace("-", "_"): value for name, value in content.items()}
    named = {name.removeprefix(f"{SECTION}."): value for name, value in named.items()}
    inner = named.pop(SECTION, None)
    if isinstance(inner, str):
        inner = literal(inner, where)
    if inner is not None and not isinstance(inner, Mapping):
        raise PlannerError(f"{where}: {SECTION}: got {inner!r:.40}, expected settings by name")
    return named if inner is None else named | _flat(inner, where)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "") if names else "nothing"
