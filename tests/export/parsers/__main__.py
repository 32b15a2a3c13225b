"""Every engine's own parser is asked: `make engines`, or this module [PARSER ...]."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from planner.documents.document import write_atomically

from .cases import ACCEPTED, UNREAD, broken, made

HERE = Path(__file__).parent
PLACE = HERE.parents[2] / "build/engines"
PARSERS = {
    "hf": ("hf",),
    "openvino": ("openvino",),
    "vllm": ("vllm", "synthetic"),
    "sglang": ("sglang", "sglang-adaptive", "sglang-sps", "sglang-sps-additive"),
    "llamacpp": ("llamacpp",),
}
"""Exports by who reads them; what is installed for a reader stands in its .txt, if anything is."""


def installed(parser: str) -> Path:
    """The folder of a parser's packages, made from its list if it is not there as listed."""
    listed, folder = HERE / f"{parser}.txt", PLACE / parser
    mark = folder / "installed.txt"
    if listed.exists() and not (mark.exists() and mark.read_text() == listed.read_text()):
        print(f"installing {parser}", file=sys.stderr)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        if subprocess.run([*pip, "--upgrade", "--target", folder, "-r", listed]).returncode:
            sys.exit(f"{parser}: what {listed.name} lists could not be installed; see above")
        for info in folder.glob("vllm-*.dist-info/METADATA"):  # its CPU platform goes by the name
            info.write_text(
                info.read_text().replace("\nVersion: 0.33.0\n", "\nVersion: 0.33.0+cpu\n")
            )
        mark.write_text(listed.read_text())
    return folder


def asked(parser: str, contents: list[tuple[str, str]]) -> tuple[str, list[list[object]]]:
    """(version, [what was understood or None, the error or None] of each (engine, content))."""
    path = os.pathsep.join([str(installed(parser)), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", f"tests.export.parsers.read_{parser}"],
        input=json.dumps(contents),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    if done.returncode:
        sys.exit(f"{parser}: its reader ended with status {done.returncode}; see above")
    answer = json.loads(done.stdout)
    return answer["version"], answer["read"]


def main() -> None:
    record = json.loads(ACCEPTED.read_text()) if ACCEPTED.exists() else {}
    fresh = made()
    old = {case: each for case, each in record.items() if each["content"] == fresh.get(case)}
    nobody = {"read_by": None, "as": None}
    found = {case: old.get(case, nobody) | {"content": text} for case, text in fresh.items()}
    wrong = []
    for parser in sys.argv[1:] or PARSERS:
        if parser == "llamacpp" and "LLAMA" not in os.environ:
            print("llamacpp: not asked; LLAMA names no folder of llama-server", file=sys.stderr)
            continue
        cases = [case for case in fresh if case.split()[0] in PARSERS[parser]]
        contents = [(case.split()[0], fresh[case]) for case in cases]
        spoilt = [(engine, broken(engine, content)) for engine, content in contents]
        version, answers = asked(parser, contents + spoilt)
        for case, (understood, error) in zip(cases, answers, strict=False):
            found[case] |= {"read_by": version, "as": understood}
            wrong += [f"{version} refuses {case}: {error}"] * bool(error)
        for case, (understood, error) in zip(cases, answers[len(cases) :], strict=True):
            wrong += [f"{version} takes a broken {case}: {understood}"] * (not error)
        print(f"{version}: {', '.join(PARSERS[parser])}", file=sys.stderr)
    if wrong:
        sys.exit("\n".join(wrong))
    write_atomically(ACCEPTED, json.dumps(found, indent=1) + "\n")
    left = {case.split()[0] for case, each in found.items() if each["read_by"] is None}
    for engine in sorted(left - UNREAD.keys()):
        print(f"{engine}: read by nobody yet", file=sys.stderr)


if __name__ == "__main__":
    main()
