"""The recipes: what is trained, on what, in how many steps; plain data, one row per use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..shape import Shape
from .corpus import PACKAGES, VOCAB_SIZE

if TYPE_CHECKING:
    from transformers import LlamaConfig

MAX_POSITIONS = 1024


@dataclass(frozen=True)
class Phase:
    """`num_steps` optimizer steps on `rows` stretches of `length` tokens each."""

    num_steps: int
    rows: int
    length: int


@dataclass(frozen=True)
class Training:
    """One model's training: its phases, under one schedule of the learning rate."""

    shape: Shape
    phases: tuple[Phase, ...]
    learning_rate: float

    @property
    def num_steps(self) -> int:
        return sum(phase.num_steps for phase in self.phases)

    def config(self, *, end_id: int) -> LlamaConfig:
        """The configuration with tied embeddings; token `end_id` begins and ends every text."""
        from transformers import LlamaConfig

        return LlamaConfig(
            vocab_size=VOCAB_SIZE,
            **self.shape.sizes(),
            max_position_embeddings=MAX_POSITIONS,
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            bos_token_id=end_id,
            eos_token_id=end_id,
            pad_token_id=end_id,
        )


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights, apart from the sources found on the machine."""

    target: Training
    distilled: Training
    lengthened: Training  # how the distilled draft goes on, on longer rows
    plain: Training
    num_samples: int  # texts that the target writes for the distillation
    sample_length: int  # tokens of each, its opening included
    sample_share: float  # share of a distillation batch's rows that are such texts
    packages: tuple[str, ...] = PACKAGES
    max_bytes_per_source: int = 3_000_000
    num_prompts: int = 64
    num_further: int = 192  # prompts beyond these, for comparisons that ask for more texts
    prompt_length: int = 64
    seed: int = 20


TARGET = Shape(hidden=256, layers=6, heads=8, kv_heads=2, head_dim=32, intermediate=640)
DRAFT = Shape(hidden=128, layers=1, heads=4, kv_heads=2, head_dim=32, intermediate=384)
SMOKE_TARGET = Shape(hidden=64, layers=2, heads=2, kv_heads=1, head_dim=32, intermediate=96)
SMOKE_DRAFT = Shape(hidden=32, layers=1, heads=1, kv_heads=1, head_dim=32, intermediate=48)

RECIPES = {
    "full": Recipe(
        target=Training(TARGET, (Phase(1150, 16, 256), Phase(100, 4, 1024)), 8e-3),
        distilled=Training(DRAFT, (Phase(1320, 16, 256), Phase(80, 4, 1024)), 1e-2),
        lengthened=Training(DRAFT, (Phase(300, 4, 1024),), 5e-3),
        plain=Training(DRAFT, (Phase(250, 16, 256), Phase(20, 4, 1024)), 1e-2),
        num_samples=1024,
        sample_length=256,
        sample_share=0.5,
    ),
    "smoke": Recipe(
        target=Training(SMOKE_TARGET, (Phase(8, 4, 64), Phase(2, 1, 256)), 6e-3),
        distilled=Training(SMOKE_DRAFT, (Phase(6, 4, 64), Phase(2, 1, 256)), 1e-2),
        lengthened=Training(SMOKE_DRAFT, (Phase(2, 1, 256),), 5e-3),
        plain=Training(SMOKE_DRAFT, (Phase(8, 4, 64), Phase(2, 1, 256)), 1e-2),
        num_samples=8,
        sample_length=48,
        sample_share=0.5,
        packages=(),
        max_bytes_per_source=200_000,
        num_prompts=4,
        num_further=2,
        prompt_length=16,
    ),
}
