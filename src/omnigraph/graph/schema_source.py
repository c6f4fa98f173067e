"""A schema as callers give it: text, the path of a file, or a catalog."""

from __future__ import annotations

import os
from pathlib import Path

from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument

SchemaSource = Catalog | str | os.PathLike[str]


def read_schema(schema: SchemaSource) -> tuple[Catalog, str]:
    """The catalog and its text; a catalog that nobody wrote gets one."""
    from omnigraph.schema.build import catalog_from_text
    from omnigraph.schema.catalog_text import catalog_text

    if isinstance(schema, Catalog):
        return schema, catalog_text(schema)
    # A schema has braces or line breaks; a path practically never does.
    if isinstance(schema, str) and ("{" in schema or "\n" in schema):
        return catalog_from_text(schema), schema
    path = Path(schema)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read the schema file {path}: {error}") from error
    return catalog_from_text(text, str(path)), text
