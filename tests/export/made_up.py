"""A made-up profile of several batch sizes, and what is read from exports."""

from __future__ import annotations

from planner.export import Export
from tests.optimizer import factory
from tests.optimizer.choosing import random_traces
from tests.optimizer.recorded_trees import in_profile, made_up

CHAINS = ("vllm", "trtllm", "sglang-adaptive")
"""Engines that draft chains of one length."""
TABLES = ("sglang-sps", "sglang-sps-additive", "llamacpp-costs")
"""Exports of the measured times, for which nothing is planned."""


def costs(batch_size: int):
    """Nodes are the dearer, the larger the batch."""
    return factory.costs(
        verify=lambda n: 10 + n * batch_size / 4,
        draft=lambda width: 0.4 + width * batch_size / 64,
        counts=range(1, 17),
        batch_size=batch_size,
    )


def profile_at(temperature: float):
    """Three batch sizes; tokens that are matched are accepted less often than those drawn, but at
    temperature 0, where all are one rule."""
    scales = {"rrsw": 1.0, "chain": 0.95, "topk": 0.85} if temperature else {"topk": 0.9}
    entries = [
        random_traces(seed, name, scale=scale, temperature=temperature)
        for seed, (name, scale) in enumerate(scales.items())
    ]
    profile = factory.profile(entries, [costs(1), costs(4), costs(16)])
    name = "rrsw" if temperature else "topk"
    trees = made_up(1, lengths=(40, 30, 50, 44), deterministic=not temperature)
    return in_profile(profile, trees, verifier=name, temperature=temperature)


def flags(result: Export) -> dict[str, str]:
    """The options of a command line, by name."""
    words = result.content.split()
    return dict(zip(words[::2], words[1::2], strict=True))
