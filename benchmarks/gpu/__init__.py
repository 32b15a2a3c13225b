"""Tree attention on an NVIDIA GPU: right, how fast, and how it could be faster.

    python -m benchmarks.gpu [--dry-run] [--part NAME]... [--seconds S] [-o FILE]

Every part runs in a process of its own, so that one that crashes or hangs takes nothing along, and
writes its rows as it goes.  Needs torch and triton; the part that runs the planner needs pydantic.
"""
