"""Hugging Face's models, as the decode loop asks for a language model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import accumulate
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from planner.documents.document import PlannerError
from planner.documents.origin import ModelInfo

from .attention import MASKED, TREE, visibility, why_not_tree
from .cache import CachesTogether, RowCache, TreeCache
from .language_model import PassInput, PassOutput
from .probe import check_tree_passes
from .short_weights import in_eight_bits

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

TESTED_FAMILIES = (
    "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "llama", "mistral", "olmo2", "phi3",
    "qwen2", "qwen3",
)  # fmt: skip
"""Model types that the tests hold against plain passes; others are probed when they are wrapped."""

SHAPE_FIELDS = (
    "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps",
    "rope_theta", "rope_parameters", "sliding_window", "layer_types",
)  # fmt: skip
"""Entries of a configuration that change what its weights compute."""

SAMPLES_PER_WEIGHT = 64  # entries of each weight tensor that go into the fingerprint


class HuggingFaceModel:
    """Any causal language model of transformers whose attention can be told what each row sees.

    model  a `*ForCausalLM` module, on its device, in its dtype; put into evaluation mode
    name   what documents shall call it; default the configuration's own name

    A model with sliding-window layers is served up to the shortest window, where those layers
    compute full attention, and one whose rotary positions change with the length of the text
    (longrope) up to the length at which they do.  A family that is not among `TESTED_FAMILIES` is
    probed with a small tree, and so is any that computes it with `tree_kernels`.  Raises
    PlannerError for what cannot be served: recurrent or chunked layers, encoder-decoders, attention
    that takes no mask, weights on several devices.
    """

    def __init__(self, model: PreTrainedModel, *, name: str | None = None) -> None:
        config = model.config.get_text_config(decoder=True)
        self.name: str = name or model.config._name_or_path or config.model_type
        _check_served(model, config, self.name)
        self.module = model.eval()
        self.vocab_size = int(config.vocab_size)
        self.max_positions = _max_positions(config)
        self.device: torch.device = next(model.parameters()).device
        stop = getattr(self.generation_config, "eos_token_id", None)
        self.stop_tokens = () if stop is None else tuple(np.atleast_1d(stop).tolist())
        self.dtype = "int8" if in_eight_bits(model) else str(model.dtype).removeprefix("torch.")
        self._num_layers = int(config.num_hidden_layers)
        self._config = config
        self.saved: Mapping[str, Tensor] = {}  # weights that the module has only while it computes
        self._info: ModelInfo | None = None
        self._visibility = visibility(config, self.device, model.dtype)
        self.attention: str = self._visibility.name
        if config.model_type not in TESTED_FAMILIES or config._attn_implementation == TREE:
            check_tree_passes(self)

    @property
    def generation_config(self) -> GenerationConfig | None:
        """The sampling, and more, that the model's makers recommend."""
        return getattr(self.module, "generation_config", None)

    @property
    def info(self) -> ModelInfo:
        if self._info is None:
            self._info = ModelInfo(
                name=self.name,
                fingerprint=fingerprint(self.module, self._config, self.saved),
                num_parameters=sum(weight.numel() for weight in self.module.parameters()),
                vocab_size=self.vocab_size,
                max_positions=self.max_positions,
                hidden_size=getattr(self._config, "hidden_size", None),
                num_layers=self._num_layers,
                inflated_from=getattr(self.module.config, "inflated_from", None),
                matched_from=getattr(self._config, "matched_from", None),
            )
        return self._info

    def new_cache(self, capacity: int) -> TreeCache:
        return TreeCache(self._num_layers, capacity)

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> Tensor:
        num_rows = len(tokens)
        keep = num_rows if num_logits is None else num_logits
        output = self.module(
            input_ids=tokens[None],
            position_ids=positions[None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=max(keep, 1),
            **self._visibility.arguments(num_rows, cache.length, visible),
        )
        assert isinstance(cache, TreeCache)
        cache.append(num_rows)
        return output.logits[0, -keep:] if keep else output.logits[0, :0]

    def forward_with_hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        with self._hidden() as caught:
            logits = self.forward(tokens, positions, cache, visible, num_logits=num_logits)
        return logits, caught[0][0, caught[0].shape[1] - len(logits) :]

    def forward_batch(self, inputs: Sequence[PassInput]) -> list[PassOutput]:
        """All rows are one sequence to the model, in which texts do not see each other."""
        inputs = [asked.there() for asked in inputs]
        wanted = [asked.num_wanted for asked in inputs]
        with self._hidden() as caught:
            logits = self._of_texts(inputs, wanted)
        hidden = caught[0][0, : len(logits)]
        parts = zip(logits.split(wanted), hidden.split(wanted), strict=True)
        return [PassOutput(*each) for each in parts]

    @torch.inference_mode()
    def _of_texts(self, inputs: Sequence[PassInput], wanted: Sequence[int]) -> Tensor:
        """Logits of the last `wanted` rows of each text, one text's behind the other's."""
        counts = [len(asked.tokens) for asked in inputs]
        caches = [asked.cache for asked in inputs if isinstance(asked.cache, TreeCache)]
        seen = [(len(asked.tokens), asked.cache.length, asked.visible) for asked in inputs]
        ends = zip(accumulate(counts), wanted, strict=True)
        kept = [row for end, num in ends for row in range(end - num, end)]
        together = CachesTogether(caches, counts, apart=self._visibility.apart)
        output = self.module(
            input_ids=torch.cat([asked.tokens for asked in inputs])[None],
            position_ids=torch.cat([asked.positions for asked in inputs])[None],
            past_key_values=together,
            use_cache=True,
            logits_to_keep=torch.tensor(kept or [0], device=self.device),
            **self._visibility.for_texts(seen),
        )
        together.append(sum(counts))
        return output.logits[0, : len(kept)]

    @contextmanager
    def _hidden(self) -> Iterator[list[Tensor]]:
        """Hidden states of a pass, caught on their way into the output layer, so that only the rows
        wanted are kept and nothing is computed twice; another thread's are left to that."""
        caught: list[Tensor] = []
        own = get_ident()
        hook = self.module.get_output_embeddings().register_forward_pre_hook(
            lambda module, inputs: caught.append(inputs[0]) if get_ident() == own else None
        )
        try:
            yield caught
        finally:
            hook.remove()


def _check_served(model: PreTrainedModel, config: Any, name: str) -> None:
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    unserved = sorted(kinds - {"full_attention", "sliding_attention"})
    if unserved:
        fault = f"layers of type {', '.join(unserved)}"
    elif getattr(model.config, "is_encoder_decoder", False):
        fault = "an encoder-decoder"
    elif getattr(config, "use_bidirectional_attention", None) in (True, "all") or not getattr(
        config, "is_causal", True
    ):
        fault = "attention that sees what follows"
    elif not getattr(config, "num_hidden_layers", 0) or not hasattr(config, "vocab_size"):
        fault = f"a {config.model_type} model without layers or vocabulary in its configuration"
    elif not getattr(model, "_supports_attention_backend", False):
        fault = f"a {config.model_type} model, whose attention does not follow the common interface"
    elif config._attn_implementation not in (*MASKED, TREE):
        fault = f"attention {config._attn_implementation!r}, which takes no tree mask"
    elif config._attn_implementation != "eager" and (scores := why_not_tree(config)):
        raise PlannerError(
            f"{name}: got {scores}, which attention {config._attn_implementation} does not know; "
            "choose attention eager"
        )
    elif len({weight.device for weight in model.parameters()}) > 1:
        fault = "weights on several devices"
    else:
        return
    raise PlannerError(
        f"{name}: got {fault}; expected a causal language model with full attention and a "
        f"key-value cache, on one device, loaded with attention {' or '.join(MASKED)}"
    )


def _max_positions(config: Any) -> int:
    """Positions up to which every layer is full attention, with rotations that stay as they are."""
    kinds = getattr(config, "layer_types", None)
    slides = kinds is None or "sliding_attention" in kinds
    limits = (
        getattr(config, "max_position_embeddings", None),
        getattr(config, "sliding_window", None) if slides else None,
        getattr(config, "keep_window_size", None),  # beyond it Doge leaves out rows
        *_switching_lengths(getattr(config, "rope_parameters", None)),
    )
    return min((int(limit) for limit in limits if limit), default=2**31 - 1)


def _switching_lengths(rotations: Any) -> Iterator[int | None]:
    """Lengths of text behind which all of it is rotated anew, though its keys are in the cache."""
    if not isinstance(rotations, dict):
        return
    for each in (rotations, *rotations.values()):  # of the layers, or of each kind of them
        if isinstance(each, dict) and each.get("rope_type") == "longrope":
            yield each.get("original_max_position_embeddings")


@torch.inference_mode()
def fingerprint(
    model: nn.Module, config: Any, saved: Mapping[str, Tensor] = MappingProxyType({})
) -> str:
    """SHA-256 over the shape and, for every weight, its name, its shape and up to
    `SAMPLES_PER_WEIGHT` of its entries, evenly spaced, as float32.

    saved  weights by name that are elsewhere than in the model

    The same weights give the same fingerprint on any device; another dtype gives another one
    unless its entries are equal as float32.
    """
    shape = {field: getattr(config, field, None) for field in SHAPE_FIELDS}
    digest = sha256(json.dumps(shape, sort_keys=True, default=str).encode())
    for weight_name, weight in sorted(model.named_parameters()):
        digest.update(f"{weight_name}{tuple(weight.shape)}".encode())
        step = max(1, weight.numel() // SAMPLES_PER_WEIGHT)
        flat = saved.get(weight_name, weight).detach().reshape(-1)
        entries = flat[::step][:SAMPLES_PER_WEIGHT].to(weight.dtype)
        digest.update(entries.float().cpu().numpy().tobytes())
    return digest.hexdigest()
