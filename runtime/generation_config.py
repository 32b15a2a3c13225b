"""A transformers `GenerationConfig` as the sampling that a profile is measured under."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling

if TYPE_CHECKING:
    from transformers import GenerationConfig

DEFAULT_TOP_K = 50
"""The `top_k` that transformers samples with where a configuration has none."""
NEUTRAL = {
    "num_beams": 1, "typical_p": 1.0, "encoder_repetition_penalty": 1.0, "guidance_scale": 1.0,
    **dict.fromkeys(
        ("epsilon_cutoff", "eta_cutoff", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
         "penalty_alpha", "min_length", "min_new_tokens", "token_healing"), 0
    ),
    **dict.fromkeys(
        ("top_h", "bad_words_ids", "sequence_bias", "exponential_decay_length_penalty",
         "suppress_tokens", "begin_suppress_tokens", "watermarking_config", "forced_bos_token_id",
         "forced_eos_token_id", "constraints", "force_words_ids", "dola_layers"),
    ),
}  # fmt: skip
"""Fields that change which token comes next in ways that a plan knows nothing of, and the values at
which they change nothing, besides None and what is empty; token 0 may be forced as any other."""


def sampling_of(config: GenerationConfig) -> Sampling:
    """The sampling that `generate` does under `config`.

        samplings = (sampling_of(AutoModelForCausalLM.from_pretrained(name).generation_config),)
        measure_profile(pair, prompts, Settings(samplings=samplings))

    Raises PlannerError, naming the field, where `config` asks for more than a plan can hold: beams,
    forbidden n-grams and the like, or a temperature below 0.
    """
    for name, neutral in NEUTRAL.items():
        asked = getattr(config, name, None)
        empty = isinstance(asked, (list, tuple, dict)) and not asked
        if not (asked is None or empty or (neutral is not None and asked == neutral)):
            raise PlannerError(
                f"generation_config.{name}: got {asked}, expected none: of what changes the next "
                "token, plans know temperature, top_k, top_p, min_p, repetition_penalty; unset it"
            )
    penalty = 1.0 if config.repetition_penalty is None else config.repetition_penalty
    fields = {"temperature": 0.0, "repetition_penalty": penalty}
    if config.do_sample:
        fields |= {
            "temperature": 1.0 if config.temperature is None else config.temperature,
            "top_k": DEFAULT_TOP_K if config.top_k is None else config.top_k,
            "top_p": 1.0 if config.top_p is None else config.top_p,
            "min_p": config.min_p or 0.0,
        }
    numbers = {name: np.asarray(value).item() for name, value in fields.items()}
    return Sampling.parse(numbers, "generation_config")
