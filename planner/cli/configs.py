"""The shapes of models by the names on the command line, from config.json alone: no weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..documents.document import PlannerError, read_json
from ..documents.model_shape import ModelShape, count_in
from ..documents.origin import ModelInfo, looks_up
from .models import EMBEDDED, is_embedded, quiet_hub

if TYPE_CHECKING:
    from engines.acceptance_sources import CountedByEngine

CONFIG = "config.json"


def shape_named(name: str) -> ModelShape:
    """The shape of a folder's model, of one on the hub, or of an embedded one.

    Raises PlannerError for a name that leads to no config.json, and for one that does not say how
    large the model is.
    """
    if looks_up(name):
        raise PlannerError(
            f"draft: got {name}, whose time is on no data sheet, expected a model; planner "
            "profile measures it"
        )
    return ModelShape.of(_config(name), name)


def counted_pair(target: str, draft: str) -> CountedByEngine:
    """A target and what drafts for it, which only an engine loads.

    draft  its name, or the method that needs no model

    Raises PlannerError where the target has no config.json, or none that says its sizes.
    """
    from engines.acceptance_sources import CountedByEngine

    whole = _config(target)
    inner = whole.get("text_config")
    config = inner if isinstance(inner, dict) else whole
    vocab_size = count_in(config, "vocab_size", target)
    max_positions = count_in(config, "max_position_embeddings", target)
    try:
        num_parameters = ModelShape.of(config, target).num_parameters
    except PlannerError:
        num_parameters = 0
    info = ModelInfo(
        name=target,
        fingerprint="",
        num_parameters=num_parameters,
        vocab_size=vocab_size,
        max_positions=max_positions,
    )
    dtype = whole.get("dtype") or whole.get("torch_dtype") or "unknown"
    drafted = info.model_copy(update={"name": draft, "num_parameters": 0})
    return CountedByEngine(info, drafted, str(dtype))


def _config(name: str) -> dict[str, Any]:
    if is_embedded(name):
        return _embedded(name)
    folder = Path(name)
    path = folder / CONFIG if folder.is_dir() else _on_the_hub(name)
    return dict(read_json(path))


def _embedded(name: str) -> dict[str, Any]:
    from runtime.embedded import pair_paths
    from runtime.embedded.shape import Shape

    base, at, shape = name.partition("@")
    pair, place = EMBEDDED[base]
    config = read_json(pair_paths(pair)[place] / CONFIG)
    # what is inflated has output embeddings of its own
    return config | Shape.parse(shape).sizes() | {"tie_word_embeddings": False} if at else config


def _on_the_hub(name: str) -> Path:
    reason = "no name of a repository"
    if not name.startswith((".", "/", "~")) and name.count("/") < 2:
        from transformers.utils import cached_file

        quiet_hub()
        try:
            found = cached_file(name, CONFIG)
        except (OSError, ValueError) as error:
            reason = (str(error).splitlines() or ["nothing is said of why"])[0]
        else:
            assert found is not None
            return Path(found)
    raise PlannerError(
        f"{name}: no folder with a {CONFIG}, and none found on the hub ({reason:.120})"
    )
