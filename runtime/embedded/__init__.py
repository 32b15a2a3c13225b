"""The small real model pair that ships with Espalier: a Llama target and two one-layer drafts.

They were trained on Python source by `make train`; README.md says how well they do.  Weights are
stored in float16; nothing is read before a function here is called.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from planner import PlannerError

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

PAIRS = ("distilled", "plain")
TARGET_DIR = "target"
DRAFT_DIRS = {"distilled": "draft", "plain": "draft_plain"}
PROMPT_SETS = ("profile", "evaluation")

__all__ = ["PAIRS", "load_pair", "load_prompts", "load_tokenizer", "pair_paths"]


def load_pair(name: str = "distilled") -> tuple[LlamaForCausalLM, LlamaForCausalLM]:
    """(target, draft) in float32 on the CPU, in evaluation mode; `name` is one of PAIRS."""
    target, draft = pair_paths(name)
    return _load(target), _load(draft)


def load_tokenizer() -> PreTrainedTokenizerBase:
    """The byte-level BPE tokenizer that target and drafts share."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(_existing(TARGET_DIR))


def load_prompts(name: str = "profile", count: int = 64) -> list[list[int]]:
    """Held-out prompts as token ids, [count][64]; `name` is "profile" or "evaluation".

    They come from files of the standard library that no model was trained on; no file is in both.
    Raises PlannerError for another name, and for more prompts than there are (256).
    """
    if name not in PROMPT_SETS:
        raise PlannerError(f"got prompts {name!r}, expected one of {', '.join(PROMPT_SETS)}")
    prompts = json.loads(_existing("prompts.json").read_text())[name]
    if not 1 <= count <= len(prompts):
        raise PlannerError(f"got a count of {count} prompts, expected 1 to {len(prompts)}")
    return prompts[:count]


def pair_paths(name: str = "distilled") -> tuple[Path, Path]:
    """(target, draft) as folders that `from_pretrained` reads; `name` is one of PAIRS."""
    if name not in PAIRS:
        raise PlannerError(f"got the pair {name!r}, expected one of {', '.join(PAIRS)}")
    return _existing(TARGET_DIR), _existing(DRAFT_DIRS[name])


def _load(folder: Path) -> LlamaForCausalLM:
    import torch
    from safetensors.torch import load_file
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig.from_pretrained(folder)
    config.dtype = torch.float32
    model = LlamaForCausalLM(config)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights)
    model.generation_config = GenerationConfig.from_pretrained(folder)
    return model.eval()


def _existing(name: str) -> Path:
    path = Path(__file__).parent / name
    if not path.exists():
        raise PlannerError(
            f"the embedded models lack {name}; restore runtime/embedded from the repository or run "
            "`python -m runtime.embedded.training.train`"
        )
    return path
