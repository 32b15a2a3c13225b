"""A program that serves as `vllm` and as `sglang` do, metrics included, with times that are known.

It takes their options and no others.  Reading a prompt takes `PROMPT_MS`, a step of n tokens
`step_ms(n)`, slept through; tokens are right as in `standin`.  The last step of a text is counted
whole, as theirs is, also where the text ends within it.  `STANDIN` says what goes wrong, and
`STANDIN_FASTER` how many times as fast all of it is.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from socketserver import ThreadingTCPServer
from time import sleep

from .standin import FOLLOWERS, TYPE_CHECKING, WRONG_EVERY, Asked, text, written

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, ClassVar

FASTER = float(os.environ.get("STANDIN_FASTER", "1"))
PROMPT_MS = 20.0
VERSIONS = {"vllm": "0.33.0\n", "sglang": "sglang version: 0.5.23\ngit revision: 5baf5ea\n"}


def step_ms(num_tokens: int) -> float:
    return 1.0 + 0.25 * num_tokens


def steps(num_tokens: int, most: int, *, pausing: bool = False) -> Iterator[tuple[int, int]]:
    """(drafted, accepted) of every step behind the first token.

    pausing  is nothing drafted in every second step?
    """
    emitted = number = 0
    while emitted < num_tokens - 1:
        drafted = 0 if pausing and number % 2 else most
        right = 0
        while right < drafted and (1 + emitted + right) % WRONG_EVERY:
            right += 1
        yield drafted, right
        emitted, number = emitted + right + 1, number + 1


class _Serving(Asked):
    name = ""
    most = 0
    followers: ClassVar[list[int]] = FOLLOWERS
    counts: ClassVar[dict[str, int]] = {"steps": 0, "drafted": 0, "accepted": 0}

    def asked(self, path: str, content: dict[str, Any] | None) -> None:
        if content is None:
            said = {"/version": "0.33.0"} if self.name == "vllm" else {"/server_info": "0.5.23"}
            pages = {path: json.dumps({"version": number}) for path, number in said.items()}
            page = {"/health": "", "/metrics": self._metrics(), **pages}.get(path)
            self.answer(404 if page is None else 200, (page or "").encode())
        elif wrong("refuses") or path != "/v1/completions":
            self.answer(400, b"no such\nthing")
        else:
            self._complete(content)

    def _complete(self, asked: dict[str, Any]) -> None:
        assert asked["stream"]
        assert asked["return_token_ids"]
        assert asked["ignore_eos"]
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        tokens = text(asked["prompt"], asked["max_tokens"], self.followers)
        sleep(PROMPT_MS / FASTER / 1e3)
        sent = 0 if wrong("lumps") else self._send(tokens[:1], asked["prompt"])
        for drafted, right in steps(len(tokens), self.most, pausing=wrong("pauses")):
            sleep(step_ms(1 + drafted) / FASTER / 1e3)
            if wrong("dies"):
                os._exit(3)
            if drafted:
                counted = {"steps": 1, "drafted": drafted, "accepted": right}
                for key, count in counted.items():
                    self.counts[key] += count * (9 if wrong("shared") else 1)
            sent += self._send(tokens[sent : max(sent, 1) + right + 1])
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, tokens: list[int], prompt: list[int] | None = None) -> int:
        choice = {"index": 0, "text": "", "token_ids": tokens, "prompt_token_ids": prompt}
        if wrong("silent"):
            del choice["token_ids"]
        failed = {"error": {"message": "EngineCore encountered an issue", "code": 500}}
        self._event(json.dumps(failed if wrong("fails") else {"choices": [choice]}))
        return len(tokens)

    def _event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))

    def _metrics(self) -> str:
        """Counters among others, as the Prometheus client writes them."""
        counts = dict(self.counts)
        if self.name == "vllm":
            names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
            labels = 'engine="0",model_name="target"'
            named = {f"vllm:spec_decode_{name}": counts[key]
                     for name, key in zip(names, counts, strict=True)}  # fmt: skip
        else:
            labels = 'engine_type="unified",model_name="target"'
            named = {"sglang:spec_verify_calls": counts["steps"]} if counts["steps"] else {}
        named = {} if wrong("bare") or not self.most else named
        lines = []
        for name, count in {"process_cpu_seconds": 1, **named}.items():
            lines += [f"# HELP {name}_total What is counted.", f"# TYPE {name}_total counter"]
            lines += [f"{name}_total{{{labels}}} {float(count)}"]
            lines += [f"{name}_created{{{labels}}} 1.7636736e+09"]
        return "\n".join(lines) + "\n"


class _Server(ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 64


def wrong(what: str) -> bool:
    return what in os.environ.get("STANDIN", "")


def serve(name: str) -> None:
    if sys.argv[1:] in (["--version"], ["version"]):
        print(VERSIONS[name], end="")
        return
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("command", choices=["serve"])
    valued = ["--host", "--port"]
    if name == "vllm":
        parser.add_argument("model")
        parser.add_argument("--no-enable-prefix-caching", action="store_true")
        valued += ["--max-model-len", "--gpu-memory-utilization", "--num-gpu-blocks-override"]
        valued += ["--speculative-config"]
    else:
        parser.add_argument("--model-path", dest="model")
        parser.add_argument("--disable-radix-cache", action="store_true")
        parser.add_argument("--enable-metrics", action="store_true")
        valued += ["--context-length", "--max-total-tokens", "--speculative-algorithm"]
        valued += ["--speculative-draft-model-path", "--speculative-num-steps"]
        valued += ["--speculative-eagle-topk", "--speculative-num-draft-tokens"]
    for flag in valued:
        parser.add_argument(flag)
    given = parser.parse_args()
    if wrong("full"):
        print("ValueError: Free memory on device cuda:0 is less than desired", file=sys.stderr)
        print("RuntimeError: initialization failed. See root cause above.", file=sys.stderr)
        sys.exit(1)
    _Serving.name, _Serving.most = name, _told(name, given)
    _Serving.followers = written(given.model)
    _Server((given.host, int(given.port)), _Serving).serve_forever()


def _told(name: str, given: argparse.Namespace) -> int:
    """Tokens that it was told to draft."""
    if name == "vllm":
        config = json.loads(given.speculative_config or "null")
        if config is None:
            return 0
        assert ("model" in config) == (config["method"] not in ("mtp", "ngram"))
        assert config["draft_sample_method"] == "greedy"
        return int(config["num_speculative_tokens"])
    most = int(given.speculative_num_steps or 0)
    if most:
        assert given.enable_metrics
        assert (given.speculative_draft_model_path is None) == (
            given.speculative_algorithm == "NEXTN"
        )
        assert given.speculative_eagle_topk == "1"
        assert int(given.speculative_num_draft_tokens) == most + 1
    return most


def installed(folder: Path, name: str, followers: list[int] = FOLLOWERS) -> Path:
    """The program in `folder`, and two files that pass for models."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    path = folder / name
    path.write_text(
        f"#!{sys.executable} -S\nimport sys\nsys.path.insert(0, {root!r})\n"
        f"from tests.engines import served_standin\nserved_standin.serve({name!r})\n"
    )
    path.chmod(0o755)
    for model in ("target", "draft"):
        (folder / model).write_text(json.dumps(followers))
    return folder
