"""The version of Espalier, in its one home: setup.cfg and every document read it."""

VERSION = "0.3.0"

WRITTEN_BY = f"espalier {VERSION}"
"""The name that this version signs its documents with."""
