"""OpenVINO GenAI reads its generation config."""

import json

import openvino_genai

from .answering import answer


def read(engine: str, content: str) -> dict[str, object]:
    wanted, config = json.loads(content), openvino_genai.GenerationConfig()
    config.max_new_tokens = 64
    for name, value in wanted.items():
        setattr(config, name, value)
    config.validate()
    return {name: getattr(config, name) for name in wanted}


if __name__ == "__main__":
    answer(f"OpenVINO GenAI {openvino_genai.get_version()}", read)
