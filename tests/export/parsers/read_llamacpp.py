"""llama-server reads its command line; the folder that it lies in is named by LLAMA."""

import os
import re
import shlex
import subprocess
from pathlib import Path

from .answering import answer

SERVER = Path(os.environ["LLAMA"]) / "llama-server"


def read(engine: str, content: str) -> dict[str, object]:
    words = shlex.split(content.replace("DRAFT", "/nowhere/draft.gguf"))
    done = subprocess.run(
        [SERVER, "-m", "/nowhere/target.gguf", "--port", "0", *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = done.stderr + done.stdout
    if "/nowhere/target.gguf" not in said:  # it came as far as to look for the model
        raise ValueError(said.strip().splitlines()[-1])
    return dict(zip(words[::2], words[1::2], strict=True))


if __name__ == "__main__":
    done = subprocess.run([SERVER, "--version"], capture_output=True, text=True)
    found = re.search(r"version: (.*)", done.stderr + done.stdout)
    answer(f"llama.cpp {found[1] if found else '?'}", read)
