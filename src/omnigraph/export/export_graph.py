"""Export a snapshot to NDJSON, CSV or Parquet: streamed, ordered by id, complete files or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import SOURCE, TARGET, Catalog, EntityType
from omnigraph.errors import InvalidArgument, StorageFailure
from omnigraph.export.csv_text import csv_chunks
from omnigraph.export.ndjson import lines
from omnigraph.export.sorted_rows import sorted_rows
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import tell
from omnigraph.settings.models import LoadSettings
from omnigraph.values.identifiers import TableKey

EXPORT_FORMATS = ("ndjson", "csv", "parquet")

_PUBLIC_NAMES = {SOURCE: "from", TARGET: "to"}


@dataclass(frozen=True, slots=True)
class ExportedType:
    """How many entities of one type were exported."""

    entity_kind: str
    type_name: str
    entity_count: int | None
    """None if a server does not tell it, because it would count rows out of scope."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ExportReceipt:
    """What was exported. `path` is None when it went to a stream."""

    path: str | None
    format: str
    graph_commit_id: str
    types: tuple[ExportedType, ...]

    @property
    def total_entities(self) -> int:
        return sum(exported.entity_count or 0 for exported in self.types)

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "format": self.format,
            "graph_commit_id": self.graph_commit_id,
            "types": [exported.to_dict() for exported in self.types],
            "total_entities": self.total_entities,
        }


@dataclass(frozen=True, slots=True)
class Exporter:
    """Exports one snapshot: types in the order of the schema, entities in the order of ids."""

    store: Store
    snapshot: Snapshot
    settings: LoadSettings
    types: Sequence[str] | None = None
    _counts: dict[TableKey, int] = field(default_factory=dict, init=False, compare=False)

    def ndjson_chunks(self, *, every_id: bool = False) -> Iterator[bytes]:
        """The whole export, a batch of lines at a time; `every_id` is as in `ndjson.lines`."""
        for entity in self._entities():
            yield from lines(entity, self._rows(entity), every_id=every_id)

    def csv_chunks(self) -> Iterator[bytes]:
        """The rows of the only type, a batch at a time."""
        entities = self._entities()
        if len(entities) != 1:
            raise InvalidArgument(
                "csv is one file per type: choose one type for a stream, or give a directory"
            )
        return csv_chunks(entities[0], self._rows(entities[0]))

    def to_stream(self, stream: BinaryIO, export_format: str = "ndjson") -> ExportReceipt:
        """Write all of NDJSON, or the CSV of one type."""
        require_export_format(export_format)
        if export_format == "parquet":
            raise InvalidArgument("a stream gets ndjson or csv; give a directory for parquet")
        for chunk in self.csv_chunks() if export_format == "csv" else self.ndjson_chunks():
            stream.write(chunk)
        stream.flush()
        return self._receipt(None, export_format)

    def to_path(self, path: str | os.PathLike[str], export_format: str) -> ExportReceipt:
        """A file for NDJSON, else a directory; it gets its name when it is complete."""
        require_export_format(export_format)
        target = Path(path).expanduser()
        try:
            if export_format == "ndjson":
                self._to_file(target)
            else:
                self._to_directory(target, export_format)
        except OSError as error:
            raise StorageFailure(
                f"{target}: {error.strerror or error}", file=str(target)
            ) from error
        return self._receipt(str(target), export_format)

    def _to_file(self, target: Path) -> None:
        if target.is_dir():
            raise InvalidArgument(f"{target} is a directory; NDJSON is one file", file=str(target))
        if target.exists() and not target.is_file():  # a pipe or a device is written directly
            with target.open("wb") as stream:
                self.to_stream(stream)
            return
        fd, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        unfinished = Path(name)
        try:
            with os.fdopen(fd, "wb") as file:
                self.to_stream(file)
            unfinished.chmod(0o644)
            unfinished.replace(target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def _to_directory(self, target: Path, export_format: str) -> None:
        with whole_directory(target, f"{export_format} is one file per type") as unfinished:
            for entity in self._entities():
                # A load knows the type by the name of the file.
                path = unfinished / f"{entity.name}.{export_format}"
                write_file(path, export_format, entity, self._rows(entity))

    def _rows(self, entity: EntityType) -> Iterator[Any]:
        done, total = 0, self._total(entity)
        tell(f"exporting {entity.name}", done, total, "rows")
        for rows in sorted_rows(self.store, self.snapshot, entity, self.settings):
            yield rows
            done += rows.num_rows
            tell(f"exporting {entity.name}", done, total, "rows")
        self._counts[entity.table_key] = done

    def _total(self, entity: EntityType) -> int | None:
        """The number of rows; None if the snapshot does not tell it."""
        key = entity.table_key
        return None if key in self.snapshot.uncounted else self.snapshot.pin(key).row_count

    def _entities(self) -> list[EntityType]:
        return chosen_types(self.snapshot.catalog, self.types)

    def _receipt(self, path: str | None, export_format: str) -> ExportReceipt:
        types = exported_types(self._entities(), self._counts)
        return ExportReceipt(path, export_format, self.snapshot.graph_commit_id, types)


def exported_types(
    entities: Iterable[EntityType], counts: Mapping[TableKey, int | None]
) -> tuple[ExportedType, ...]:
    """Each type with the number of its entities that were exported."""
    keys = [entity.table_key for entity in entities]
    return tuple(ExportedType(key.kind.value, key.type_name, counts[key]) for key in keys)


def chosen_types(catalog: Catalog, types: Sequence[str] | None) -> list[EntityType]:
    """All types, or those in `types`, in the order of the schema."""
    if types is None:
        return list(catalog.entity_types())
    wanted = {catalog.resolve(name).name for name in types}
    return [entity for entity in catalog.entity_types() if entity.name in wanted]


@contextmanager
def whole_directory(target: Path, why: str) -> Iterator[Path]:
    """A temporary directory that is renamed to `target` at the end; an error removes it."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidArgument(
            f"{target} exists and is not an empty directory; {why}", file=str(target)
        )
    unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        unfinished.replace(target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def require_export_format(name: str) -> None:
    if name not in EXPORT_FORMATS:
        known = ", ".join(EXPORT_FORMATS)
        raise InvalidArgument(f"no export format {name!r}; known formats: {known}")


def write_file(
    path: Path, export_format: str, entity: EntityType, tables: Iterator[pa.Table]
) -> None:
    """Write rows of one type to one file."""
    if export_format == "parquet":
        _write_parquet(path, entity, tables)
        return
    chunks = csv_chunks if export_format == "csv" else lines
    with path.open("wb") as file:
        for chunk in chunks(entity, tables):
            file.write(chunk)


def _write_parquet(path: Path, entity: EntityType, tables: Iterator[pa.Table]) -> None:
    schema = _with_public_names(table_schema(entity).empty_table()).schema
    with pq.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(_with_public_names(table))


def _with_public_names(table: pa.Table) -> pa.Table:
    return table.rename_columns([_PUBLIC_NAMES.get(name, name) for name in table.column_names])
