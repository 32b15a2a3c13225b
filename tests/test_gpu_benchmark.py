"""The GPU benchmark without a GPU: its arithmetic, its table, its parts on the CPU, its refusal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import comparison, sanitizer
from benchmarks.gpu.__main__ import PARTS, TOTAL_SECONDS, _fault, _right, main
from benchmarks.gpu.baselines import OtherAttention
from benchmarks.gpu.bench import Bench, OutOfTime, Skipped
from benchmarks.gpu.goals import GOALS, table
from benchmarks.gpu.inputs import inputs, random_parents, relative_error
from benchmarks.gpu.results import Results
from benchmarks.gpu.shapes import (
    LLAMA_2_7B,
    LLAMA_3_8B,
    LLAMA_70B,
    NODES,
    PREFIXES,
    TINY,
    Case,
    DeviceLimits,
    cases,
)
from benchmarks.gpu.tuning import candidates, configs
from benchmarks.gpu.warm_up import Call, compile_all
from tree_kernels.configs import TABLE, Config

ROOT = Path(__file__).parent.parent
H100 = DeviceLimits(bytes_per_s=3.0e12, flops_per_s=790e12)
CHAIN_OF_64 = 2080
"""Pairs: 64 · 65 / 2."""


@pytest.mark.parametrize(
    ("case", "num_bytes", "num_flops", "floor_us", "memory_bound"),
    [
        # 2·32·128 · 8256 · 2 + 2·64·32·128 · 2;  4·32·128 · (64·8192 + 2080)
        (Case(LLAMA_2_7B, 8192, 64), 136_314_880, 8_624_013_312, 45.438, True),
        # 2·8·128 · 8256 · 2 + 2·64·64·128 · 2;  4·64·128 · (64·8192 + 2080)
        (Case(LLAMA_70B, 8192, 64), 35_913_728, 17_248_026_624, 21.833, False),
    ],
)
def test_floor_by_hand(case, num_bytes, num_flops, floor_us, memory_bound):
    assert case.num_bytes(2) == num_bytes
    assert case.num_flops(CHAIN_OF_64) == num_flops
    assert case.floor_us(CHAIN_OF_64, 2, H100) == pytest.approx(floor_us, abs=1e-3)
    assert case.memory_bound(CHAIN_OF_64, 2, H100) == memory_bound


@pytest.mark.parametrize(("shape", "most"), [(LLAMA_2_7B, 263), (LLAMA_3_8B, 65), (LLAMA_70B, 32)])
def test_arithmetic_takes_over_at_a_known_size(shape, most):
    """A long prefix alone: n G flops a byte, and 790 / 3 = 263.3 of them are free."""
    assert Case(shape, 10**12, most).memory_bound(0, 2, H100)
    assert not Case(shape, 10**12, most + 1).memory_bound(0, 2, H100)


def test_the_grid_holds_every_case_once():
    grid = cases(dry=False)
    assert len(grid) == len(set(grid)) == 3 * len(PREFIXES) * len(NODES)
    assert {case.prefix for case in grid} == set(PREFIXES)


def test_the_parts_end_inside_a_quarter_of_an_hour():
    assert TOTAL_SECONDS + 10 * len(PARTS) <= 15 * 60
    assert sum(PARTS.values()) <= TOTAL_SECONDS
    assert list(PARTS)[:4] == ["limits", "correctness", "law", "sanitizer"]


def test_inputs_are_what_dense_attention_sees():
    case = Case(TINY, 9, 40)
    made = inputs(case, torch.float32, torch.device("cpu"), seed=3)
    assert made.mask.shape == (1, 1, 40, 49)
    assert made.mask[..., :9].all()
    assert torch.equal(made.mask[0, 0, :, 9:], made.seen)
    assert len(made.caches) == 4
    assert len({cache.data_ptr() for cache in made.caches}) == 4
    assert not made.caches[0][..., :49, :].isnan().any()
    assert made.caches[0][..., 49:, :].isnan().all()
    assert made.tree_pairs == made.seen.sum()
    assert relative_error(torch.full((2,), float("nan")), torch.ones(2)) == 1e9


def test_random_trees_have_parents_first():
    parents = random_parents(50, seed=1)
    assert parents[0] == -1
    assert all(0 <= parents[node] < node for node in range(1, 50))


def synthetic(path: Path) -> Results:
    """Rows as if measured: every number can be worked out below."""
    results = Results(path)
    named = {"shape": "llama-2-7b", "group": 1, "prefix": 8192}
    results.start("limits")
    results.add("limits", {"what": "matmul", "per_s": 800e12})
    results.start("speed")
    for nodes, median, floor, bound in ((1, 50.0, 45.0, "memory"), (64, 60.0, 45.0, "memory"),
                                        (1024, 400.0, 200.0, "compute")):  # fmt: skip
        results.add("speed", {"what": "tree kernel", **named, "nodes": nodes, "median_us": median,
                              "floor_us": floor, "bound": bound, "tflop_per_s": 400.0})  # fmt: skip
    for order, median in (("creation", 30.0), ("heavy-path", 12.0)):
        results.add("speed", {"what": f"order {order}", **named, "median_us": median})
    results.start("comparison")
    for name, median in (("tree kernel", 60.0), ("stock", 500.0), ("sdpa cudnn", 90.0),
                         ("sdpa math", 700.0), ("flexattention", 63.0),
                         ("flexattention's mask", 237.0)):  # fmt: skip
        results.add("comparison", {"what": name, "shape": "llama-3-8b", "group": 4,
                                   "prefix": 8192, "nodes": 64, "median_us": median})  # fmt: skip
    results.start("correctness")
    results.add("correctness", {"what": "a", "dtype": "float32", "error": 1e-6, "right": True})
    results.add("correctness", {"what": "b", "dtype": "float16", "error": 2e-3, "right": False})
    results.end("correctness", "done", 1.0)
    return results


def test_every_goal_is_judged_by_its_worst_case(tmp_path):
    printed = table(synthetic(tmp_path / "gpu.json"))
    rows = [line for line in printed.splitlines() if line.startswith(("K", "–"))]
    assert len(rows) == len(GOALS)
    expected = {
        "K1": "0.75 0.825 0.9 2 met",  # 45/60, their mean, 45/50
        "K2": "not measured",
        "K4": "0.5 0.5 0.5 1 met",  # 400 of 800 TFLOP/s
        "K5": "1.2 1.2 1.2 1 met",  # 60/50
        "K6": "8.33 8.33 8.33 1 met",  # 500/60
        "K7": "1.5 1.5 1.5 1 met",  # 90/60, cudnn being the best backend
        "K9": "not measured",
        "K11": "2.5 2.5 2.5 1 met",  # 30/12
    }
    for key, words in expected.items():
        (line,) = (row for row in rows if row.split()[0] == key)
        assert " ".join(line.split()).endswith(words)
    alone, with_build = (row for row in rows if row.startswith("K8"))
    assert " ".join(alone.split()).endswith("1.05 1.05 1.05 1 missed")  # 63/60 of 1.1
    assert " ".join(with_build.split()).endswith("5 5 5 1 met")  # (63 + 237)/60
    assert [row.split()[-1] for row in rows if row.startswith("K12")] == [
        "met",
        "missed",
        "measured",
    ]
    assert "  b: wrong" in printed
    assert "speed        broken off" in printed


def test_rows_are_on_disk_as_they_come(tmp_path):
    path = tmp_path / "gpu.json"
    results = synthetic(path)
    again = Results(path)
    assert again.content == results.content
    assert again.state("speed") == "broken off"
    assert again.state("correctness") == "done"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_is_a_row_and_time_ends_a_part(tmp_path):
    results = Results(tmp_path / "gpu.json")
    results.start("speed")
    bench = Bench("speed", results, deadline=0.0, dry=True)

    def fail():
        raise RuntimeError("no\nkernel")

    bench.attempt({"what": "a"}, fail)
    assert results.rows("speed") == [{"what": "a", "failed": "RuntimeError: no kernel"}]
    with pytest.raises(OutOfTime):
        bench.attempt({"what": "a"}, bench.check_time)


def test_a_dry_run_measures_every_case(tmp_path, monkeypatch, capsys):
    """The first part in a process of its own, as all are; the others in this one, to start none."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'kernels'}")
    monkeypatch.chdir(ROOT)
    path = tmp_path / "new" / "dry.json"
    parts = ("limits", "correctness", "speed")
    assert main(["--dry-run", "-o", str(path), "--part", parts[0]]) == 0
    assert "no time says anything about the kernel" in capsys.readouterr().out
    for part in parts[1:]:
        assert main(["--dry-run", "-o", str(path), "--child", part, "--seconds", "90"]) == 0
    content = json.loads(path.read_text())
    assert {name: part["state"] for name, part in content["parts"].items()} == dict.fromkeys(
        parts, "done"
    )
    rows = content["parts"]["correctness"]["rows"]
    assert all(row["right"] for row in rows)
    assert len(rows) == 21
    timed = [row for row in content["parts"]["speed"]["rows"] if row["what"] == "tree kernel"]
    assert len(timed) == len(cases(dry=True))
    assert all(row["median_us"] > 0 and row["floor_us"] > 0 for row in timed)


