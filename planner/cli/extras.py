"""Packages that only some commands need: what to say where one of them cannot be imported."""

from __future__ import annotations

DISTRIBUTION = "espalier-planner"
"""The project's name for pip."""

EXTRAS = {
    "run": ("torch", "transformers", "tokenizers", "tqdm", "psutil"),
    "lp": ("cvxpy",),
    "plot": ("matplotlib",),
    "offload": ("accelerate",),
}
"""Extra of setup.cfg -> the packages that it brings."""


def missing_package(error: BaseException) -> str | None:
    """One line on the optional package that `error` kept from being imported, None if it was none.

    A package may be absent, or there and broken: an error that comes out of its own import counts.
    """
    top = (getattr(error, "name", None) or "").partition(".")[0]
    tops = [top] if isinstance(error, ImportError) and top else []
    for package in [*tops, *_being_imported(error)]:
        extra = next((name for name, brings in EXTRAS.items() if package in brings), None)
        if extra is not None:
            return (
                f"{package} cannot be imported ({_first_line(error)}), and this command needs it: "
                f"pip install '{DISTRIBUTION}[{extra}]'"
            )
    return None


def refused_import(error: ValueError) -> str | None:
    """One line on another's package that a setting of it in the environment, such as
    NUMBA_NUM_THREADS, kept from being imported, None if `error` comes from elsewhere."""
    package = ["", *_being_imported(error)][-1]
    if package in ("", "__main__", "planner", "profiler", "runtime", "tree_kernels"):
        return None
    return (
        f"{package} cannot be imported ({_first_line(error)}); look for a wrong value of one of "
        "its environment variables"
    )


def _being_imported(error: BaseException) -> list[str]:
    """Packages whose module was being executed when `error` came out of it."""
    found = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "<module>":
            found.append(str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0])
        trace = trace.tb_next
    return found


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
