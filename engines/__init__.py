"""The engines that people serve with: timed, asked to carry a plan out, and compared."""

from collections.abc import Callable

from .assisted_generation import AssistedGeneration
from .llama_server import LlamaServer
from .openvino_pipeline import OpenVinoPipeline
from .program import MOST_TOKENS, Answer, Files, PassTimes, Program, Running
from .sglang_server import SglangServer
from .vllm_server import VllmServer

__all__ = [
    "MOST_TOKENS",
    "PROGRAMS",
    "Answer",
    "AssistedGeneration",
    "Files",
    "LlamaServer",
    "OpenVinoPipeline",
    "PassTimes",
    "Program",
    "Running",
    "SglangServer",
    "VllmServer",
]

PROGRAMS: dict[str, Callable[[Files, int], Program]] = {
    "llamacpp": LlamaServer,
    "openvino": OpenVinoPipeline,
    "hf": AssistedGeneration,
    "vllm": VllmServer,
    "sglang": SglangServer,
}
"""Engines by the names that `planner export --to` has for them, made of their files and of the
number of tokens that they have to make room for."""
