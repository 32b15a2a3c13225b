"""A draft that answers in its target's tokens: of another padding, or of another tokenizer.

Families pad their vocabularies to whole multiples, larger models to larger ones, and some
tokenizers have tokens that others lack.  The law of what a target decodes does not depend on what
its draft proposes; so the draft's embeddings and output layer are put into the target's order once,
when it is loaded, and nothing later knows of it.  A token that the draft lacks it reads as the last
of its own that spell it, and never proposes.  Proposals among the tokens of both are what Timor et
al. (2025, "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies") call token-level intersection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from planner.documents.errors import PlannerError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NEVER_DRAWN = -1e4
"""Bias of a logit: e to it is 0."""
SPACE = "\u2581"
"""The mark that stands for a space in tokens of SentencePiece."""
BYTE = re.compile("<0x([0-9A-F]{2})>")
"""A token of SentencePiece for one byte."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a tokenizer and the rows of its model.

    ids         text of a token, as the tokenizer writes it -> its number
    special     numbers of those with a task of their own: a text's end, a turn of a chat
    ends        numbers of a text's beginning and of its end, or None
    vocab_size  rows of the model, some of which may be for no token
    """

    ids: dict[str, int]
    special: frozenset[int]
    ends: tuple[int | None, int | None]
    vocab_size: int

    @classmethod
    def of(cls, tokenizer: Any, vocab_size: int) -> Tokens:
        """All of a tokenizer's of transformers that the model has rows for."""
        known = {text: token for text, token in tokenizer.get_vocab().items() if token < vocab_size}
        special = frozenset({*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder})
        return cls(known, special, (tokenizer.bos_token_id, tokenizer.eos_token_id), vocab_size)

    @property
    def by_bytes(self) -> bool:
        """Is each byte written as a letter, the space as this one?  SentencePiece has it, too, as
        a letter of Maltese."""
        return "\u0120" in self.ids and SPACE not in self.ids

    def spellings(self) -> dict[int, bytes]:
        """Number of a token -> the bytes that it stands for in a text; single bytes come first."""
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        byte_of = {letter: byte for byte, letter in bytes_to_unicode().items()}
        single, whole = {}, {}
        for text, token in self.ids.items():
            if token in self.special:
                continue
            if byte := BYTE.fullmatch(text):
                single[token] = bytes.fromhex(byte[1])
            elif self.by_bytes and all(letter in byte_of for letter in text):
                whole[token] = bytes(byte_of[letter] for letter in text)
            else:
                whole[token] = text.replace(SPACE, " ").encode()
        return single | whole


@dataclass(frozen=True)
class Match:
    """The draft's row for each token of the target.

    rows       int64 [V of the target]
    is_shared  bool [V of the target]: it stands for the same token, and for no other; any other
               is read only
    """

    rows: Tensor
    is_shared: Tensor

    @property
    def num_shared(self) -> int:
        return int(self.is_shared.sum())

    def is_plain(self, vocab_size: int) -> bool:
        """Does a draft with so many rows have them in the target's order already?"""
        same = torch.arange(len(self.rows))
        return len(same) == vocab_size and bool(self.is_shared.all() and (self.rows == same).all())


def matched(target: Tokens, draft: Tokens, tokenizer: Any) -> Match:
    """Rows of the draft by the target's tokens.

    tokenizer  the draft's, which says how a token that it lacks is spelled

    Tokens are the same that are written alike, or, where one tokenizer writes bytes as letters and
    the other does not, that stand for the same bytes.  What begins a text and what ends it is the
    same whatever it is called, and so are special tokens, and rows for no token, of one number,
    unless the other tokenizer has what they are called elsewhere.  What the draft writes as one
    token the target may have twice, as a byte and as a letter: the draft proposes what the target
    writes, which is the letter, and of its special tokens the one that ends a text.
    """
    own = {token: text for text, token in target.ids.items()}
    named = {token: text for text, token in draft.ids.items()}
    bytes_of = target.spellings()
    spelled = {text: token for token, text in draft.spellings().items()}
    ends = dict(zip(target.ends, draft.ends, strict=True))
    one_kind = target.by_bytes == draft.by_bytes

    def same(token: int) -> int | None:
        text = own.get(token)
        if text in draft.ids and (one_kind or token not in bytes_of):
            return draft.ids[text]
        if ends.get(token) is not None:
            return ends[token]
        if token in bytes_of:
            return spelled.get(bytes_of[token])
        is_alike = token not in named or (token in draft.special and named[token] not in target.ids)
        return token if is_alike and token < draft.vocab_size else None

    def read_as(token: int) -> int:
        text = bytes_of.get(token, b"").decode(errors="replace")
        spelling = tokenizer.encode(text, add_special_tokens=False)
        return next((row for row in reversed(spelling) if row < draft.vocab_size), 0)

    rows = [same(token) for token in range(target.vocab_size)]
    read = [read_as(token) if row is None else row for token, row in enumerate(rows)]
    letters = {text: token for token, text in bytes_of.items()}.values()  # bytes come first
    ended = [end for end in target.ends if end is not None and end < target.vocab_size]
    proposed = {rows[token]: token for token in (*range(target.vocab_size), *letters, *ended)}
    shared = [row is not None and proposed[row] == token for token, row in enumerate(rows)]
    return Match(torch.tensor(read), torch.tensor(shared))


@torch.no_grad()
def refit(model: PreTrainedModel, found: Match) -> None:
    """Put a model's embeddings and output layer into the order of `found`, in place.

    Raises PlannerError for a model that has more tables of its tokens, or another output layer
    than a linear one.
    """
    config = model.config.get_text_config(decoder=True)
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    others = _tables(model, config.vocab_size, but=embedding)
    if not isinstance(head, nn.Linear) or others:
        got = f"tokens in {', '.join(others)}, too" if others else f"a {type(head).__name__}"
        raise PlannerError(
            f"draft: got a {config.model_type} model with {got}, expected embeddings and a linear "
            "output layer, whose rows can follow the target's tokens; choose a draft of the "
            "target's family"
        )
    rows = found.rows.to(head.weight.device)
    is_tied = head.weight is embedding.weight
    embedding.weight = nn.Parameter(embedding.weight[rows], requires_grad=False)
    head.weight = embedding.weight if is_tied else nn.Parameter(head.weight[rows], False)
    bias = head.weight.new_zeros(len(rows)) if head.bias is None else head.bias[rows]
    bias[~found.is_shared.to(bias.device)] = NEVER_DRAWN
    if head.bias is not None or not found.is_shared.all():
        head.bias = nn.Parameter(bias, requires_grad=False)
    config.matched_from = {"vocab_size": config.vocab_size, "shared": found.num_shared}
    embedding.padding_idx = None  # of the draft's own order
    embedding.num_embeddings = head.out_features = config.vocab_size = len(rows)


def _tables(model: nn.Module, vocab_size: int, but: nn.Module) -> list[str]:
    modules: Iterable[tuple[str, nn.Module]] = model.named_modules()
    return [
        name
        for name, module in modules
        if isinstance(module, nn.Embedding) and module.num_embeddings == vocab_size
        if module is not but
    ]
