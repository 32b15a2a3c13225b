"""Children drawn given the text, compiled: decision by decision what the plain way draws."""

import numpy as np
import pytest
import torch

from planner import PlannerError
from planner.verifiers import VERIFIERS
from runtime.randomness import seeded_source
from tests.verifiers.distributions import FAMILIES, family

CPU = torch.device("cpu")
SIZES = (2, 5, 64, 130)
"""Vocabularies, around the blocks that are summed up together."""


def laws(kind, size, dtype, num_rows=12):
    rng = np.random.default_rng(size)
    pairs = np.array([family(kind, size, rng) for _ in range(num_rows)])
    p, q = torch.tensor(pairs, dtype=dtype).unbind(1)
    generator = torch.Generator().manual_seed(size)
    tokens = torch.multinomial(p.double(), 1, generator=generator)[:, 0]
    return p, q, tokens, torch.rand(num_rows, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("name", ["rrsw", "rrs", "traversal"])
def test_the_same_numbers_give_the_same_children(name, kind, dtype):
    verifier = VERIFIERS[name]
    for size in SIZES:
        p, q, tokens, entered = laws(kind, size, dtype)
        if name == "traversal":
            tokens[::3] = -1  # the walk does not end there
        else:
            entered.fill_(1)
        asked = entered, p, q, tokens, min(size, 6)
        found = verifier.draw_entered(*asked, seeded_source(size, CPU))
        plain = verifier.entered_plainly(*asked, seeded_source(size, CPU))
        for fast, slow in zip(found, plain, strict=True):
            assert fast.dtype == slow.dtype
            torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)


@pytest.mark.parametrize("which", [1, 2])
def test_what_is_no_number_is_refused_in_one_line(which):
    p, q, tokens, entered = laws("flat", 5, torch.float32)
    asked = [entered, p, q, tokens]
    asked[which][3, 2] = torch.nan
    with pytest.raises(PlannerError, match="got NaN or infinity from a model"):
        VERIFIERS["rrsw"].draw_entered(*asked, 2, seeded_source(0, CPU))
