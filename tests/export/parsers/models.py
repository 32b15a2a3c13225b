"""The embedded pair as folders, for parsers that look at the models."""

from __future__ import annotations

from runtime.embedded import pair_paths


def saved() -> tuple[str, str]:
    """The folders of target and draft."""
    target, draft = pair_paths()
    return str(target), str(draft)
