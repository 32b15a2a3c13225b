"""The version of Espalier, in its one home: setup.cfg and every document read it."""

VERSION = "0.2.0"

WRITTEN_BY = f"espalier {VERSION}"
"""What the documents that this version writes say of themselves."""
