"""The table of tiles and the number of splits: plain arithmetic."""

import pytest

from tree_kernels.configs import TABLE, Config, choose_config, choose_splits

A100, L40, H100 = 166_912, 101_376, 232_448
"""Bytes of shared memory that a program can have."""
GOOD = {"block_m": 16, "block_n": 32, "num_warps": 4, "num_stages": 2, "programs_per_sm": 1}


@pytest.mark.parametrize("shared", [A100, L40, H100])
@pytest.mark.parametrize("element_size", [2, 4])
@pytest.mark.parametrize("head_dim", [32, 80, 128, 256])
@pytest.mark.parametrize("num_rows", [1, 16, 17, 64, 200, 8192])
def test_every_call_has_a_tile_that_fits(num_rows, head_dim, element_size, shared):
    config = choose_config(num_rows, head_dim, element_size, shared)
    row = next(row for row in TABLE if row.config == config and row.head_dim >= head_dim)
    assert row.shared <= shared


def test_small_calls_have_small_tiles():
    assert choose_config(1, 128, 2, H100).block_m == 16
    assert choose_config(64, 128, 2, H100).block_m == 64
    assert choose_config(256, 128, 2, H100).block_m == 128


@pytest.mark.parametrize(("head_dim", "element_size"), [(257, 2), (512, 4), (64, 8)])
def test_what_no_tile_serves_is_refused_in_one_line(head_dim, element_size):
    with pytest.raises(ValueError, match="expected a head dimension of at most 256"):
        choose_config(1, head_dim, element_size, H100)
    with pytest.raises(ValueError, match="room"):
        choose_config(1, 64, 2, 1000)


@pytest.mark.parametrize(
    ("programs", "blocks", "slots", "splits"),
    [
        (32, 128, 264, 8),  # 256 of 264 slots; 9 would take a second wave
        (8, 1000, 264, 30),  # 240 of 264 are 91 %; 33 would be all
        (264, 1000, 264, 1),  # full already
        (1000, 1000, 264, 1),  # in waves anyway
        (1, 3, 264, 3),  # no more splits than blocks
        (1, 0, 264, 1),
        (1, 1000, 264, 116),  # no more than MAX_SPLITS = 128, of which 116 are 90 %
    ],
)
def test_splits_fill_the_device(programs, blocks, slots, splits):
    assert choose_splits(programs, blocks, slots) == splits


@pytest.mark.parametrize(
    "wrong",
    [{"block_m": 8}, {"block_n": 48}, {"num_warps": 3}, {"num_stages": 0}, {"programs_per_sm": 0}],
)
def test_impossible_tiles_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Config(**GOOD | wrong)
