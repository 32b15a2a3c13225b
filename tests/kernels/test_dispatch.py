"""The backend that serves a call, and what importing the package costs."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import tree_kernels
from tree_kernels import backend, reference

from .trees import chain, int32

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


FRESH = """
import sys, torch, tree_kernels, tree_kernels.host
from tree_kernels.tree_attention import tree_attention

tree_kernels.ancestor_bits(torch.zeros((1, 1), dtype=torch.int32) - 1)
print(sorted({'triton', 'numba', 'transformers'} & set(sys.modules)))
import tree_kernels.tree_attention
print(tree_kernels.tree_attention.__module__, tree_attention.__module__)
"""


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What a process says in which the package is new."""
    result = subprocess.run(
        [sys.executable, "-c", FRESH],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'kernels'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.splitlines()


def test_importing_the_package_loads_no_compiler(said):
    """Not with a call by the reference, either."""
    assert said[0] == "[]"


def test_the_functions_name_is_not_taken_by_the_module(said):
    """A module that is imported late replaces whatever its package calls by that name."""
    assert said[1] == "tree_kernels.dispatch tree_kernels.tree_attention"


@pytest.mark.parametrize(
    ("device", "dtype", "head_dim", "reason"),
    [
        ("cpu", torch.float64, 64, "float64"),
        ("cpu", torch.float16, 257, "257"),
        ("cpu", torch.float16, 0, "1 to 256, not 0"),
        ("cpu", torch.float16, 64, "GPU|not installed"),
        ("meta", torch.bfloat16, 64, "GPU|not installed"),
    ],
)
def test_what_triton_does_not_serve_is_said_in_one_line(device, dtype, head_dim, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        raise ValueError(tree_kernels.available(device, dtype, head_dim))
    assert "\n" not in str(caught.value)


def test_without_triton_the_reference_serves(monkeypatch):
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    backend.unavailable.cache_clear()
    assert tree_kernels.available("cuda", torch.float16, 64) == "Triton is not installed"
    assert tree_kernels.ancestor_bits(chain(3)[None]).tolist() == [[[1], [3], [7]]]
    backend.unavailable.cache_clear()


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize(("interpret", "served"), [("0", False), ("1", True)])
def test_the_interpreter_serves_the_cpu(interpret, served, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", interpret)
    backend.unavailable.cache_clear()
    assert (tree_kernels.available("cpu", torch.float32, 64) is None) == served
    backend.unavailable.cache_clear()


def test_asking_for_a_backend_that_cannot_serve_is_refused():
    tensor = torch.zeros(1, 1, 3, 4)
    arguments = (tensor, tensor, tensor, int32(0), reference.ancestor_bits(chain(3)[None]))
    with pytest.raises(ValueError, match="expected auto or reference"):
        tree_kernels.tree_attention(*arguments, backend="triton")
    with pytest.raises(ValueError, match="expected auto, triton or reference"):
        tree_kernels.ancestor_bits(chain(3)[None], backend="cuda")
    output = tree_kernels.tree_attention(*arguments, backend="reference")
    assert torch.equal(output, tree_kernels.tree_attention(*arguments))
