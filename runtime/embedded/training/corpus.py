"""The corpus: Python source that the machine already has, cleaned, split by file, tokenised.

Nothing is downloaded. What is read are the standard library of the running interpreter and the
sources of the installed packages named in `PACKAGES`; a package that is absent is left out.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sysconfig
import warnings
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from planner import PlannerError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_TEXT = "<|endoftext|>"
VOCAB_SIZE = 2048
STANDARD_LIBRARY = "python"
PACKAGES = (
    "torch", "transformers", "numpy", "scipy", "sympy", "networkx", "matplotlib", "numba",
    "cvxpy", "tornado", "pydantic", "hypothesis", "mypy", "IPython", "jedi", "prompt_toolkit",
    "rich", "setuptools", "pip", "fontTools", "PIL", "jinja2", "pygments",
)  # fmt: skip
SKIPPED_FOLDERS = {
    *("__pycache__", "site-packages", "lib-dynload", "test", "tests", "idle_test"),
    *("encodings", "pydoc_data", "unicode_codes", "lexers", "styles"),  # tables
    *("lib2to3", "_vendor", "typeshed"),  # copies of other sources
}
# How much more is taken than of any package, and the percentage held out, for the prompts.
SHARES = {STANDARD_LIBRARY: (4, 12)}
SHARES_ELSEWHERE = (1, 2)
PROMPTS_PER_FILE = 8
FILE_BYTES = (600, 150_000)  # shorter files say little, longer ones are mostly tables


class SourceFile(NamedTuple):
    """One cleaned file: where it comes from, its text, and on which side of the split it lies."""

    source: str  # "python" or the name of a package
    name: str  # path below the source's folder, with forward slashes
    text: str
    held_out: bool


def collect(packages: tuple[str, ...], *, max_bytes_per_source: int) -> list[SourceFile]:
    """Cleaned files of the standard library and of `packages`, duplicates dropped.

    Of a source with more than `max_bytes_per_source` bytes of cleaned text (more of the
    standard library, see `SHARES`) a sample is taken, in the order of the hashes of its files'
    names, so that no package outweighs the others. A file is held out when the hash of its text,
    modulo 100, is below the percentage of its source.
    """
    seen: set[str] = set()
    files: list[SourceFile] = []
    for source, folder in _source_folders(packages):
        weight, percent = SHARES.get(source, SHARES_ELSEWHERE)
        bytes_left = weight * max_bytes_per_source
        paths = (path.relative_to(folder) for path in folder.rglob("*.py"))
        names = [path.as_posix() for path in paths if SKIPPED_FOLDERS.isdisjoint(path.parts)]
        for name in sorted(names, key=lambda name: _digest(f"{source}/{name}")):
            text = clean((folder / name).read_bytes())
            if text is None or (digest := _digest(text)) in seen:
                continue
            seen.add(digest)
            held_out = int(digest[:8], 16) % 100 < percent
            files.append(SourceFile(source, name, text, held_out))
            bytes_left -= len(text)
            if bytes_left <= 0:
                break
    if len({file.held_out for file in files}) < 2:
        raise PlannerError(
            f"got {len(files)} source files, expected enough for training and for holding out; "
            "raise max_bytes_per_source"
        )
    return files


def clean(raw: bytes) -> str | None:
    """The file's text without comments at its head and with docstrings cut to their summary.

    None for what is no good to learn from: not ASCII, not parseable, generated, mostly digits or
    string tables, very short or very long.
    """
    if not FILE_BYTES[0] <= len(raw) <= FILE_BYTES[1] or not raw.isascii():
        return None
    text = raw.decode("ascii").replace("\r\n", "\n").expandtabs(4)
    head = text[:1500].lower()
    if "generated" in head and ("do not edit" in head or "automatically" in head):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in old sources
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = _without_long_docstrings(text.split("\n"), tree)
    while lines and (not lines[0].strip() or lines[0].startswith("#")):
        lines.pop(0)
    text = "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"
    if len(text) < FILE_BYTES[0] or _share(text, str.isdigit) > 0.06:
        return None
    if max(map(len, lines)) > 300 or _share(text, lambda c: c in "\"'\\") > 0.10:
        return None
    return text


def train_tokenizer(files: list[SourceFile]) -> Tokenizer:
    """A byte-level BPE tokenizer of `VOCAB_SIZE` tokens; `<|endoftext|>` has id 0."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((file.text for file in files if not file.held_out), trainer)
    if tokenizer.get_vocab_size() != VOCAB_SIZE:
        raise PlannerError(
            f"got a vocabulary of {tokenizer.get_vocab_size()} tokens, expected {VOCAB_SIZE}; "
            "raise max_bytes_per_source"
        )
    return tokenizer


def tokenise(files: list[SourceFile], tokenizer: Tokenizer) -> np.ndarray:
    """`files` as one stream of token ids, uint16 [num_tokens], each closed by the end-of-text."""
    end = tokenizer.encode(END_OF_TEXT).ids
    encodings = tokenizer.encode_batch([file.text for file in files])
    return np.concatenate([np.array(encoding.ids + end, dtype=np.uint16) for encoding in encodings])


