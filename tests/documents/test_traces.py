"""Traces beside a profile: arrays in a file of their own, checked when they are read."""

import numpy as np
import pytest
from safetensors.numpy import save as dump_arrays

from planner import PlannerError, Profile, load

from .samples import profile_with_traces


def test_traces_travel_beside_the_profile(tmp_path):
    profile = profile_with_traces()
    profile.save(tmp_path / "mine.json")
    again = Profile.load(tmp_path / "mine.json")
    expected, emitted = again.traces(again.acceptance[0])
    before = profile.traces(profile.acceptance[0])
    assert np.array_equal(expected, before[0])
    assert np.array_equal(emitted, before[1])
    assert again.fingerprint() == load(tmp_path / "mine.json").fingerprint()


@pytest.mark.parametrize("name", ["head.json", "head.safetensors", "head", "."])
def test_a_profiles_arrays_never_take_the_place_of_something_else(name, tmp_path):
    other = dump_arrays({"output.weight": np.zeros(3, np.float32)})
    (tmp_path / "head.safetensors").write_bytes(other)
    with pytest.raises(PlannerError, match=r"path of another file|choose another name"):
        profile_with_traces().save(tmp_path / name)
    assert (tmp_path / "head.safetensors").read_bytes() == other
    assert len(list(tmp_path.iterdir())) == 1
    profile_with_traces().save(tmp_path / "p.json")
    profile_with_traces().save(tmp_path / "p.json")  # over arrays of its own


def test_missing_or_changed_traces_are_named(tmp_path):
    path = tmp_path / "p.json"
    profile_with_traces().save(path)
    beside = tmp_path / "p.safetensors"
    data = bytearray(beside.read_bytes())
    data[-1] ^= 1
    beside.write_bytes(bytes(data))
    with pytest.raises(PlannerError, match="hash differs"):
        load(path)
    beside.unlink()
    with pytest.raises(PlannerError, match="keep both files together"):
        load(path)


def test_traces_are_checked_when_attached():
    profile = profile_with_traces()
    good = {name: profile._content[name] for name in ("a/expected", "a/emitted")}
    for wrong, words in (
        (np.full((3, 2), np.nan, np.float32), "NaN or negative"),
        (np.full((3, 2), 0.6, np.float32), "summing above 1"),
        (np.zeros((2, 2), np.float32), r"shape \(2, 2\), expected \(3, 2\)"),
    ):
        with pytest.raises(PlannerError, match=rf"\[rrsw, T=0.6\]\.emitted.*{words}"):
            profile.with_arrays({**good, "a/emitted": wrong}, "p.safetensors")


def test_a_profile_without_its_traces_stands_alone(tmp_path):
    bare = profile_with_traces().without_arrays()
    bare.save(tmp_path / "p.json")
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.json"]
    again = load(tmp_path / "p.json")
    assert again.traces(again.acceptance[0]) is None
    assert again.acceptance[0].prompts == profile_with_traces().acceptance[0].prompts
