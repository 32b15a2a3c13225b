"""The exports that engines are asked to read, and how each is broken."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from planner.export import ENGINES, export
from planner.optimizer import solve
from tests.export.made_up import profile_at

ACCEPTED = Path(__file__).with_name("accepted.json")
DRAFT = "DRAFT"
"""The draft's name in an export; readers put a real folder or file in its place."""
GREEDY_ONLY = ("openvino",)
UNREAD = {
    "vllm-tree": "vLLM dropped trees after 0.20.2",
    "trtllm": "TensorRT-LLM's wheel is a placeholder without a GPU's own index",
    "trtllm-tree": "likewise",
    "medusa": "a list in a research repository, no package",
    "eagle": "likewise",
    "llamacpp-costs": "a proposal",
    "nvidia-profile": "a proposal",
}
"""Exports whose parser cannot be had, and why."""


@cache
def made() -> dict[str, str]:
    """Every export at temperatures 0 and .6, as `engine T=t`; a profile's hash is left out."""
    found = {}
    for temperature in (0.0, 0.6):
        profile = profile_at(temperature)
        plan = solve(profile, solver="fixed")
        for engine in ENGINES:
            if temperature == 0 or engine not in GREEDY_ONLY:
                content = export(plan, engine, profile=profile, draft=DRAFT).content
                content = content.replace(profile.fingerprint(), "SHA256")
                found[f"{engine} T={temperature:g}"] = content
    return found


def broken(engine: str, content: str) -> str:
    """The same with its first number made one that makes no sense; for SGLang, which takes any
    number, with a name misspelt."""
    if engine.startswith("sglang"):
        return content.replace("s", "z", 1)
    return re.sub(r"(?<![\w.-])\d+(\.\d+)?", "-7", content, count=1)
