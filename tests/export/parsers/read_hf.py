"""transformers reads its generation config."""

import json

import transformers

from .answering import answer


def read(engine: str, content: str) -> dict[str, object]:
    wanted = json.loads(content)
    config = transformers.GenerationConfig(**wanted)
    config.validate(strict=True)
    assert int(config.num_assistant_tokens) > 0, "num_assistant_tokens: expected above 0"
    return {name: getattr(config, name) for name in wanted}


if __name__ == "__main__":
    answer(f"transformers {transformers.__version__}", read)
