"""A text of the target's, and the prompt that it continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Written(NamedTuple):
    """A text that the target wrote behind a prompt; token ids of both."""

    prompt: Sequence[int]
    text: Sequence[int]
