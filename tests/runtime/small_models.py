"""Random-weight models of the families that the adapter serves, as small as they come."""

from __future__ import annotations

from functools import cache

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from planner import Plan
from planner.documents.sampling import Sampling
from planner.plans.plan import TreeDrafting
from runtime.attention import TREE, register_tree_attention

VOCABULARY = 97
POSITIONS = 160

FAMILIES: dict[str, dict] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 8},
    "mistral": {"sliding_window": None, "head_dim": 8},
    "gemma": {"head_dim": 8},
    "gemma2": {"head_dim": 8, "sliding_window": POSITIONS},
    "gemma3_text": {"head_dim": 8, "sliding_window": POSITIONS},
    "olmo2": {},
    "phi3": {"pad_token_id": 0},
    "gpt_neox": {},
    "gpt2": {},
}


@cache
def small_model(
    family: str, *, seed: int = 0, layers: int = 2, hidden: int = 32, attention: str = "sdpa"
) -> PreTrainedModel:
    """Weights wide enough that the most probable token changes with the text."""
    config = AutoConfig.for_model(
        family,
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        initializer_range=0.2,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        **FAMILIES[family],
    )
    if attention == "tree":
        register_tree_attention()
        attention = TREE
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()


def plan(parents: list[int], *, verifier: str = "rrsw", temperature: float = 0.0) -> Plan:
    return Plan(
        drafting=TreeDrafting(parents=parents),
        verifier=verifier,
        sampling=Sampling(temperature=temperature),
    )
