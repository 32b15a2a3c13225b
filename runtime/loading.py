"""Models and tokenizers by hub name or folder."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from planner.documents.errors import PlannerError, in_one_line
from tree_kernels import available

from .attention import CHOICES, MASKED, TREE, head_size, register_tree_attention, why_not_tree
from .fused import fused, is_fusable
from .graphed import graphed
from .language_model import LanguageModel
from .llama_shape import FAMILIES
from .models import HuggingFaceModel
from .short_weights import to_eight_bits
from .split import PartModel, num_parts
from .streamed import Placement, StreamedModel, placed, stream
from .vocabulary import Tokens, matched, refit

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

_log = logging.getLogger(__name__)

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
    "int8": torch.float32,
}
"""The types that are computed in; weights of int8 are rounded to it and read so (`rounded`)."""


def load_model(
    name: str | Path,
    *,
    device: str = "cpu",
    dtype: str = "auto",
    attention: str = "auto",
    drafts_for: str | Path | None = None,
    memory: float | None = None,
) -> HuggingFaceModel:
    """The causal language model in the folder or hub repository `name`.

    dtype       one of `DTYPES`, or "auto" for the one it was saved in
    attention   as for `with_attention`
    drafts_for  the target, likewise by its name: a model whose vocabulary is another, by its
                padding or by its tokenizer, answers in the target's tokens then (said in one line)
    memory      GB of the device that the layers may take; those that do not go in are read anew in
                every pass, on a GPU from the host's memory, on a CPU from the disk.  None: no limit

    Raises PlannerError in one line when it cannot be found, loaded or served.
    """
    from transformers import AutoModelForCausalLM

    place, kind = checked_device(device), checked_dtype(dtype)
    checked_attention(attention)
    own = attention if attention in MASKED else None
    load = partial(
        _loaded, AutoModelForCausalLM, "causal language model", name, dtype=kind,
        attn_implementation=own,
    )  # fmt: skip
    parts = None if memory is None else _placed(name, memory, place, dtype)
    try:
        if parts is None:
            model = load()
        else:
            model = load(device_map=parts.modules)
            stream(model, parts)
        if drafts_for is not None:
            _match_vocabulary(model, name, drafts_for)
        if parts is None:
            model = rounded(model.to(place), dtype)
    except torch.OutOfMemoryError:
        raise PlannerError(
            f"{name}: does not fit into the memory of {device}; choose a smaller model or dtype"
        ) from None
    return with_attention(model, attention, name=str(name))


def load_part(
    name: str | Path, num_processes: int, *, dtype: str, attention: str
) -> PreTrainedModel:
    """This process's part of a model that `num_processes` processes load together, each on its own
    device.  Raises PlannerError as `load_model` does, and for models that are not to be split."""
    from transformers import AutoModelForCausalLM
    from transformers.distributed import DistributedConfig

    try:
        model = _loaded(
            AutoModelForCausalLM, "causal language model that is split", name,
            dtype=checked_dtype(dtype),
            attn_implementation=attention if attention in MASKED else None,
            distributed_config=DistributedConfig(tp_plan="auto", tp_size=num_processes),
        )  # fmt: skip
    except torch.OutOfMemoryError:
        raise PlannerError(
            f"{name}: does not fit into the memory of {num_processes} devices; choose more of them"
        ) from None
    if num_parts(model) == 1:
        raise PlannerError(
            f"{name}: got a {model.config.model_type} model, which transformers does not know how "
            "to split; load it into one process"
        )
    return model


def _match_vocabulary(draft: PreTrainedModel, name: str | Path, target: str | Path) -> None:
    sizes = [
        config.get_text_config(decoder=True).vocab_size
        for config in (load_config(target), draft.config)
    ]
    try:
        tokenizers = [load_tokenizer(each) for each in (target, name)]
    except PlannerError as error:
        if sizes[0] == sizes[1]:
            return
        raise PlannerError(
            f"draft: got {name} with a vocabulary of {sizes[1]}, expected {sizes[0]} as {target} "
            f"has, or tokenizers by which to match them ({error})"
        ) from None
    wanted, own = (Tokens.of(each, size) for each, size in zip(tokenizers, sizes, strict=True))
    found = matched(wanted, own, tokenizers[1])
    if found.is_plain(sizes[1]):
        return
    refit(draft, found)
    _log.warning(
        "%s: %d tokens, matched to the %d of %s, of which it can draft %d",
        name, sizes[1], sizes[0], target, found.num_shared,
    )  # fmt: skip


def _placed(name: str | Path, memory: float, device: torch.device, dtype: str) -> Placement | None:
    if not isinstance(memory, int | float) or not memory >= 0:
        raise PlannerError(f"target memory: got {memory!r}, expected GB, 0 or more")
    if dtype == "int8":
        raise PlannerError(
            "target memory: got dtype int8, expected one that weights are saved in; "
            "give --dtype float32, bfloat16 or float16"
        )
    from accelerate import big_modeling

    logging.getLogger(big_modeling.__name__).setLevel(logging.ERROR)  # it warns of what was asked
    config = load_config(name)
    kind = DTYPES.get(dtype) or config.dtype or torch.float32
    return placed(config, memory, device, kind)


def rounded(model: PreTrainedModel, dtype: str) -> PreTrainedModel:
    """A model that computes in `DTYPES[dtype]`, its weights rounded in place if that is int8.

    Raises PlannerError for int8 where our own passes, which read it, do not serve the model.
    """
    if dtype == "int8":
        if not is_fusable(model):
            raise PlannerError(
                f"dtype: got int8 for a {model.config.model_type} model on {model.device}, "
                f"expected one of {', '.join(FAMILIES)} on a CPU, with memory for two more "
                "copies and no attention asked for; give --dtype float32 or bfloat16"
            )
        to_eight_bits(model)
    return model


def with_attention(
    model: PreTrainedModel, attention: str = "auto", *, name: str | None = None
) -> HuggingFaceModel:
    """The adapter around `model`, its attention computed as asked for.

    attention  "tree" for `tree_kernels`; "sdpa" or "eager" for transformers' own with a mask; or
               "auto": "tree" on a GPU where its kernel serves the model, else transformers' own
               (why not the kernel is logged in one line)

    Raises PlannerError when the model cannot be served so.
    """
    checked_attention(attention)
    if attention != "auto":
        return _served(model, TREE if attention == "tree" else attention, name)
    config = model.config.get_text_config(decoder=True)
    own: str = config._attn_implementation
    own = "eager" if own == "sdpa" and why_not_tree(config) else own
    no_kernel = available(model.device, model.dtype, head_size(config))
    reason = no_kernel or why_not_tree(config)
    if reason is None:
        try:
            return _served(model, TREE, name)
        except PlannerError as error:
            reason = str(error)
    served = _served(model, own, name)
    if model.device.type == "cuda" or no_kernel is None:
        _log.warning("%s: attention %s, not the tree kernel: %s", served.name, own, reason)
    return served


def _served(model: PreTrainedModel, implementation: str, name: str | None) -> HuggingFaceModel:
    if implementation == TREE:
        register_tree_attention()
    if model.config._attn_implementation != implementation:
        try:
            model.set_attn_implementation(implementation)
        except (ValueError, ImportError) as error:
            reason = " ".join(str(error).split())[:120]
            raise PlannerError(
                f"attention: got {implementation!r}, which transformers has not for a "
                f"{model.config.model_type} model; choose another ({reason})"
            ) from None
    return _quickest(model, name)


def _quickest(model: PreTrainedModel, name: str | None) -> HuggingFaceModel:
    """The fastest adapter around a model, on the device that it is on."""
    if hasattr(model, "streaming"):
        return StreamedModel(model, name=name)
    if num_parts(model) > 1:
        return PartModel(model, name=name)
    return graphed(model, name=name) if model.device.type == "cuda" else fused(model, name=name)


def as_language_model(
    model: LanguageModel | nn.Module, *, name: str | None = None
) -> LanguageModel:
    """`model` itself, or the fastest adapter around a Hugging Face module.

    Raises PlannerError for anything else and for modules that cannot be served.
    """
    if isinstance(model, nn.Module) and hasattr(model, "config"):
        return _quickest(cast("PreTrainedModel", model), name)
    if isinstance(model, LanguageModel):
        return model
    raise PlannerError(
        f"model: got a {type(model).__name__}, expected a transformers causal language model or a "
        "runtime.LanguageModel; load names and folders with runtime.load_model"
    )


def load_config(name: str | Path) -> PreTrainedConfig:
    """The configuration of the model in the folder or hub repository `name`.

    Raises PlannerError likewise.
    """
    from transformers import AutoConfig

    config: PreTrainedConfig = _loaded(AutoConfig, "configuration", name)
    return config


def load_tokenizer(name: str | Path) -> Any:
    """The tokenizer in the folder or hub repository `name`.

    Raises PlannerError likewise, and where none was saved there: transformers then makes one of
    the model's family, which knows special tokens only.
    """
    from transformers import AutoTokenizer

    tokenizer = _loaded(AutoTokenizer, "tokenizer", name)
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise PlannerError(
            f"{name}: got no tokenizer, expected one saved beside the model; save it there, or "
            "give prompts as token ids (a .jsonl with ids)"
        )
    return tokenizer


def checked_device(device: str) -> torch.device:
    """`device` as torch knows it.  Raises PlannerError if this machine has no such device."""
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).item()  # "meta" can make tensors, but has no values
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0][:120]
        raise PlannerError(
            f"device: got {device!r}, expected one that this machine has, e.g. 'cpu' or 'cuda' "
            f"({reason})"
        ) from None
    return place


def checked_dtype(dtype: str) -> torch.dtype | str:
    """`dtype` as torch knows it, or "auto".  Raises PlannerError for any other word."""
    if dtype == "auto":
        return dtype
    if dtype not in DTYPES:
        raise PlannerError(f"dtype: got {dtype!r}, expected auto or one of {', '.join(DTYPES)}")
    return DTYPES[dtype]


def checked_attention(attention: str) -> str:
    """`attention`, one of `CHOICES`.  Raises PlannerError for any other word."""
    if attention not in CHOICES:
        raise PlannerError(f"attention: got {attention!r}, expected one of {', '.join(CHOICES)}")
    return attention


def _loaded(kind: Any, word: str, name: str | Path, **settings: Any) -> Any:
    num_slashes = str(name).count("/")
    looks_local = num_slashes == 0 and str(name).startswith((".", "~"))
    no_hub_name = isinstance(name, Path) or num_slashes > 1 or looks_local
    if no_hub_name and not Path(name).is_dir():
        raise PlannerError(
            f"{name}: no such folder; expected a saved model or a hub name like 'owner/name'"
        )
    try:
        return kind.from_pretrained(name, **settings)
    except Exception as error:  # of any kind: strange files stumble anywhere in transformers
        reason = in_one_line(error, 200)
        raise PlannerError(
            f"{name}: cannot be loaded as a {word}; expected a saved model's folder or a hub name "
            f"that can be reached from here ({reason})"
        ) from None
