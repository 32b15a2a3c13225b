"""`python -m planner.schemas` writes the published schema files anew."""

from ..documents import DOCUMENTS
from ..schema import write_atomically
from . import schema_json, schema_path

for name in DOCUMENTS:
    write_atomically(schema_path(name), schema_json(name))
