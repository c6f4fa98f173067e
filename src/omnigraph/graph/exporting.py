"""`g.export` and `g.blob`: reads, so nothing that writes a graph is built or imported for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import BinaryIO

from omnigraph.catalog.model import EdgeType
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.export.export_graph import Exporter, ExportReceipt
from omnigraph.graph.engine import Engine
from omnigraph.lance_store.reads.blob_reads import StoredBlob, find_blob
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import EntityKind
from omnigraph.values.known_names import SPARK, require_engine
from omnigraph.values.scalars import BlobType


def export(
    engine: Engine,
    snapshot: Snapshot,
    target: str | os.PathLike[str] | BinaryIO | None,
    types: Sequence[str] | None,
    form: tuple[str, str],
) -> ExportReceipt:
    """`form` is (format, engine)."""
    export_format, chosen = form
    require_engine(chosen, "export")
    if chosen == SPARK:
        if not isinstance(target, str | os.PathLike):
            raise InvalidArgument("Spark exports to a directory; give a path")
        from omnigraph.spark.export import SparkExporter

        parts = SparkExporter(engine.store, snapshot, engine.settings.pipeline, types)
        return parts.to_directory(os.fspath(target), export_format)
    exporter = Exporter(engine.store, snapshot, engine.settings.load, types)
    if isinstance(target, str | os.PathLike):
        return exporter.to_path(target, export_format)
    if export_format != "ndjson":
        raise InvalidArgument("a stream gets ndjson; give a directory for parquet")
    return exporter.to_stream(sys.stdout.buffer if target is None else target)


def blob(engine: Engine, snapshot: Snapshot, address: tuple[str, str, str, str]) -> StoredBlob:
    kind, type_name, identity, name = address
    entity = snapshot.catalog.resolve(type_name)
    found = EntityKind.EDGE if isinstance(entity, EdgeType) else EntityKind.NODE
    if kind != found.value:
        raise InvalidArgument(f"{type_name} is a type of {found.value}s, not of {kind}s")
    declared = next((p for p in entity.properties if p.name == name), None)
    if declared is None or not isinstance(declared.type, BlobType):
        blobs = ", ".join(p.name for p in entity.properties if isinstance(p.type, BlobType))
        raise InvalidArgument(f"{type_name} has no blob {name!r}; it has: {blobs or 'none'}")
    stored = find_blob(engine.store.open(snapshot.pin(entity.table_key).at), identity, name)
    if stored is None:
        raise NotFound(
            f"{type_name} {identity!r} is not there or has no {name!r}",
            type=type_name,
            id=identity,
            property=name,
        )
    return stored