def test_a_part_out_of_time_says_so(tmp_path):
    """One that is not started any more, one that does not know enough, one that stops by itself."""
    path = tmp_path / "dry.json"

    def ended(*options: str) -> str:
        main(["--dry-run", "-o", str(path), *options])
        return Results(path).state("speed")

    assert ended("--part", "speed", "--seconds", "0.99") == "out of time"
    skipped = "skipped: the limits of the device were not measured"
    assert ended("--child", "speed", "--seconds", "60") == skipped
    with_limits(Results(path))
    assert ended("--child", "speed", "--seconds", "0") == "out of time"
    assert not Results(path).rows("speed")


def with_limits(results: Results) -> None:
    """As if the device had been measured."""
    results.start("limits")
    for what in ("copy", "matmul"):
        results.add("limits", {"what": what, "per_s": 1e9})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_line_says_so(capsys):
    assert main([]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("benchmarks.gpu: got no ")
    made = subprocess.run(
        ["make", "--silent", "gpu", f"PYTHON={sys.executable}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode != 0
    assert line in made.stderr


def test_the_kernels_part_needs_nothing_of_the_planners():
    parts = [*PARTS]
    code = (
        f"import sys, {', '.join(f'benchmarks.gpu.{part}' for part in [*parts, 'goals'])}\n"
        "print(sorted({'pydantic', 'planner', 'runtime', 'transformers'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'kernels'}"},
    )  # fmt: skip
    assert result.stdout.strip() == "[]"


def test_calls_are_made_in_other_processes_beforehand():
    """Two that can be made, and one whose configuration is for Triton, which serves no CPU."""
    device, odd = torch.device("cpu"), Config(16, 32, 4, 2, 1)
    calls = [Call(Case(TINY, 8, 3), torch.float32), Call(Case(TINY, 8, 5), torch.float32)]
    calls.append(Call(Case(TINY, 8, 3), torch.float64, odd))
    assert compile_all(calls, device, seconds=120, workers=1) == 2
    assert compile_all(calls, device, seconds=0.0, workers=1) == 0


def test_configurations_fit_the_case_and_shared_memory():
    case = Case(LLAMA_3_8B, 8192, 64)  # 256 rows
    tried = list(configs(case, 2))
    assert len(tried) == len(set(tried)) > 10
    assert {config.block_m for config in tried} == {64, 128}
    for config in tried:
        held = (2 * config.num_stages * config.block_n + config.block_m) * 128 * 2
        assert held * config.programs_per_sm <= 227_000
    assert {config.block_m for config in configs(Case(LLAMA_2_7B, 8192, 1), 2)} == {16}


def test_tuning_begins_with_the_line_of_the_table_that_serves():
    """A device with as much shared memory as the H100, and on one with less."""
    case = Case(LLAMA_3_8B, 8192, 64)
    for shared, line in ((232_448, Config(128, 128, 8, 3, 1)), (166_912, Config(128, 64, 8, 3, 1))):
        tried = candidates(case, 2, shared)
        assert tried[0] == line
        assert line in [row.config for row in TABLE]
        assert len(tried) == len(set(tried)) > 10


def test_nothing_that_a_part_started_outlives_it(tmp_path):
    """Neither one that ends by itself nor one that is ended."""
    for ends, expected in (("", None), ("time.sleep(60)", "had to be ended")):
        code = (
            "import subprocess, sys, time\n"
            "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
            f"open({str(tmp_path / 'pid')!r}, 'w').write(str(other.pid))\n{ends}"
        )
        assert _fault([sys.executable, "-c", code], 3, tmp_path / "log") == expected
        assert not _runs(int((tmp_path / "pid").read_text()))


def _runs(pid: int) -> bool:
    """Still, after a while in which it may end?"""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state == "Z":
            return False
        time.sleep(0.1)
    return True


def test_a_part_that_fails_says_its_last_line_and_the_log_has_all(tmp_path):
    log = tmp_path / "log"
    assert _fault([sys.executable, "-c", "raise SystemExit('no\\nkernel')"], 60, log) == "kernel"
    assert _fault([sys.executable, "-c", "raise SystemExit(3)"], 60, log) == "exit code 3"
    assert log.read_text() == "no\nkernel\n"


def test_what_was_not_checked_to_the_end_is_not_right(tmp_path):
    results = Results(tmp_path / "gpu.json")
    assert _right(results)
    results.start("correctness")
    results.end("correctness", "done", 1.0)
    assert not _right(results)  # without a row nothing was found, either
    results.start("correctness")
    results.add("correctness", {"what": "a", "right": True})
    results.end("correctness", "out of time", 1.0)
    assert _right(results)
    results.end("correctness", "failed: illegal memory access", 1.0)
    assert not _right(results)
    results.end("correctness", "done", 1.0)
    results.start("sanitizer")
    results.add("sanitizer", {"what": "memcheck", "right": False})
    assert not _right(results)
    results.start("sanitizer")
    assert _right(results)
    results.start("law")
    results.add("law", {"what": "law of rrsw", "right": False})
    assert not _right(results)


STAND_IN = """#!{python}
import os, subprocess, sys
print(os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"])
{run}
(errors,) = (each for tool, each in {errors}.items() if tool in " ".join(sys.argv))
print(f"========= ERROR SUMMARY: {{errors}} errors")
"""


@pytest.mark.parametrize(
    ("run_it", "expected"),
    [(True, [{"right": True}, {"right": False}]), (False, [{}, {"right": False}])],
)
def test_the_sanitizer_clears_only_what_was_computed(tmp_path, monkeypatch, run_it, expected):
    """A program that stands in for it runs the case for the first tool, or does not, and counts
    errors: none by the first, two by the other, which are errors whatever was computed."""
    program = tmp_path / "compute-sanitizer"
    start = "subprocess.run(sys.argv[sys.argv.index(sys.executable):], check=True)"
    start = f"if 'memcheck' in sys.argv: {start}"
    program.write_text(
        STAND_IN.format(
            python=sys.executable,
            run=start if run_it else "",
            errors={"memcheck": 0, "racecheck": 2},
        )
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'kernels'}")
    monkeypatch.chdir(ROOT)
    results = Results(tmp_path / "gpu.json")
    results.start("sanitizer")
    sanitizer.run(Bench("sanitizer", results, time.monotonic() + 120, dry=True))
    rows = results.rows("sanitizer")
    assert [row["what"] for row in rows] == ["memcheck", "racecheck"]
    assert [{key: row[key] for key in row if key == "right"} for row in rows] == expected
    assert ["could not run here" in row["note"] for row in rows] == [not run_it, False]
    assert not list(tmp_path.glob("*.sanitized"))


def test_what_has_to_be_compiled_is_compared_last(tmp_path, monkeypatch):
    """And what is not installed is asked for once."""

    def absent(made):
        raise Skipped("it is not installed")

    stock = comparison.BASELINES["stock"].prepare
    rows = {"slow": OtherAttention(stock, every_case=False), "gone": OtherAttention(absent),
            "stock": OtherAttention(stock)}  # fmt: skip
    monkeypatch.setattr(comparison, "BASELINES", rows)
    results = Results(tmp_path / "gpu.json")
    with_limits(results)
    results.start("comparison")
    comparison.run(Bench("comparison", results, time.monotonic() + 120, dry=True))
    found = [(row["what"], row["nodes"]) for row in results.rows("comparison")]
    assert found == [
        ("tree kernel", 1), ("gone", 1), ("stock", 1), ("tree kernel", 13), ("stock", 13),
        ("tree kernel", 1), ("slow", 1), ("tree kernel", 13), ("slow", 13),
    ]  # fmt: skip
    assert all("median_us" in row for row in results.rows("comparison") if row["what"] != "gone")


def test_wrong_usage_is_exit_code_2():
    with pytest.raises(SystemExit) as caught:
        main(["--part", "luck"])
    assert caught.value.code == 2
