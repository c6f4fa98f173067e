"""Reads of one snapshot: a state of a branch, the entities of a type, a blob.

Nothing that writes a graph is imported here, because reads must start quickly.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import EdgeType
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.graph.engine import Engine
from omnigraph.graph.external_blob import ExternalBlob
from omnigraph.lance_store.reads.blob_reads import StoredBlob, find_blob
from omnigraph.manifest.commit_graph import CommitName
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.stored_columns import require_columns
from omnigraph.syntax.source_text import SourceText, read_source_file
from omnigraph.values.arrow_types import with_zone
from omnigraph.values.identifiers import EntityKind
from omnigraph.values.query_request import QueryText
from omnigraph.values.scalars import BlobType

_NULLABLE = {
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
}
"""The types of pandas that hold integers and NULLs."""


QuerySource = str | os.PathLike[str] | SourceText
"""The text of queries, or the path of a `.gq` file; a `SourceText` says what errors call it."""


NAMES_THEN, NAMES_CURRENT = "then", "current"
"""Which names of types and properties a query of an older state uses."""

_QUERY_FILE = ".gq"


def query_source(source: QuerySource) -> SourceText:
    """The text; a string is a path if it ends in `.gq` and has no brace and no line break."""
    if isinstance(source, str):
        is_path = source.endswith(_QUERY_FILE) and not ("{" in source or "\n" in source)
        return read_source_file(source) if is_path else SourceText(source, "<query>")
    if isinstance(source, SourceText):
        return source
    if isinstance(source, os.PathLike):
        return read_source_file(source)
    raise InvalidArgument(f"a query is a text or the path of a .gq file, got {source!r}")


def query_text(
    source: QuerySource,
    name: str | None,
    params: Mapping[str, object] | None,
    at: str | None = None,
) -> QueryText:
    """What an executor runs; `at` is the state as the caller named it."""
    if isinstance(source, str) and not source.endswith(_QUERY_FILE):
        return QueryText(source, name, params, at)
    given = query_source(source)
    return QueryText(given.text, name, params, at, given.file)


def by_names(text: QueryText, names: str, head: Callable[[], Snapshot]) -> QueryText:
    """The text, to be read in the names `then` of its state or in the `current` ones of a head."""
    if names not in (NAMES_THEN, NAMES_CURRENT):
        raise InvalidArgument(
            f"names are {NAMES_THEN!r} or {NAMES_CURRENT!r}, got {names!r}", value=str(names)
        )
    if names == NAMES_THEN:
        return text
    return replace(text, current=head().catalog)


def snapshot(engine: Engine, branch: str, at: CommitName | None) -> Snapshot:
    if at is not None:
        return engine.commits.snapshot_at(at, branch)
    return engine.reader.snapshot(*engine.reader.branch(branch))


def read_type(
    engine: Engine,
    snapshot: Snapshot,
    type_name: str,
    ids: Sequence[str] | None,
    columns: Sequence[str] | None,
) -> pa.Table:
    from omnigraph.scoping.visible_rows import VisibleRows

    entity = snapshot.catalog.resolve(type_name)
    known = table_schema(entity).names
    wanted = list(columns) if columns is not None else known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InvalidArgument(f"{type_name} has no {unknown[0]!r}; it has: {', '.join(known)}")
    require_columns(engine.store, snapshot, snapshot.pin(entity.table_key))
    visible = VisibleRows(engine.store, snapshot)
    if ids is None:
        found = visible.table(entity.table_key, wanted)
    else:
        found = visible.find(entity.table_key, _id_array(ids), wanted)
    return for_pandas(with_zone(found))


def for_pandas(table: pa.Table) -> pa.Table:
    """The same table; its `to_pandas` keeps integers with NULLs as integers.

    Without this note pandas would hold them as floats, which do not hold every 64-bit integer.
    """
    columns = [
        {
            "name": field.name,
            "field_name": field.name,
            "pandas_type": str(field.type),
            "numpy_type": _NULLABLE[field.type],
            "metadata": None,
        }
        for field in table.schema
        if field.type in _NULLABLE and table.column(field.name).null_count
    ]
    if not columns:
        return table
    note = {"index_columns": [], "column_indexes": [], "columns": columns, "pandas_version": "2"}
    metadata = table.schema.metadata or {}
    return table.replace_schema_metadata({**metadata, b"pandas": json.dumps(note).encode()})


def _id_array(ids: Sequence[str]) -> pa.Array:
    if isinstance(ids, str) or not all(isinstance(i, str) for i in ids):
        raise InvalidArgument(f"ids must be a list of strings, got {ids!r}")
    try:
        return pa.array(list(ids), pa.string())
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"no id has half of a surrogate pair: {error.object!r}") from None


def blob(
    engine: Engine, snapshot: Snapshot, kind: str, type_name: str, entity_id: str, name: str
) -> StoredBlob | ExternalBlob:
    """The blob property `name` of one entity; `kind` is `node` or `edge`."""
    from omnigraph.scoping.visible_rows import VisibleRows

    entity = snapshot.catalog.resolve(type_name)
    found = EntityKind.EDGE if isinstance(entity, EdgeType) else EntityKind.NODE
    if kind != found.value:
        raise InvalidArgument(f"{type_name} is a type of {found.value}s, not of {kind}s")
    declared = next((p for p in entity.properties if p.name == name), None)
    if declared is None or not isinstance(declared.type, BlobType):
        blobs = ", ".join(p.name for p in entity.properties if isinstance(p.type, BlobType))
        raise InvalidArgument(f"{type_name} has no blob {name!r}; it has: {blobs or 'none'}")
    pin = snapshot.pin(entity.table_key)
    dataset = require_columns(engine.store, snapshot, pin)
    visible = VisibleRows(engine.store, snapshot).among(entity.table_key, _id_array([entity_id]))
    stored = find_blob(dataset, entity_id, name) if len(visible) else None
    if stored is None:
        raise NotFound(
            f"{type_name} {entity_id!r} is not there or has no {name!r}",
            type=type_name,
            id=entity_id,
            property=name,
        )
    if isinstance(stored, str):
        return ExternalBlob(stored, snapshot.graph_commit_id, engine.external)
    chosen = [pin.location, pin.content_epoch, entity_id, declared.identity]
    tag = hashlib.sha256(json.dumps(chosen).encode()).hexdigest()[:32]
    return replace(stored, graph_commit_id=snapshot.graph_commit_id, content_tag=tag)
