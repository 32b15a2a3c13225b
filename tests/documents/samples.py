"""Small valid documents, made by hand, for tests of reading and writing."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner import Profile

MACHINE = {
    "platform": "Linux",
    "cpu": "some processor",
    "num_threads": 2,
    "device": "cpu",
    "python": "3.11",
    "torch": "2.13",
    "transformers": "5.23",
}
EXECUTION = {"dtype": "float32", "attention": "sdpa"}


def model(name: str, vocab_size: int = 7) -> dict[str, Any]:
    return {
        "name": name,
        "fingerprint": name,
        "num_parameters": 10,
        "vocab_size": vocab_size,
        "max_positions": 64,
    }


def curve(counts: list[int], times: list[float]) -> dict[str, Any]:
    return {
        "counts": counts,
        "median_ms": times,
        "low_ms": [0.9 * time for time in times],
        "high_ms": [1.1 * time for time in times],
        "repeats": 5,
    }


def profile_content() -> dict[str, Any]:
    return {
        "format": "profile",
        "version": 1,
        "created": "2026-01-01T00:00:00+00:00",
        "machine": MACHINE,
        "execution": EXECUTION,
        "target": model("target"),
        "draft": model("draft"),
        "costs": [
            {
                "batch_size": 1,
                "context": 32,
                "verify": curve([1, 2, 4, 8], [1.0, 1.1, 1.5, 1.4]),
                "draft_root": curve([1], [0.12]),
                "draft": curve([1, 2, 4], [0.1, 0.1, 0.2]),
                "overhead": {"rrsw": curve([1, 8], [0.05, 0.06])},
                "target_step": curve([1], [1.05]),
                "draft_step": curve([1], [0.1]),
            }
        ],
        "acceptance": [
            {
                "sampling": {"temperature": 0.6},
                "verifier": "rrsw",
                "num_ranks": 2,
                "prompts": [
                    {"num_positions": 2, "acceptance": [0.5, 0.25]},
                    {"num_positions": 1, "acceptance": [0.75, 0.0]},
                ],
            }
        ],
    }


def optimal_content() -> dict[str, Any]:
    return {
        "sampling": {"temperature": 0.6},
        "replacement": False,
        "num_children": 2,
        "prompts": [
            {"num_positions": 2, "acceptance": [0.5, 0.875]},
            {"num_positions": 1, "acceptance": [0.75, 1.0]},
        ],
    }


def profile_with_traces() -> Profile:
    content = profile_content()
    content["acceptance"][0] |= {"expected": "a/expected", "emitted": "a/emitted"}
    expected = np.array([[0.5, 0.25], [0.5, 0.25], [0.75, 0.0]], np.float32)
    emitted = np.array([[1.0, 0.0], [0.0, 0.5], [0.75, 0.0]], np.float32)
    return Profile.parse(content, "sample").with_arrays(
        {"a/expected": expected, "a/emitted": emitted}, "p.safetensors"
    )


def plan_content() -> dict[str, Any]:
    return {
        "format": "plan",
        "version": 1,
        "drafting": {"kind": "tree", "parents": [-1, 0, 0, 1]},
        "verifier": "rrsw",
        "sampling": {"temperature": 0.6},
    }


def report_content() -> dict[str, Any]:
    return {
        "format": "report",
        "version": 1,
        "created": "2026-01-01T00:00:00+00:00",
        "plan": plan_content(),
        "plan_sha256": "0",
        "seed": 0,
        "machine": MACHINE,
        "execution": EXECUTION,
        "target": model("target"),
        "draft": model("draft"),
        "measured": {
            "num_tokens": 3,
            "num_steps": 2,
            "num_draft_passes": 4,
            "num_drafted": 6,
            "num_accepted": 1,
            "tokens_per_step": 1.5,
            "draft_acceptance_rate": 0.1666,
            "ms_per_token": 2.0,
            "phases": {"prefill_ms": 1.0, "draft_ms": 1.0, "verify_ms": 4.0, "accept_ms": 1.0},
        },
        "continuations": [
            {
                "num_prompt_tokens": 4,
                "tokens": [1, 2, 3],
                "tokens_by_step": [2, 1],
                "decode_ms": 6.0,
            }
        ],
    }


def costs_content() -> dict[str, Any]:
    return {
        "format": "costs",
        "version": 1,
        "source": "a paper",
        "costs": [
            {
                "context": 32,
                "verify": {"counts": [1, 4, 8], "ms": [10.0, 13.0, 14.0]},
                "draft": {"counts": [1, 4], "ms": [1.0, 1.6]},
            }
        ],
    }


CONTENTS = {
    "profile": profile_content,
    "plan": plan_content,
    "report": report_content,
    "costs": costs_content,
}
