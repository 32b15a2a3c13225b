"""The engines' own parsers, and what they made of our exports.

`python -m tests.export.parsers` (make engines) installs what is needed of each engine, has its own
parser read every export in `cases`, and a broken one that it has to refuse, and writes what it saw
to `accepted.json`.  `test_accepted` then holds exports to that file without any engine.
"""
