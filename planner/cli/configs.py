"""The shapes of models by the names on the command line, from config.json alone: no weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..documents.document import PlannerError, read_json
from ..documents.model_shape import ModelShape
from ..documents.origin import looks_up
from .models import EMBEDDED, is_embedded, quiet_hub

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
    if is_embedded(name):
        return ModelShape.of(_embedded(name), name)
    folder = Path(name)
    path = folder / CONFIG if folder.is_dir() else _on_the_hub(name)
    return ModelShape.of(read_json(path), name)


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
