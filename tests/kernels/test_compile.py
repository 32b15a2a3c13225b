"""The machine code of the kernels for two generations of GPUs, read off the machine code."""

from collections import defaultdict
from itertools import product
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: there is no compiler to ask")

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from tree_kernels.backend import interpreted
from tree_kernels.configs import TABLE, choose_config
from tree_kernels.verify_kernels import JUDGES, descend

from .ahead import SHARED, SMALL, attention, combination, signature, small

pytestmark = pytest.mark.skipif(interpreted(), reason="kernels are interpreted, not compiled")


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """Compiled here and now, once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        yield


CALLS = {
    "one token": {"num_rows": 1},
    "64 nodes": {"num_rows": 64},
    "64 nodes in groups of 4": {"num_rows": 256, "group": 4, "lengths": True},
    "1024 nodes in groups of 8, lists": {"num_rows": 8192, "group": 8, "lists": True, "splits": 0},
    "head dimension 80": {"num_rows": 192, "group": 3, "head_dim": 80},
}


FURTHER = (
    (80, "64 nodes in groups of 4"),
    (80, "head dimension 80"),
    (90, "1024 nodes in groups of 8, lists"),
)
"""In `make soak`: each has the tile of another call on its GPU, and what it asks for is compiled
for the other one."""


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        pytest.param(*each, marks=[pytest.mark.soak] * (each in FURTHER))
        for each in product(SHARED, CALLS)
    ],
)
def test_tiles_fit_the_gpu_and_copy_while_they_compute(capability, name):
    options = dict(CALLS[name])
    num_rows, head_dim = options.pop("num_rows"), options.get("head_dim", 128)
    config = choose_config(num_rows, head_dim, 2, SHARED[capability])
    code = attention(capability, config, **options)
    assert code.spills == 0
    assert code.shared <= SHARED[capability]
    promised = [row for row in TABLE if row.config == config and row.head_dim >= head_dim]
    assert code.shared <= promised[0].shared
    # Keys and values are copied asynchronously, 16 bytes at a time.
    assert code.count("LDGSTS", "128") > 0
    assert code.count("LDG", "U16") == 0
    by_warpgroups = capability == 90 and config.block_m >= 64
    assert (code.count("HGMMA") > 0) == by_warpgroups
    assert (code.count("HMMA") > 0) != by_warpgroups


@pytest.mark.parametrize("capability", SHARED)
def test_splits_are_combined_from_registers(capability):
    code = combination(capability, choose_config(64, 128, 2, SHARED[capability]))
    assert code.spills == 0
    assert code.count("LDG", "128") > 0
    assert code.count("STG", "64") + code.count("STG", "128") > 0


AROUND_A_DIVISION = 16
"""Most registers put aside where a number of 64 bits is divided, a few times a node."""


@pytest.mark.parametrize("name", SMALL)
def test_the_kernels_around_compile(name):
    code = small(90, name)
    assert code.spills <= AROUND_A_DIVISION * name.startswith(("descend", "traverse"))
    assert code.shared <= 48 * 1024


def test_every_judge_makes_a_kernel_of_its_own_once(monkeypatch):
    """As a launch would ask for it on a GPU that is not there.  That each can be compiled, and from
    arguments of these types, is seen above: here it is only told by which name it would be kept."""
    gpu = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
    )
    numbers = [torch.zeros(4, dtype=torch.int32)] * 3
    given = [torch.zeros(4, 9), torch.zeros(4, 9), *numbers, torch.zeros(4, dtype=torch.int64)]
    given += [torch.zeros(4).double(), torch.zeros(6, 4).double(), torch.zeros(2, 5).long(), 4, 9]
    monkeypatch.setattr(driver, "_active", gpu)
    asked = []

    def named(source, **others):
        asked.append(source)
        return source.hash()

    monkeypatch.setattr(triton.compiler, "compile", named)
    monkeypatch.setattr(descend, "compile", None, raising=False)  # what it had comes back
    monkeypatch.setattr(descend, "device_caches", defaultdict(descend.create_binder))
    made = [
        descend.warmup(*given, JUDGE=judge, BLOCK=16, num_warps=1, grid=(1,))
        for judge in [*JUDGES.values()] * 2
    ]
    assert made[: len(JUDGES)] == made[len(JUDGES) :]
    assert len(set(made)) == len(JUDGES) == len(asked)
    types = signature(descend, "float32", SMALL["descend, sampled"][1])
    assert all(source.signature == types for source in asked)


def test_rows_are_read_before_any_is_written():
    """A barrier between the loads and the stores of 16 bytes."""
    code = small(90, "keep")
    assert code.count("LDG", "128") > 0
    assert code.count("STG", "128") > 0
    assert code.count("BAR") > 0


def test_float32_is_not_rounded_on_the_way():
    """No tensor cores, whose float32 has 10 bits."""
    code = attention(80, choose_config(16, 64, 4, SHARED[80]), dtype="float32", head_dim=64)
    assert code.spills == 0
    assert code.count("HMMA") == 0
    assert code.count("FFMA") > 0
