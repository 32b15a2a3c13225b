"""Compile kernels for GPUs that are not there, and count what the machine code holds."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tree_kernels.attention_kernels import attend, combine
from tree_kernels.configs import Config
from tree_kernels.launches import VERIFYING, power_of_two, walking_warps
from tree_kernels.layer_kernels import gate, norm, soften, turn
from tree_kernels.step_kernels import climb, invert, keep, list_blocks, race, walk
from tree_kernels.verify_kernels import JUDGES, descend, traverse

SHARED = {80: 166_912, 90: 232_448}
"""Most shared memory of one program, in bytes, by compute capability."""
SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
SCRATCH = ("partial", "partial_lse")
LISTS = ("block_lists", "block_counts")
LENGTHS = ("tree_sizes", "tree_rows")
PLACES = ("positions", "places")
ROWS = ("query", "key", "value", "out", "cache", "x", "added", "weight", "qkv", "keys", "values",
        "query_norm", "key_norm", "gate_up", "logits")  # fmt: skip
VERIFIED = ("draft_rows", "starts", "children")
INTEGERS = (
    "prefix_lengths", "parents", "bits", "lists", "rows", "counts", *LISTS, *LENGTHS, *VERIFIED
)  # fmt: skip
TYPES = (
    dict.fromkeys(("factor", "eps", "scale"), "fp32")
    | dict.fromkeys(INTEGERS, "*i32")
    | dict.fromkeys(
        ("tokens", "sampled", "next_tokens", "walked", "drawn", "seeds", *PLACES), "*i64"
    )
    | dict.fromkeys((*SCRATCH, "target_probs", "draft_probs", "probs", "speeds", "turns"), "*fp32")
    | dict.fromkeys(("uniforms", "notes"), "*fp64")
)
HEADS = {"HEADS": 32, "KV_HEADS": 8, "HEAD_DIM": 128, "BLOCK": 64}
SMALL = {
    "climb": (climb, {"BLOCK_ROWS": 32, "BLOCK_WORDS": 2}),
    "list_blocks": (
        list_blocks,
        {"GROUP": 4, "BLOCK_M": 64, "BLOCK_NODES": 16, "BLOCK_WORDS": 8, "tree_rows": None},
    ),
    "keep": (keep, {"HEAD_DIM": 128, "BLOCK_D": 128, "BLOCK_ROWS": 32}),
    "norm": (norm, {"NUM_FEATURES": 4096, "BLOCK": 4096}),
    "turn": (turn, {**HEADS, "query_norm": None, "key_norm": None}),
    "turn, normed": (turn, HEADS),
    "gate": (gate, {"NUM_UNITS": 11008, "BLOCK": 1024}),
    "soften": (soften, {"BLOCK": 2048}),
    "race": (race, {"BLOCK": 1024}),
    "invert": (invert, {"BLOCK": 2048, "NUM_BLOCKS": 16}),
    "walk": (walk, {"BLOCK_NODES": 64, "tree_sizes": None}),
    "traverse": (traverse, {"BLOCK": VERIFYING["paths"]}),
    **{f"descend, {method}": (descend, {"JUDGE": judge, "BLOCK": VERIFYING[method]})
       for method, judge in JUDGES.items()},
}  # fmt: skip
"""Kernels with the constants of an ordinary launch."""
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9.]*)")


@dataclass(frozen=True)
class MachineCode:
    """The demands of one compiled kernel on a GPU."""

    shared: int
    """Bytes of a program."""
    instructions: Counter[str]
    """How often each one stands in the code, by its full name, such as LDGSTS.E.BYPASS.128."""

    def count(self, name: str, ending: str = "") -> int:
        """Instructions of this first name, and this end of the full one."""
        return sum(
            number
            for full, number in self.instructions.items()
            if full.split(".")[0] == name and full.endswith(ending)
        )

    @property
    def spills(self) -> int:
        """Loads and stores of registers that did not fit."""
        return self.count("LDL") + self.count("STL")


def attention(
    capability: int,
    config: Config,
    *,
    dtype: str = "bfloat16",
    head_dim: int = 128,
    group: int = 1,
    splits: bool = True,
    lists: bool = False,
    lengths: bool = False,
) -> MachineCode:
    """`attend` as `tree_attention` launches it, with and without the tensors that may be None."""
    constants = {**_tile(config, head_dim, group), "INTERPRETED": False}
    for present, names in ((splits, SCRATCH), (lists, LISTS), (lengths, LENGTHS)):
        constants |= {} if present else dict.fromkeys(names)
    return _compiled(attend, capability, dtype, constants, config.num_warps, config.num_stages)


def combination(
    capability: int, config: Config, *, dtype: str = "bfloat16", head_dim: int = 128, group: int = 1
) -> MachineCode:
    """`combine` of 8 splits, behind it."""
    constants = _tile(config, head_dim, group) | dict.fromkeys(("block_counts", *LENGTHS))
    constants |= {"BLOCK_R": 4, "BLOCK_S": 8}
    return _compiled(combine, capability, dtype, constants, 4, 3)


def small(capability: int, name: str) -> MachineCode:
    """One of the kernels around the attention."""
    kernel, constants = SMALL[name]
    warps = walking_warps(constants["BLOCK"]) if kernel in (descend, traverse) else 4
    return _compiled(kernel, capability, "bfloat16", constants, warps, 3)


def signature(
    kernel: triton.JITFunction, dtype: str, constants: Mapping[str, object]
) -> dict[str, str]:
    """The type of each of a kernel's arguments."""
    numbers = dict.fromkeys(ROWS, "*" + SHORT[dtype])
    types = TYPES | numbers | dict.fromkeys(constants, "constexpr")
    return {name: types.get(name, "i32") for name in kernel.arg_names}


def _tile(config: Config, head_dim: int, group: int) -> dict[str, object]:
    return {
        "GROUP": group,
        "HEAD_DIM": head_dim,
        "BLOCK_D": power_of_two(head_dim),
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
    }


def _compiled(
    kernel: triton.JITFunction,
    capability: int,
    dtype: str,
    constants: Mapping[str, object],
    num_warps: int,
    num_stages: int,
) -> MachineCode:
    """A kernel whose pointers and strides are multiples of 16, as torch's and a cache's are."""
    types = signature(kernel, dtype, constants)
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, (name, kind) in enumerate(types.items())
        if kind.startswith("*") or name.endswith("_stride")
    }
    made = triton.compile(
        ASTSource(kernel, types, dict(constants), aligned),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": num_warps, "num_stages": num_stages},
    )
    return _read(made.asm["cubin"], made.metadata.shared)


def _read(cubin: bytes, shared: int) -> MachineCode:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        code = subprocess.run(
            [tool, "-sass", file.name], check=True, capture_output=True, text=True
        ).stdout
    instructions = Counter(INSTRUCTION.findall(code))
    assert instructions["EXIT"] > 0, "the listing of the machine code could not be read"
    return MachineCode(shared, instructions)
