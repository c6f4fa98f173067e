"""The data that a caller gives to a load -> sources, each of one format -> parsed blocks."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.lance_store.objects.object_inputs import find_objects
from omnigraph.load.arrow_columns import check_columns, fit_table
from omnigraph.load.csv_files import csv_blocks, csv_header
from omnigraph.load.input_files import (
    DataFile,
    KeptCopy,
    TextForm,
    file_errors,
    is_packed,
    line_blocks,
    open_unpacked,
    parquet_input,
    size_of,
    stream_blocks,
    unpacked_name,
)
from omnigraph.load.json_arrays import array_blocks, is_json_array
from omnigraph.load.json_lines import JsonLines
from omnigraph.load.modes import LoadMode, LoadModes
from omnigraph.load.parsed_rows import BlobBases, Blocks, FlatRows, ParsedBlock, with_absent
from omnigraph.progress import tell
from omnigraph.values.identifiers import TableKey
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.plurals import counted

_FORMATS = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "json",
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".arrow": "ipc",
    ".arrows": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
_UNPACKED = ("parquet", "ipc")
"""Formats that have their own compression."""
_ROWS_PER_BATCH = 64 * 1024
_OBJECTS_PER_BLOCK = 20_000
_MEMORY = "<table>"
_ROWS = "<rows>"
_STREAM = "<stream>"

READ = "read"
"""The stage of progress."""

Progress = Callable[[int, int], None]
"""(bytes read, rows read) since the last call."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file, stream, table or list. `type_name` is None if JSON rows name their types."""

    format: str
    name: str
    type_name: str | None = None
    path: DataFile | None = None
    table: Any = field(default=None, compare=False)
    stream: Any = field(default=None, compare=False)
    """An open binary file that can be read once."""
    digest: Callable[[], str] | None = field(default=None, compare=False)
    """A hash of the content, which is known when all of it was read."""

    @property
    def size(self) -> int:
        """Bytes to read, for progress; 0 when unknown."""
        return 0 if self.path is None else size_of(self.path)

    @property
    def is_json(self) -> bool:
        """The rows are JSON or Python objects, and each may name its type."""
        return self.format in ("ndjson", "json", "rows")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read sources."""

    columns: Mapping[str, str] | None = None
    """Name in the input -> property."""
    blobs: BlobBases = field(default_factory=BlobBases)
    text: TextForm = field(default_factory=TextForm)
    partial: bool = False
    """Rows say which columns they leave out, because the others are to stay as they are."""


def find_sources(data: Any, type_name: str | None = None) -> list[Source]:
    """Paths, globs, directories, binary files, Arrow tables and readers, frames, rows as dicts.

    A list may mix them, also with sources. A mapping has such data by type.
    """
    if isinstance(data, Source):
        return [data]
    if isinstance(data, str | os.PathLike):
        return _from_path(data, type_name)
    if isinstance(data, io.BufferedIOBase | io.RawIOBase):
        name = str(getattr(data, "name", _STREAM))
        return [Source("ndjson", name, type_name, stream=data)]
    table = _as_arrow(data)
    if table is not None:
        if type_name is None:
            raise InvalidArgument("a table needs type=, the type of its rows")
        return [Source("arrow", _MEMORY, type_name, table=table)]
    if isinstance(data, Mapping):
        return _by_type(data, type_name)
    if isinstance(data, Iterable) and not isinstance(data, bytes):
        return _from_list(list(data), type_name)
    raise InvalidArgument(
        f"cannot load {type(data).__name__}: give paths, an Arrow table or reader, a data frame, "
        "or rows as a list of dicts"
    )


def _holds_rows(data: Any) -> bool:
    """Whether `data` is no single value: a value in a dict means that the dict is a row."""
    return isinstance(data, list | tuple | os.PathLike) or not isinstance(
        data, str | bytes | int | float | Mapping | type(None)
    )


def _by_type(data: Mapping[Any, Any], type_name: str | None) -> list[Source]:
    """The sources of `{"Person": [...], "Knows": frame}`."""
    scalar = next((name for name, rows in data.items() if not _holds_rows(rows)), None)
    if scalar is not None or type_name is not None:
        raise InvalidArgument(
            "a dict has rows by type, like {'Person': [{'name': 'Ada'}]}; put one row into a list"
        )
    found = [s for name, rows in data.items() for s in _rows_of(rows, str(name))]
    if found:
        return found
    raise InvalidArgument("nothing to load: the dict is empty")


def _rows_of(data: Any, type_name: str) -> list[Source]:
    # A type without rows is no mistake where other types may have some.
    if isinstance(data, list) and not data:
        return [Source("rows", _ROWS, type_name, table=[])]
    return find_sources(data, type_name)


def _from_list(items: list[Any], type_name: str | None) -> list[Source]:
    """A list of rows is one source. Other lists are the sources of their members."""
    if not items:
        raise InvalidArgument("nothing to load: the list is empty")
    if all(isinstance(item, Mapping) for item in items):
        return [Source("rows", _ROWS, type_name, table=items)]
    return [source for item in items for source in find_sources(item, type_name)]


def refuse_unused_columns(sources: Sequence[Source], options: ReadOptions) -> None:
    """Refuse a mapped name that no source has; one mapping serves all sources.

    Flat JSON rows name their columns one by one, so nothing is refused if there are such rows.
    """
    if not options.columns or any(source.is_json and source.type_name for source in sources):
        return
    present = {name for source in sources for name in _names(source, options.text)}
    unused = next((name for name in options.columns if name not in present), None)
    if unused is not None:
        near = did_you_mean(unused, present) or "there is none"
        raise InvalidArgument(f"no file has a column {unused!r} to map; {near}", property=unused)


def _names(source: Source, form: TextForm) -> list[str]:
    """The columns of a source under their own names."""
    if source.format == "csv":
        assert source.path is not None
        return csv_header(source.path, form)
    if source.format == "parquet":
        assert source.path is not None
        with _parquet_file(source.path) as file:
            return list(file.schema_arrow.names)
    if source.format == "ipc":
        assert source.path is not None
        with _ipc_reader(source.path) as reader:
            return list(reader.schema.names)
    return list(source.table.schema.names) if source.format == "arrow" else []


def read_source(source: Source, catalog: Catalog, options: ReadOptions) -> Blocks:
    """The blocks of one source."""
    if source.is_json:
        yield from _json_blocks(source, json_parser(source, catalog, options), options)
        return
    entity = entity_of(source, catalog)
    if source.format == "csv":
        assert source.path is not None
        yield from csv_blocks(
            source.path,
            entity,
            options.columns,
            options.blobs,
            options.text,
            partial=options.partial,
        )
        return
    first = 1
    for table in _batches(source):
        yield fit_source_table(source, entity, table, first, options)
        first += table.num_rows


def json_parser(source: Source, catalog: Catalog, options: ReadOptions) -> JsonLines:
    """A parser for the rows of a JSON source; rows are flat if the caller named their type."""
    if source.type_name is None:
        return JsonLines(catalog, options.blobs, partial=options.partial)
    flat = FlatRows(entity_of(source, catalog), options.columns or {})
    return JsonLines(catalog, options.blobs, flat, partial=options.partial)


def has_array(source: Source, options: ReadOptions) -> bool:
    """Whether the source is a JSON file that holds one list of rows."""
    if source.format != "json" or source.path is None:
        return False
    return is_json_array(source.path, options.text.encoding)


def _json_blocks(source: Source, parser: JsonLines, options: ReadOptions) -> Blocks:
    if source.format == "rows":
        for start in range(0, len(source.table), _OBJECTS_PER_BLOCK):
            rows = source.table[start : start + _OBJECTS_PER_BLOCK]
            yield parser.parse_objects(rows, start + 1, source.name)
    elif source.path is not None and has_array(source, options):
        yield from array_blocks(source.path, parser, options.text.encoding)
    else:
        for before, lines in _line_blocks(source, options.text.encoding):
            yield parser.parse(lines, before + 1, source.name)


def reading_progress(sources: Iterable[Source]) -> Progress:
    """Tells `omnigraph.progress` how much of the sources is read."""
    total = sum(source.size for source in sources) or None
    seen_bytes = seen_rows = 0
    tell("reading", 0, total, "MB", READ)

    def watch(bytes_read: int, rows: int) -> None:
        nonlocal seen_bytes, seen_rows
        seen_bytes += bytes_read
        seen_rows += rows
        # Spark reports the number of rows only after it has read them all.
        rows_read = f" {counted(seen_rows, 'row')}" if seen_rows else ""
        tell(f"reading{rows_read}", seen_bytes, total, "MB", READ)

    return watch


def _line_blocks(source: Source, encoding: str | None) -> Iterator[tuple[int, bytes]]:
    if source.stream is not None:
        return stream_blocks(source.stream, source.name, encoding)
    assert source.path is not None
    return line_blocks(source.path, encoding=encoding)


def fit_source_table(
    source: Source, entity: EntityType, table: pa.Table, first_row: int, options: ReadOptions
) -> ParsedBlock:
    """Some rows of a Parquet file or table; the first has the number `first_row`."""
    renamed = _renamed(table, options.columns)
    block = fit_table(entity, renamed, first_row, source.name, options.blobs)
    given = check_columns(entity, renamed.column_names, source.name)
    with_absent(block, given, partial=options.partial)
    return block


def check_source_columns(
    source: Source, catalog: Catalog, names: Sequence[str], options: ReadOptions
) -> None:
    """Refuse a column that the type of a source does not have, before its rows are read."""
    mapping = options.columns or {}
    renamed = [mapping.get(name, name) for name in names]
    check_columns(entity_of(source, catalog), renamed, source.name)


def mirrored_types(
    sources: Iterable[Source], catalog: Catalog, modes: LoadModes
) -> frozenset[TableKey]:
    """Types that the sources name and that are mirrored, also if no source has a row of them."""
    return frozenset(
        entity_of(source, catalog).table_key
        for source in sources
        if source.type_name is not None and modes.of_type(source.type_name) is LoadMode.MIRROR
    )


def entity_of(source: Source, catalog: Catalog) -> EntityType:
    """The type of all rows of a source, or of its flat rows."""
    assert source.type_name is not None
    try:
        return catalog.resolve(source.type_name)
    except NotFound as error:
        raise InvalidArgument(
            f"{source.name}: {error.message} (the type comes from type= or the file's name)",
            file=source.name,
            type=source.type_name,
        ) from error


def _renamed(table: pa.Table, columns: Mapping[str, str] | None) -> pa.Table:
    if not columns:
        return table
    return table.rename_columns([columns.get(name, name) for name in table.column_names])


def _batches(source: Source) -> Iterator[pa.Table]:
    if source.format == "parquet":
        assert source.path is not None
        yield from _parquet(source.path)
        return
    if source.format == "ipc":
        assert source.path is not None
        yield from _ipc(source.path)
        return
    reader = source.table
    batches = reader.to_batches(_ROWS_PER_BATCH) if isinstance(reader, pa.Table) else reader
    for batch in batches:
        yield pa.Table.from_batches([batch])


def _parquet(path: DataFile) -> Iterator[pa.Table]:
    with _parquet_file(path) as file:
        for batch in file.iter_batches(_ROWS_PER_BATCH, use_threads=False):
            yield pa.Table.from_batches([batch])


@contextmanager
def _parquet_file(path: DataFile) -> Iterator[pq.ParquetFile]:
    try:
        with file_errors(path), pq.ParquetFile(parquet_input(path)) as file:
            yield file
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidArgument(
            f"{path}: not a readable Parquet file: {str(error)[:200]}", file=str(path)
        ) from error


def _ipc(path: DataFile) -> Iterator[pa.Table]:
    with _ipc_reader(path) as reader:
        count = getattr(reader, "num_record_batches", None)
        batches = reader if count is None else map(reader.get_batch, range(count))
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS_PER_BATCH):
                yield pa.Table.from_batches([batch.slice(start, _ROWS_PER_BATCH)])


@contextmanager
def _ipc_reader(path: DataFile) -> Iterator[Any]:
    """A reader of an Arrow file or of an Arrow stream; the first bytes tell which it is."""
    try:
        with file_errors(path), open_unpacked(path) as opened:
            is_file = cast("Any", opened).peek(6)[:6] == b"ARROW1"
            with pa.ipc.open_file(opened) if is_file else pa.ipc.open_stream(opened) as reader:
                yield reader
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidArgument(
            f"{path}: not a readable Arrow file: {str(error)[:200]}", file=str(path)
        ) from error


def _from_path(data: str | os.PathLike[str], type_name: str | None) -> list[Source]:
    text = os.fspath(data)
    if text.startswith("s3://"):
        return _from_bucket(text, type_name)
    if "://" in text and not text.startswith("file://"):
        raise InvalidArgument(
            f"{text}: only local files and s3:// can be loaded; give a DataFrame for others",
            file=text,
        )
    path = Path(text.removeprefix("file://")).expanduser()
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if _format(p) is not None and p.is_file())
        if not inside:
            raise InvalidArgument(f"{path}: the directory holds no data file", file=str(path))
        return [_file(p, type_name) for p in inside]
    if not path.exists() and glob.has_magic(text):
        matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - absolute patterns
        if not matches:
            raise NotFound(f"{text}: no file matches", file=text)
        return [source for match in matches for source in _from_path(match, type_name)]
    return [_file(path, type_name)]


def _from_bucket(uri: str, type_name: str | None) -> list[Source]:
    found = find_objects(uri, os.environ)
    if len(found) == 1 and str(found[0]) == uri:
        return [_file(found[0], type_name)]
    inside = [each for each in found if _format(each) is not None]
    if not inside:
        raise InvalidArgument(f"{uri}: holds no data file", file=uri)
    return [_file(each, type_name) for each in inside]


def copied_file(path: Path, type_name: str | None, copy_of: str) -> Source:
    """A copy of a file, which errors call by the name of that file."""
    return _file(KeptCopy(path, copy_of), type_name)


def _format(path: DataFile) -> str | None:
    ending = Path(unpacked_name(path.name)).suffix.lower()
    found = _FORMATS.get(ending)
    return None if is_packed(path.name) and found in _UNPACKED else found


def _file(path: DataFile, type_name: str | None) -> Source:
    if isinstance(path, Path) and not path.exists():
        raise NotFound(f"{path}: no such file", file=str(path))
    kind = _format(path)
    if kind is None:
        raise InvalidArgument(
            f"{path}: unknown kind of file; use .ndjson .jsonl .json .csv .tsv (also .gz and .zst) "
            "or .parquet .arrow .feather",
            file=str(path),
        )
    if kind in ("ndjson", "json"):
        return Source(kind, str(path), type_name, path)
    # `Person.00001.parquet` is a part of `Person`.
    return Source(kind, str(path), type_name or path.name.partition(".")[0], path)


def _as_arrow(data: Any) -> pa.Table | pa.RecordBatchReader | None:
    if isinstance(data, pa.Table | pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    family = type(data).__module__.partition(".")[0]
    if family == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False)
    if family == "polars":
        frame = data.collect() if hasattr(data, "collect") else data
        return frame.to_arrow()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    return None
