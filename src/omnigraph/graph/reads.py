"""Reads on one snapshot."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.errors import InvalidArgument
from omnigraph.graph.engine import Engine
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.manifest.snapshot import Snapshot


def snapshot(engine: Engine, branch: str, at: str | None) -> Snapshot:
    if at is not None:
        return engine.commits.snapshot_at(at, branch)
    return engine.reader.snapshot(*engine.reader.branch(branch))


def format_version(engine: Engine) -> int:
    return engine.reader.format_version


def read_type(
    engine: Engine,
    snapshot: Snapshot,
    type_name: str,
    ids: Sequence[str] | None,
    columns: Sequence[str] | None,
) -> pa.Table:
    entity = snapshot.catalog.resolve(type_name)
    known = table_schema(entity).names
    wanted = list(columns) if columns is not None else known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InvalidArgument(f"{type_name} has no {unknown[0]!r}; it has: {', '.join(known)}")
    dataset = engine.store.open(snapshot.pin(entity.table_key).at)
    if ids is None:
        return read_table(dataset, wanted)
    return find_rows(dataset, _id_array(ids), wanted).select(wanted)


def _id_array(ids: Sequence[str]) -> pa.Array:
    if isinstance(ids, str) or not all(isinstance(i, str) for i in ids):
        raise InvalidArgument(f"ids must be a list of strings, got {ids!r}")
    return pa.array(list(ids), pa.string())
