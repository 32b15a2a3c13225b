"""The embedded pair in the formats that engines read, for `benchmarks.engines` and docs/engines.md.

    python -m benchmarks.engine_files -o DIR [--shapes 25M …] [--llama-source DIR] [--optimum FILE]

Folders as transformers saves them; GGUF files where llama.cpp's source is given, by its own
converter (which needs the package sentencepiece); folders for OpenVINO where the program
`optimum-cli` is given.  With `--weights int8` targets have 8 bits in these two, with `--weights
bfloat16` they are rounded to 16 in all; the draft, which is small, keeps its 32.  What is there
already is kept.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from planner.cli.models import load_named
from planner.documents.document import PlannerError
from runtime.embedded import pair_paths

CONVERTER = """
import runpy, sys
source = sys.argv.pop(1)
sys.path[:0] = [source, source + "/gguf-py"]
from conversion import base
for kind in vars(base).values():
    if isinstance(kind, type) and hasattr(kind, "get_vocab_base_pre"):
        kind.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
runpy.run_path(source + "/convert_hf_to_gguf.py", run_name="__main__")
"""
"""llama.cpp's converter knows tokenizers by a hash, and does not know ours, whose words are split
as GPT-2's are.  Engines are asked with token ids here, so that no text depends on it."""


def save_folder(name: str, folder: Path, dtype: str) -> None:
    """The embedded model called `name` as transformers saves it, its tokenizer beside it."""
    model = load_named(name, device="cpu", dtype=dtype, attention="sdpa")
    model.module.save_pretrained(folder)
    for file in pair_paths()[0].glob("tokenizer*"):
        shutil.copy(file, folder)


def made(command: list[str], result: Path) -> None:
    """`result`, by a command of somebody else's.  Raises PlannerError with its last words."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or not result.exists():
        last = ((done.stderr + done.stdout).strip().splitlines() or ["it printed nothing"])[-1]
        raise PlannerError(f"{result}: could not be made by {' '.join(command[-6:])}: {last[:300]}")


WORDS = {"float32": ("f32", "fp32"), "bfloat16": ("bf16", "fp16"), "int8": ("q8_0", "int8")}
"""Types of weights as llama.cpp's converter and optimum-cli call them."""


def folder_of(shape: str, weights: str) -> str:
    """The folder of an inflated target as transformers saves it, which is rounded to 8 bits only
    when it is read."""
    return stem_of(shape, "float32" if weights == "int8" else weights)


def stem_of(shape: str, weights: str) -> str:
    """The name of an inflated target's files in engines' formats, less its ending."""
    return f"target{shape}" + ("" if weights == "float32" else f"-{weights}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--shapes", nargs="+", default=["25M"], help="of the target, inflated")
    parser.add_argument("--weights", choices=list(WORDS), default="float32", help="of the target")
    parser.add_argument("--llama-source", type=Path, help="folder of convert_hf_to_gguf.py")
    parser.add_argument("--optimum", help="the program optimum-cli")
    arguments = parser.parse_args()
    names = {
        stem_of(shape, arguments.weights): (
            folder_of(shape, arguments.weights),
            f"embedded/target@{shape}",
        )
        for shape in arguments.shapes
    }
    for stem, (place, name) in (names | {"draft": ("draft", "embedded/draft")}).items():
        folder = arguments.output / place
        gguf, openvino = (arguments.output / f"{stem}.{kind}" for kind in ("gguf", "ov"))
        weights = "float32" if stem == "draft" else arguments.weights
        gguf_type, openvino_type = WORDS[weights]
        if not folder.exists():
            save_folder(name, folder, "bfloat16" if weights == "bfloat16" else "float32")
        if arguments.llama_source and not gguf.exists():
            source = str(arguments.llama_source.resolve())
            words = [str(folder), "--outfile", str(gguf), "--outtype", gguf_type]
            made([sys.executable, "-c", CONVERTER, source, *words], gguf)
        if arguments.optimum and not openvino.exists():
            words = ["--task", "text-generation-with-past", "--weight-format", openvino_type]
            command = [arguments.optimum, "export", "openvino", "--model", str(folder), *words]
            made([*command, str(openvino)], openvino / "openvino_model.xml")


if __name__ == "__main__":
    try:
        main()
    except PlannerError as error:
        sys.exit(f"error: {error}")
