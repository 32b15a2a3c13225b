"""A program that answers as llama-server and llama-bench do, with times that are known.

Run as `llama-server` or `llama-bench` (see `installed`).  A pass of n tokens takes `pass_ms(n)`, a
draft pass `DRAFT_MS`, choosing its token `CHOOSING_MS`, the rest of a step `REST_MS`; where chains
may have `QUICK_LIMIT` tokens, all of it is `QUICK` times that.  Nothing is waited for.  A drafted
token at place i of a text is right unless i leaves no rest when divided by `WRONG_EVERY`.

It is started hundreds of times, so it imports little: `http.server` takes twice as long as all
else, and `pathlib` and `typing` as long as the rest.
"""

from __future__ import annotations

import json
import os
import sys
from socketserver import StreamRequestHandler, TCPServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

DRAFT_MS, CHOOSING_MS, REST_MS, WRONG_EVERY = 0.25, 0.125, 1.0, 3
QUICK_LIMIT, QUICK = 6, 0.9


def pass_ms(num_tokens: int) -> float:
    """A staircase: eight are dearer than nine."""
    return 3.0 + 0.5 * num_tokens - (2.0 if num_tokens >= 9 else 0.0)


def step_ms(num_nodes: int, most: int, requests: int = 1) -> float:
    """A step that verifies so many nodes of each request, of chains that may have `most` tokens."""
    drafted = max(num_nodes - 1, 1) * (requests * DRAFT_MS + CHOOSING_MS)
    ms = pass_ms(requests * num_nodes) + drafted + REST_MS
    return QUICK * ms if most == QUICK_LIMIT else ms


def added_up(costs: Any) -> list[float]:
    """The steps of full chains that a profile's costs say, by the sizes of its overhead."""
    overhead, (draft,) = costs.overhead["topk"], costs.draft.median_ms
    return [
        costs.verify.median_ms[nodes - 1] + max(nodes - 1, 1) * draft + rest
        for nodes, rest in zip(overhead.counts, overhead.median_ms, strict=True)
    ]


FOLLOWERS = [(token + 1) % 100 for token in range(100)]
"""The token that follows each, unless a model's file says otherwise."""


def text(prompt: list[int], num_tokens: int, followers: list[int]) -> list[int]:
    tokens = prompt[-1:]
    for _ in range(num_tokens):
        tokens.append(followers[tokens[-1]])
    return tokens[1:]


def completion(
    prompt: list[int],
    num_tokens: int,
    most: int,
    followers: list[int] = FOLLOWERS,
    *,
    unsure: bool = False,
    accepting: bool = False,
    requests: int = 1,
) -> dict[str, object]:
    """The answer to one request, decoded with chains of at most `most`.

    unsure     end every chain before it begins
    accepting  all that is drafted, right or wrong
    requests   that decode together, each with tokens of its own in every pass
    """
    emitted, ms, drafted, accepted = 1, 0.0, 0, 0
    while emitted < num_tokens:
        length = 0 if unsure else min(most, num_tokens - emitted - 1)
        right = 0
        while right < length and (accepting or (emitted + right) % WRONG_EVERY):
            right += 1
        ms += pass_ms(requests * (length + 1))
        if most:
            ms += max(length, unsure) * (requests * DRAFT_MS + CHOOSING_MS) + REST_MS
        emitted, drafted, accepted = emitted + right + 1, drafted + length, accepted + right
    ms *= QUICK if most == QUICK_LIMIT else 1.0
    timings = {"predicted_ms": ms, "predicted_n": num_tokens}
    if drafted:
        timings |= {"draft_n": drafted, "draft_n_accepted": accepted}
    tokens = text(prompt, num_tokens, followers)
    if most and "lies" in os.environ.get("STANDIN", ""):
        tokens[-1] += 1
    return {"tokens": tokens, "timings": timings}


class Asked(StreamRequestHandler):
    """One request over HTTP, taken apart."""

    def handle(self) -> None:
        _, path, _ = self.rfile.readline().decode().split()
        length = 0
        for line in iter(self.rfile.readline, b""):
            if line == b"\r\n":
                break
            name, _, value = line.lower().partition(b": ")
            length = int(value) if name == b"content-length" else length
        self.asked(path, json.loads(self.rfile.read(length)) if length else None)

    def asked(self, path: str, content: dict[str, Any] | None) -> None:
        """Answer it; None: it has no content."""
        raise NotImplementedError

    def answer(self, status: int, body: bytes) -> None:
        """Send everything at once."""
        head = b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        self.wfile.write(head + body)


class _Answers(Asked):
    most, unsure, accepting, requests, followers = 0, False, False, 1, FOLLOWERS

    def asked(self, path: str, content: dict[str, Any] | None) -> None:
        """JSON is answered with a text, anything else with good health."""
        if content is None:
            self._send({"status": "ok"})
            return
        if "dies" in os.environ.get("STANDIN", ""):
            os._exit(3)
        answer = completion(
            content["prompt"], content["n_predict"], self.most, self.followers, unsure=self.unsure,
            accepting=self.accepting, requests=self.requests,
        )  # fmt: skip
        self._send(answer)

    def _send(self, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        if "silent" in os.environ.get("STANDIN", ""):
            body = b'{"content": ""}'
        self.answer(200, body)


class _Serving(TCPServer):
    allow_reuse_address = True
    request_queue_size = 64


def written(model: str) -> list[int]:
    """The followers that a model's file says."""
    with open(model) as file:
        return list(json.load(file))


def _value(flag: str, otherwise: str) -> str:
    return sys.argv[sys.argv.index(flag) + 1] if flag in sys.argv else otherwise


def server() -> None:
    if "--version" in sys.argv:
        print("version: 1234 (standin)", file=sys.stderr)
        return
    if "old" in os.environ.get("STANDIN", "") and "--spec-draft-n-max" in sys.argv:
        print("error: invalid argument: --spec-draft-n-max", file=sys.stderr)
        sys.exit(1)
    _Answers.followers = written(_value("-m", ""))
    _Answers.unsure = float(_value("--spec-draft-p-min", "0")) > 0.9
    copied = _value("--spec-ngram-simple-size-m", "0")
    _Answers.most = int(_value("--spec-draft-n-max", copied))
    _Answers.accepting = float(_value("--spec-synth-len", "0")) == 1 + _Answers.most > 1
    _Answers.requests = int(_value("-np", "1"))
    assert int(_value("-c", "0")) % _Answers.requests == 0
    _Serving(("127.0.0.1", int(_value("--port", "0"))), _Answers).serve_forever()


def bench() -> None:
    draft = "draft" in _value("-m", "")
    rows = [
        {"n_prompt": n, "samples_ns": [1e6 * (DRAFT_MS * n if draft else pass_ms(n))] * 4}
        for n in map(int, _value("-p", "1").split(","))
    ]
    print(json.dumps(rows))


def installed(folder: Path, followers: list[int] = FOLLOWERS) -> Path:
    """The two programs in `folder`, and two files that pass for models."""
    for name, what in (("llama-server", "server"), ("llama-bench", "bench")):
        path = folder / name
        path.write_text(
            f"#!{sys.executable} -S\n"  # nothing that is installed: there are hundreds of starts
            f"import sys\nsys.path.insert(0, {os.path.dirname(__file__)!r})\n"
            f"import standin\nstandin.{what}()\n"
        )
        path.chmod(0o755)
    for name in ("target.gguf", "draft.gguf"):
        (folder / name).write_text(json.dumps(followers))
    return folder
