"""The end of a text: at a token, or at a string that has come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.documents.errors import PlannerError, in_one_line


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

        A string ends it with the first token behind which the text holds it, however many tokens
        come at a time.  Raises PlannerError where `to_text` fails.
        """
        text = [*written] if self.strings else []
        for place, token in enumerate(new, 1):
            text.append(token)
            if token in self.tokens or self._holds_string(text):
                return list(new[:place]), True
        return list(new), False

    def _holds_string(self, tokens: Sequence[int]) -> bool:
        """Is a string in the text of these tokens, given that none is in that of all but the last?

        Looked at are the last ones.  Most tokens are a byte or more, but some are nothing, so what
        stands before the last has to be of as many characters as a string is of bytes, since a
        byte that is cut off from its character is one of its own; that is more than can have a part
        in it, since tokenizers treat a text's first token otherwise.
        """
        if not self.strings:
            return False
        before = longest = max(len(string.encode()) for string in self.strings)
        while True:
            looked_at = tokens[-before - 1 :]
            text = self._text(looked_at)
            if any(string in text for string in self.strings):
                return True
            if len(looked_at) == len(tokens):
                return False
            if len(self._text(looked_at[:-1])) >= longest:
                return False
            before *= 2

    def _text(self, tokens: Sequence[int]) -> str:
        assert self.to_text is not None, "strings need the tokenizer's decoding"
        try:
            return self.to_text([*tokens])
        except Exception as error:
            raise PlannerError(
                f"to_text: failed for tokens {[*tokens]!r:.60}: {in_one_line(error)}"
            ) from error
