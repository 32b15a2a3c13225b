"""SGLang resolves its server's arguments, and loads its tables."""

import os
import shlex
import sys
import tempfile
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from types import ModuleType
from unittest.mock import MagicMock

from transformers.utils import is_torchvision_available

from .answering import answer
from .models import saved

FIELDS = ("algorithm", "num_steps", "eagle_topk", "num_draft_tokens")


class _Absent(ModuleType):
    """A module of torchvision, which has no build for processors here, and texts need none."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


def without_torchvision() -> None:
    """Importing it works from now on, to no effect; transformers remembers that there is none."""
    is_torchvision_available()
    for name in ("", ".transforms", ".transforms.functional", ".transforms.v2"):
        sys.modules[f"torchvision{name}"] = _Absent(f"torchvision{name}")
    for name in ("torchvision.transforms.v2.functional", "torchvision.io"):
        sys.modules[name] = _Absent(name)


def read(engine: str, content: str) -> dict[str, object]:
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.speculative import adaptive_spec_params
    from sglang.srt.speculative.dspark_components import dspark_sps

    loaders = {
        "sglang-adaptive": adaptive_spec_params.resolve_candidate_steps_from_config,
        "sglang-sps": dspark_sps.load_sps_table_from_path,
        "sglang-sps-additive": dspark_sps.load_sps_table_from_path,
    }
    if engine in loaders:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(content)
            file.flush()
            return {"loaded": str(loaders[engine](file.name))}
    target, draft = saved()
    words = ["--model-path", target, "--device", "cpu", *shlex.split(content)]
    made = prepare_server_args([draft if word == "DRAFT" else word for word in words])
    made.resolve_once()
    made.check_server_args()
    return {name: made.resolved_dict()[f"speculative_{name}"] for name in FIELDS}


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    without_torchvision()
    answer(f"SGLang {version('sglang')}", read)
