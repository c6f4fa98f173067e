"""Schemas as callers give them (text, a `.pg` file, a catalog), and `Graph.extend_schema`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.catalog.identity import with_identities
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.commit.request import WriteReceipt, WriteRequest
from omnigraph.errors import InvalidArgument, SchemaRefused
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.schema.build import catalog_from_text
from omnigraph.schema.catalog_text import catalog_text
from omnigraph.writes.changeset import ChangeSet, SchemaChange

if TYPE_CHECKING:
    from omnigraph.graph.engine import Engine

SchemaSource = Catalog | str | os.PathLike[str]


def read_schema(schema: SchemaSource) -> tuple[Catalog, str]:
    """The catalog and its text; the text of a catalog is generated."""
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


def extend_schema(
    engine: Engine, schema: SchemaSource, branch: str, actor: str | None
) -> WriteReceipt:
    """Accept a schema that only adds types to the one in force."""
    catalog, text = read_schema(schema)

    def build(snapshot: Snapshot) -> ChangeSet:
        extended = with_identities(catalog)
        changed = [t.name for t in snapshot.catalog.entity_types() if not _has(extended, t)]
        if changed:
            raise SchemaRefused(
                f"extend_schema only adds types, but the new schema changes {', '.join(changed)}",
                types=changed,
            )
        added = tuple(t for t in extended.entity_types() if t.table_key not in snapshot.tables)
        if not added:
            return ChangeSet(())
        return ChangeSet((), schema=SchemaChange(extended, text, added))

    request = WriteRequest(
        branch=branch, operation="schema_apply", tables=(), actor_id=actor, changes_schema=True
    )
    return engine.transaction.run(request, build)


def _has(catalog: Catalog, entity: EntityType) -> bool:
    return any(entity == other for other in catalog.entity_types())
