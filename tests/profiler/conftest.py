"""No time is spent on warming up where nothing is asked of the times."""

from collections.abc import Iterator

import pytest

from profiler.times import sweeps


@pytest.fixture(autouse=True, scope="module")
def hurried() -> Iterator[None]:
    """One step that is not timed stands before those in a row, however short it is."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sweeps, "WARM_UP_MS", 0.0)
        patched.setattr(sweeps, "COLD_MS", 0.01)
        patched.setattr(sweeps, "NUM_COLD", 1)
        yield
