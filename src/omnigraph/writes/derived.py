"""Values that are computed from a row: the id from its key, vectors from their source texts.

Ids are spelled as in `values.entity_ids`, but for whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EntityType, embedding_of
from omnigraph.embed.provider import EmbeddingProvider, fill_vectors
from omnigraph.values.entity_ids import canonical_text, entity_id
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import ChangeSet, EditRows

_CONTROL = "[\\x00-\\x1f]"


def derived_ids(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """One id for each row from the columns of its key, in order; NULL where a column is NULL.

    Raises `InvalidArgument` for a number that is not finite.
    """
    texts = [_texts(column) for column in columns]
    if len(texts) == 1:
        return texts[0]
    if any(pc.any(pc.match_substring_regex(t, pattern=_CONTROL)).as_py() for t in texts):
        rows = zip(*(t.to_pylist() for t in texts), strict=True)
        return pa.chunked_array([[None if None in r else entity_id(r) for r in rows]], pa.string())
    quoted = [pc.binary_join_element_wise('"', _escaped(t), '"', "") for t in texts]
    inner = pc.binary_join_element_wise(*quoted, ",")
    return pc.binary_join_element_wise("[", inner, "]", "")


def _escaped(texts: Any) -> Any:
    for character in ("\\", '"'):
        texts = pc.replace_substring(texts, pattern=character, replacement="\\" + character)
    return texts


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "true", "false")
    if pa.types.is_date(kind):
        return column.cast(pa.int32()).cast(pa.string())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_integer(kind):
        return column.cast(pa.string())
    spelled = {v: canonical_text(v) for v in column.unique().to_pylist() if v is not None}
    return pa.chunked_array([[spelled.get(v) for v in column.to_pylist()]], pa.string())


def fill_edits(catalog: Catalog, changes: ChangeSet, provider: EmbeddingProvider) -> ChangeSet:
    """The same edits with the missing vectors of their rows filled in."""

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
    """The rows with each missing vector computed from its source text, where there is one."""
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
