"""`@embed` properties of a table of rows: made from their source where no vector is given."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from omnigraph.catalog.model import Catalog, EntityType, embedding_of
from omnigraph.embed.fill import fill_vectors
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import ChangeSet
from omnigraph.writes.effects import EditRows


def fill_edits(catalog: Catalog, changes: ChangeSet, provider: EmbeddingProvider) -> ChangeSet:
    """The same edits, their rows with vectors."""

    def filled(key: TableKey, rows: pa.Table | None) -> pa.Table | None:
        if rows is None:
            return None
        return fill_embeddings(catalog.entity_type(key), rows, provider)

    effects = (
        replace(e, inserts=filled(e.key, e.inserts), upserts=filled(e.key, e.upserts))
        if isinstance(e, EditRows)
        else e
        for e in changes.effects
    )
    return replace(changes, effects=tuple(effects))


def fill_embeddings(entity: EntityType, rows: pa.Table, provider: EmbeddingProvider) -> pa.Table:
    """Rows with every missing vector that has a text to be made from."""
    for declared in entity.properties:
        embedding = embedding_of(declared)
        if embedding is None or declared.name not in rows.column_names:
            continue
        position = rows.schema.get_field_index(declared.name)
        vectors = rows.column(position)
        if vectors.null_count == 0:
            continue
        filled = fill_vectors(provider, rows.column(embedding.source), vectors, embedding.model)
        rows = rows.set_column(position, rows.schema.field(position), filled)
    return rows
