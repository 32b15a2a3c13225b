"""The end of a text: at a token, or at a string that has come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ending:
    """Tokens and strings that end a text; either is the last that is written.

    to_text  the tokenizer's decoding; needed where there are strings

        Ending(frozenset({7})).cut([1], [2, 7, 3])      # ([2, 7], True)
    """

    tokens: frozenset[int]
    strings: tuple[str, ...] = ()
    to_text: Callable[[list[int]], str] | None = None

    def cut(self, written: Sequence[int], new: Sequence[int]) -> tuple[list[int], bool]:
        """`new`, which follows on `written`, up to what ends the text, and whether anything does.

        A string ends it with the token by which it is complete.
        """
        ends = [place for place, token in enumerate(new, 1) if token in self.tokens][:1]
        most = ends[0] if ends else len(new)
        tail = list(written[max(0, len(written) - self._reach) :])
        if self._found(tail, new[:most]):
            ends = [place for place in range(1, most + 1) if self._found(tail, new[:place])]
        return list(new[: ends[0]] if ends else new), bool(ends)

    @property
    def _reach(self) -> int:
        """Tokens before the last that can have a part in a string: none is less than a byte, and
        one more, since tokenizers treat a text's first token otherwise."""
        return max((len(string.encode()) for string in self.strings), default=0)

    def _found(self, tail: list[int], new: Sequence[int]) -> bool:
        if self.to_text is None or not self.strings:
            return False
        text = self.to_text([*tail, *new])
        return any(string in text for string in self.strings)
