"""Who may import whom, and what must stay light: read from the source, not from memory."""

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STDLIB = sys.stdlib_module_names

# room -> packages from outside that it may import, rooms of ours that it may import
OUTSIDE = {
    "documents": {"numpy", "pydantic", "safetensors"},
    "compiling": {"numba"},
    "verifiers": {"numpy", "scipy", "cvxpy"},
    "policies": {"numpy", "numba", "pydantic"},
    "plans": {"pydantic"},
    "estimates": {"numpy", "scipy"},
    "trees": {"numpy"},
    "replay": {"numpy", "scipy"},
    "optimizer": {"numpy", "scipy", "cvxpy", "joblib"},
    "export": {"numpy", "yaml"},
    "show": {"numpy", "rich", "matplotlib"},
    "cli": {"click", "torch", "transformers"},
    "kernels": {"numpy", "numba", "llvmlite", "torch", "triton"},
    "runtime": {
        "numpy",
        "torch",
        "transformers",
        "tokenizers",
        "safetensors",
        "tqdm",
        "psutil",
        "accelerate",
    },
    "profiler": {"numpy", "torch", "safetensors", "tqdm", "psutil"},
    "engines": {"numpy", "torch", "transformers", "openvino", "openvino_genai"},
}
VOCABULARY = {"documents", "verifiers", "policies", "plans"}
INSIDE = {
    "documents": set(),
    "compiling": set(),
    "verifiers": {"documents", "compiling"},
    "policies": {"documents", "compiling"},
    "plans": {"documents", "verifiers", "policies"},
    "estimates": VOCABULARY | {"compiling"},
    "trees": {"documents", "compiling", "estimates"},
    "replay": VOCABULARY | {"compiling", "estimates"},
    "optimizer": VOCABULARY | {"compiling", "estimates", "trees", "replay"},
    "export": VOCABULARY | {"estimates", "replay", "optimizer"},
    "show": VOCABULARY | {"estimates", "trees", "replay", "optimizer", "export"},
    "cli": set(OUTSIDE),
    "kernels": set(),
    "runtime": VOCABULARY | {"kernels"},
    "profiler": VOCABULARY | {"runtime", "kernels"},
    "engines": VOCABULARY | {"estimates", "export", "runtime", "profiler"},
}
INSIDE_A_FUNCTION_ONLY = {"cvxpy"}
LIGHT_AT_THE_TOP = {"cli": {"torch", "numba", "transformers", "matplotlib"}}


def room(module: str) -> str | None:
    """The room that a module of ours belongs to; None for other people's.

    The package `planner` itself only hands on the names of the vocabulary: it is taken for plans.
    """
    top, *below = module.split(".")
    if top in ("runtime", "profiler", "engines"):
        return top
    if top == "tree_kernels":
        return "kernels"
    if top != "planner":
        return None
    first = below[0] if below else "plans"
    return "cli" if first == "__main__" else first


def sources() -> list[tuple[str, Path]]:
    found = []
    for folder in ("planner", "profiler", "runtime", "engines", "kernels/tree_kernels"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts[1:] if parts[0] == "kernels" else parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found.append((".".join(parts), path))
    return found


def imports(module: str, path: Path):
    """(imported module, at the top of the file?) for every import statement, relative ones too."""
    tree = ast.parse(path.read_text())
    inner = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(outer)
    }
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        at_top = id(node) not in inner
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, at_top
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            submodules = [f"{base}.{alias.name}" for alias in node.names]
            files = {name for name, _ in ALL}
            within = [name for name in submodules if name in files]
            yield from ((name, at_top) for name in (within or [base]))


ALL = sources()


def violations(module: str, path: Path) -> list[str]:
    own = room(module)
    if own not in INSIDE:
        return [f"{module}: belongs to no room"]
    wrong = []
    for name, at_top in imports(module, path):
        package, other = name.split(".")[0], room(name)
        if other is not None:
            if other != own and other not in INSIDE[own]:
                wrong.append(f"{module} ({own}) imports {name} ({other})")
        elif package not in STDLIB and package not in OUTSIDE[own]:
            wrong.append(f"{module} ({own}) imports {name}")
        if at_top and package in INSIDE_A_FUNCTION_ONLY:
            wrong.append(f"{module} imports {name} outside a function")
        if at_top and package in LIGHT_AT_THE_TOP.get(own, ()):
            wrong.append(f"{module} imports {name} at the top")
    return wrong


@pytest.mark.parametrize(("module", "path"), ALL, ids=[name for name, _ in ALL])
def test_imports_follow_the_arrows(module, path):
    assert violations(module, path) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("planner.documents.tree", "import torch"),
        ("planner.documents.tree", "from ..optimizer import solve"),
        ("planner.documents.profile", "from ..policies import Drafting"),
        ("planner.estimates.step_costs", "from profiler.times import pace"),
        ("planner.policies.greedy", "import torch"),
        ("planner.policies.greedy", "from planner.optimizer import choice"),
        ("planner.verifiers.rates", "from ..policies import settings"),
        ("planner.optimizer.choice", "import cvxpy"),
        ("planner.optimizer.choice", "from ..show import words"),
        ("planner.cli.solve", "import torch"),
        ("runtime.decode", "from planner.optimizer import solve"),
        ("tree_kernels.reference", "import transformers"),
        ("profiler.measure", "from planner import cli"),
    ],
)
def test_a_violation_is_seen(module, line, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(line)
    assert len(violations(module, path)) == 1


LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
sizes = dict(vocab_size=11, hidden_size=8, intermediate_size=8, num_hidden_layers=1)
config = LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=1)
tokens = LlamaForCausalLM(config).generate(
    torch.tensor([[1, 2]]), attention_mask=torch.ones(1, 2), max_new_tokens=3, min_new_tokens=3,
    do_sample=False, pad_token_id=0)
import tree_kernels
print(tokens.shape[1])
"""


def test_the_kernels_folder_is_not_taken_for_a_package_of_that_name(capsys):
    """By transformers, which the tests' own process imports with the folder in sight."""
    assert not (ROOT / "kernels" / "__init__.py").exists()
    seen = find_spec("kernels")
    assert seen.origin is not None or str(ROOT / "kernels") in seen.submodule_search_locations
    exec(LLAMA, {})
    assert capsys.readouterr().out.split()[-1] == "5"


def test_the_kernels_folder_gives_way_to_a_package_of_that_name(tmp_path):
    """A folder named as somebody's package must not be taken for it by transformers."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text(
        "__version__ = '99'\nORIGIN = 'theirs'\n"
        "def __getattr__(name): return type(name, (), {'__init__': lambda self, *a, **k: None})"
    )
    information = tmp_path / "kernels-99.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels\nVersion: 99\n")
    path = [str(ROOT), str(ROOT / "kernels"), str(tmp_path)]
    result = subprocess.run(
        [sys.executable, "-c", LLAMA + "import kernels; assert kernels.ORIGIN == 'theirs'"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(path), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.split()[-1] == "5"
