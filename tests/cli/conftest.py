"""As in the profiler's own tests, no time is spent on warming up."""

from tests.profiler.conftest import hurried

__all__ = ["hurried"]
