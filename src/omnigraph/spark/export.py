"""An export by Spark workers: a directory of files, each with some fragments of one type."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.errors import StorageFailure
from omnigraph.export.export_graph import (
    ExportReceipt,
    chosen_types,
    exported_types,
    require_export_format,
    whole_directory,
    write_file,
)
from omnigraph.lance_store.reads.scan import (
    fragment_groups,
    read_fragments,
)
from omnigraph.lance_store.store import Store, VersionAddress
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.scoping.visible_rows import TableRule, VisibleRows
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark.jobs import collect_tasks, run_job
from omnigraph.spark.session import spark_session
from omnigraph.values.identifiers import TableKey


@dataclass(frozen=True, slots=True)
class ExportPart:
    """Fragments of one type that one task writes to one file."""

    name: str
    entity: EntityType
    target: VersionAddress
    fragments: tuple[int, ...]
    rule: TableRule


@dataclass(frozen=True, slots=True)
class SparkExporter:
    """Exports one snapshot. Driver and workers must share the file system of the directory."""

    store: Store
    snapshot: Snapshot
    settings: PipelineSettings
    types: Sequence[str] | None = None

    def to_directory(self, path: str, export_format: str) -> ExportReceipt:
        """Write all files `<Type>.<number>.<format>`, or none."""
        require_export_format(export_format)
        target = Path(path).expanduser().absolute()
        entities = chosen_types(self.snapshot.catalog, self.types)
        parts = tuple(part for entity in entities for part in self._parts(entity))
        try:
            with whole_directory(target, "Spark writes many files into one") as unfinished:
                counts = self._write(parts, unfinished, export_format)
        except OSError as error:
            raise StorageFailure(
                f"{target}: {error.strerror or error}", file=str(target)
            ) from error
        types = exported_types(entities, {entity.table_key: 0 for entity in entities} | counts)
        return ExportReceipt(str(target), export_format, self.snapshot.graph_commit_id, types)

    def _parts(self, entity: EntityType) -> Iterator[ExportPart]:
        at = self.snapshot.pin(entity.table_key).at
        target = self.store.address(at)
        rule = VisibleRows(self.store, self.snapshot).rule(entity.table_key)
        for number, group in enumerate(fragment_groups(self.store, at)):
            yield ExportPart(f"{entity.name}.{number:05d}", entity, target, group, rule)

    def _write(
        self, parts: tuple[ExportPart, ...], folder: Path, export_format: str
    ) -> dict[TableKey, int]:
        """Write all parts; the number of entities of each type."""
        if not parts:
            return {}
        session = spark_session(self.settings)
        run = _export(parts, str(folder), export_format)
        columns = "name string, part long, entities long"
        collected = run_job(
            session, "export", lambda: collect_tasks(session, len(parts), run, columns)
        )
        written = {row.name for row in collected}
        for file in folder.iterdir():
            if file.name in written:
                name, _, _ = file.name.rpartition("~")
                file.rename(folder / f"{name}.{export_format}")
            else:
                file.unlink()  # written by an attempt whose result Spark did not use
        counts: Counter[TableKey] = Counter()
        for row in collected:
            counts[parts[row.part].entity.table_key] += row.entities
        return counts


def _export(parts: tuple[ExportPart, ...], folder: str, export_format: str) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            written = [_one(parts[n], Path(folder), export_format) for n in numbers]
            names, counts = zip(*written, strict=True) if written else ((), ())
            yield pa.record_batch(
                [
                    pa.array(names, pa.string()),
                    pa.array(numbers, pa.int64()),
                    pa.array(counts, pa.int64()),
                ],
                names=["name", "part", "entities"],
            )

    return run


def _one(part: ExportPart, folder: Path, export_format: str) -> tuple[str, int]:
    """Write one part to a file that no other attempt uses; its name and its entities."""
    count = 0

    def visible() -> Iterator[pa.Table]:
        nonlocal count
        schema = table_schema(part.entity)
        columns = list(dict.fromkeys([*schema.names, *part.rule.columns]))
        stored = read_fragments(part.target, part.fragments, columns, part.rule.conditions)
        for rows in map(part.rule.keep, stored):
            count += rows.num_rows
            yield rows.select(schema.names).cast(schema)

    path = folder / f"{part.name}~{uuid.uuid4().hex}"
    write_file(path, export_format, part.entity, visible())
    return path.name, count
