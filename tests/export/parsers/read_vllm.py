"""vLLM makes its whole engine configuration of --speculative-config, on its CPU platform."""

import os

os.environ.update(HF_HUB_OFFLINE="1", VLLM_LOGGING_LEVEL="ERROR")

import vllm
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser

from .answering import answer
from .models import saved

FIELDS = (
    "method",
    "num_speculative_tokens",
    "draft_sample_method",
    "rejection_sample_method",
    "num_speculative_tokens_per_batch_size",
    "synthetic_acceptance_rates",
)


def read(engine: str, content: str) -> dict[str, object]:
    target, draft = saved()
    words = ["--model", target, "--dtype", "float32", "--max-model-len", "512"]
    words += ["--speculative-config", content.replace("DRAFT", draft)]
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    made = EngineArgs.from_cli_args(parser.parse_args(words)).create_engine_config()
    understood = {name: getattr(made.speculative_config, name) for name in FIELDS}
    return {name: value for name, value in understood.items() if value is not None}


if __name__ == "__main__":
    answer(f"vLLM {vllm.__version__.split('+')[0]}", read)