class PromptSet(NamedTuple):
    """Prompts as token ids, and the names of the files that they were cut from."""

    prompts: list[list[int]]
    files: list[str]


def draw_prompts(
    files: list[SourceFile],
    tokenizer: Tokenizer,
    *,
    count: int,
    length: int,
    seed: int,
    further: int = 0,
) -> tuple[PromptSet, PromptSet]:
    """Two disjoint sets, for profiling and for evaluation, from held-out library files.

    A file feeds one of the two sets only; each prompt, of `length` tokens, starts where a line
    starts, and no two of them overlap. The first `count` of a set are drawn from at most
    `PROMPTS_PER_FILE` of each file; then come `further` ones, unlike all others, one of every file
    in turn, as long as it has any left. Raises PlannerError where the files have too few.
    """
    rng = np.random.default_rng(seed)
    held_out = [file for file in files if file.held_out and file.source == STANDARD_LIBRARY]
    held_out.sort(key=lambda file: _digest(file.text))
    sides: tuple[list[_Cut], list[_Cut]] = ([], [])
    found: dict[str, list[_Cut]] = {}
    for file in held_out:  # the side with less to choose from gets the next file
        side = min(sides, key=len)
        cuts = [_Cut(file.name, tuple(ids)) for ids in _line_prompts(file.text, tokenizer, length)]
        side.extend(cuts[:: -(-len(cuts) // PROMPTS_PER_FILE)] if cuts else [])
        found[file.name] = cuts
    _enough(min(map(len, sides)), count, held_out)
    picks = [[side[i] for i in rng.choice(len(side), count, replace=False)] for side in sides]
    taken = {cut.ids for pick in picks for cut in pick}  # a few passages stand in several files
    for side, pick in zip(sides, picks, strict=True):
        names = dict.fromkeys(cut.name for cut in side)
        shuffled = [[found[name][i] for i in rng.permutation(len(found[name]))] for name in names]
        for cut in (each for turn in zip_longest(*shuffled) for each in turn if each is not None):
            if len(pick) < count + further and cut.ids not in taken:
                pick.append(cut)
                taken.add(cut.ids)
        _enough(len(pick), count + further, held_out)
    return _prompt_set(picks[0]), _prompt_set(picks[1])


class _Cut(NamedTuple):
    """A prompt and the name of its file."""

    name: str
    ids: tuple[int, ...]


def _prompt_set(cuts: list[_Cut]) -> PromptSet:
    return PromptSet([list(cut.ids) for cut in cuts], sorted({cut.name for cut in cuts}))


def _enough(got: int, expected: int, held_out: list[SourceFile]) -> None:
    if got < expected:
        raise PlannerError(
            f"got {got} prompts from {len(held_out)} held-out library files, expected {expected}; "
            "raise the percentage held out or max_bytes_per_source"
        )


def _line_prompts(text: str, tokenizer: Tokenizer, length: int) -> list[list[int]]:
    """Consecutive stretches of `length` tokens, each encoded from the start of a line."""
    lines, prompts, first = text.splitlines(keepends=True), [], 0
    while first < len(lines):
        last, ids = first, list[int]()
        while last < len(lines) and len(ids) <= length:
            last += 8
            ids = tokenizer.encode("".join(lines[first:last])).ids
        if len(ids) < length:
            break
        prompts.append(ids[:length])
        used = len(tokenizer.decode(ids[:length], skip_special_tokens=False))
        while used > 0 and first < len(lines):
            used -= len(lines[first])
            first += 1
        first += 12  # leave room, so that neighbours do not continue one another
    return prompts


def _source_folders(packages: tuple[str, ...]) -> list[tuple[str, Path]]:
    folders = [(STANDARD_LIBRARY, Path(sysconfig.get_path("stdlib")))]
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            folders.append((package, Path(next(iter(spec.submodule_search_locations)))))
    return folders


def _without_long_docstrings(lines: list[str], tree: ast.Module) -> list[str]:
    """`lines` with every docstring of several lines cut to its first one."""
    kept: list[str | None] = list(lines)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node, clean=False) is None:
            continue
        string = cast(ast.Expr, node.body[0]).value
        first, last = string.lineno - 1, cast(int, string.end_lineno) - 1
        quotes = lines[last][: string.end_col_offset][-3:]
        if last == first or quotes not in ('"""', "'''"):
            continue
        summary = lines[first].rstrip("\\").rstrip()
        if summary.endswith(quotes):  # the summary stands on the line below the quotes
            summary += lines[first + 1].strip().removesuffix(quotes)
        kept[first] = summary + quotes + lines[last][string.end_col_offset :]
        kept[first + 1 : last + 1] = [None] * (last - first)
    return [line for line in kept if line is not None]


def _share(text: str, wanted: Callable[[str], bool]) -> float:
    return sum(map(wanted, text)) / len(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
