"""The DataFrame of a source.

Spark reads local files and its own formats. Files of a bucket are read by Python workers, in the
way in which loads read them, because Spark needs further jars for that.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from omnigraph.errors import PipelineFailed
from omnigraph.lance_store.objects.object_inputs import ObjectInput
from omnigraph.load.input_files import line_blocks, open_unpacked
from omnigraph.spark.jobs import task_numbers
from omnigraph.spark.pipelines.files import FoundFile
from omnigraph.spark.pipelines.model import PipelineSource
from omnigraph.spark.pipelines.positions import SourceIncrement
from omnigraph.spark.source.graph_frames import GraphReader

Frame = Any
"""A `pyspark.sql.DataFrame`, classic or Connect."""

OP = "_op"
"""The column of changed entities of a graph: insert, update or delete."""
_SAMPLE_BYTES = 1 << 20
_MOST_FOOTERS = 1000
_LOOKED_AT = 20
"""Files of a source whose beginning is compared with its encoding."""
_ADVICE = "if that is right, declare the columns as `schema` of the source, or give `evolve: true`"
_TEXTS = ("csv", "json", "ndjson", "text")
_LACKS_A_JAR = (
    "data_source_not_found",
    "failed to find data source",
    "failed to find the data source",
    "no suitable driver",
    "classnotfoundexception",
)
_FORMATS = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13",
    "avro": "org.apache.spark:spark-avro_2.13",
    "delta": "io.delta:delta-spark_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13",
}
_DRIVERS = {
    "postgresql": "org.postgresql:postgresql",
    "mysql": "com.mysql:mysql-connector-j",
    "mariadb": "org.mariadb.jdbc:mariadb-java-client",
    "sqlserver": "com.microsoft.sqlserver:mssql-jdbc",
    "oracle": "com.oracle.database.jdbc:ojdbc11",
    "sqlite": "org.xerial:sqlite-jdbc",
    "h2": "com.h2database:h2",
}
"""The packages of formats and JDBC drivers that Spark does not bring."""


def missing_package(source: PipelineSource, error: str) -> str | None:
    """What to do if Spark refuses a source because it lacks the jar of its format or driver."""
    text = error.casefold()
    if not any(mark in text for mark in _LACKS_A_JAR):
        return None
    url = source.options.get("url", "").casefold()
    of_driver = [jar for start, jar in _DRIVERS.items() if url.startswith(f"jdbc:{start}:")]
    jar = of_driver[0] if of_driver else _FORMATS.get(source.format or "")
    subject = f"JDBC driver for {url.split('?')[0]}" if url else f"format {source.format!r}"
    added = f"add {jar}:VERSION" if jar else "add the package that has it"
    return f"Spark has no {subject}; {added} to `spark: {{packages: […]}}`"


def counted_by_footers(each: SourceIncrement) -> Callable[[], int | None] | None:
    """Counts the rows of local Parquet files; None for other sources, which must be read."""
    source, files = each.source, each.files
    local = all(file.object is None for file in files)
    if source.format != "parquet" or source.options or not local or len(files) > _MOST_FOOTERS:
        return None

    def count() -> int | None:
        try:
            return sum(int(pq.read_metadata(file.path).num_rows) for file in files)
        except (OSError, pa.ArrowException):  # Spark tells what is wrong with a file
            return None

    return count


def wrongly_encoded(
    source: PipelineSource, files: Sequence[FoundFile]
) -> Iterator[tuple[str, str]]:
    """Local texts that are not in the encoding of their source, and where.

    Spark would read such bytes as U+FFFD and say nothing. Of each file the beginning is looked at.
    """
    if source.format not in _TEXTS:
        return
    encoding = source.options.get("encoding", source.options.get("charset", "UTF-8"))
    for file in [file for file in files if file.object is None][:_LOOKED_AT]:
        try:
            with open_unpacked(Path(file.path)) as opened:
                data = opened.read(_SAMPLE_BYTES)
        except OSError:
            continue  # Spark tells what is wrong with the file
        if source.format not in ("csv", "text") and b"\0" in data[:4]:
            continue  # Spark knows UTF-16 and UTF-32 by itself if the text is JSON
        try:
            codecs.getincrementaldecoder(encoding)().decode(data)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            yield (
                file.path,
                f"line {line:,}: the byte 0x{data[error.start]:02x} is not {encoding}; "
                "give `options: {encoding: …}`, for example windows-1252",
            )
        except LookupError:
            return  # Java may know it


class SourceReader:
    """Makes the DataFrames of the sources of one run."""

    def __init__(self, spark: Any, pipeline: str, *, evolve: bool) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._evolve = evolve
        self.messages: list[str] = []

    def frame(self, each: SourceIncrement) -> Frame:
        """The rows of a source that this run reads."""
        source = each.source
        if source.graph is not None:
            return self._graph_frame(each)
        if source.files:
            for file, problem in wrongly_encoded(source, each.files):
                raise self._failed(source, problem, file)
            frame = self._file_frame(each)
            self._compare(each, frame)
            return frame
        assert source.format is not None
        reader = self._spark.read.format(source.format).options(**source.options)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        try:
            return reader.load()
        except Exception as error:
            missing = missing_package(source, str(error))
            if missing is None:
                raise
            raise self._failed(source, missing, None) from error

    def _failed(
        self, source: PipelineSource, problem: str, file: str | None, column: str | None = None
    ) -> PipelineFailed:
        place = f"{file}: " if file else ""
        return PipelineFailed(
            f"source {source.name}: {place}{problem}",
            pipeline=self._pipeline,
            source=source.name,
            **({"file": file} if file else {}),
            **({"column": column} if column else {}),
        )

    def _file_frame(self, each: SourceIncrement) -> Frame:
        source = each.source
        files = _with_content(each)
        if not files:
            return self._spark.createDataFrame([], self._known_schema(each))
        if any(file.object is not None for file in files):
            return self._bucket_frame(source, files)
        groups = self._by_header(source, files)
        frames = [self._read(source, files) for files in groups]
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.unionByName(other, allowMissingColumns=self._evolve)
        return frame

    def _known_schema(self, each: SourceIncrement) -> Any:
        source = each.source
        if source.schema is not None:
            return source.schema
        if each.columns is None:
            raise self._failed(
                source, "no file has rows yet, so its columns are not known; give `schema`", None
            )
        return import_module("pyspark.sql.types").StructType.fromJson(each.columns)

    def _read(self, source: PipelineSource, files: Sequence[FoundFile]) -> Frame:
        assert source.format is not None
        kind = "json" if source.format == "ndjson" else source.format
        reader = self._spark.read.format(kind).options(**source.options)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        return reader.load([file.path for file in files])

    def _by_header(
        self, source: PipelineSource, files: Sequence[FoundFile]
    ) -> list[list[FoundFile]]:
        """CSV files by their header, because Spark gives columns of files by position."""
        if source.format != "csv" or source.schema is not None or not has_header(source.options):
            return [list(files)]
        groups: dict[tuple[str, ...], list[FoundFile]] = {}
        for file in files:
            groups.setdefault(self._header(source, file), []).append(file)
        first = next(iter(groups))
        for header, some in groups.items():
            odd = sorted({*header} ^ {*first})
            if odd and not self._evolve:
                word = "there is no column" if odd[0] in first else "there is the new column"
                raise self._failed(
                    source,
                    f"{word} {odd[0]!r}, unlike in {groups[first][0].path}; {_ADVICE}",
                    some[0].path,
                    odd[0],
                )
        return list(groups.values())

    def _header(self, source: PipelineSource, file: FoundFile) -> tuple[str, ...]:
        try:
            with open_unpacked(Path(file.path)) as opened:
                text = io.TextIOWrapper(
                    opened, encoding=source.options.get("encoding", "utf-8-sig"), newline=""
                )
                return tuple(next(csv.reader(text, delimiter=delimiter(source.options)), []))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise self._failed(source, f"the header cannot be read ({error})", file.path) from error

    def _compare(self, each: SourceIncrement, frame: Frame) -> None:
        """Refuse columns that are gone or have another type than in the last run."""
        source = each.source
        files = _with_content(each)
        if each.columns is None or source.schema is not None or not files:
            return
        before = {f["name"]: f["type"] for f in each.columns["fields"]}
        now = {f["name"]: f["type"] for f in frame.schema.jsonValue()["fields"]}
        file = files[0].path if len(files) == 1 else None
        for name in before.keys() | now.keys():
            if before.get(name) == now.get(name):
                continue
            if name not in now:
                problem = f"the column {name!r} of the last run is gone"
            elif name not in before:
                self.messages.append(f"source {source.name}: there is a new column {name!r}")
                continue
            else:
                problem = f"the column {name!r} was {before[name]} and is {now[name]}"
            if self._evolve:
                self.messages.append(f"source {source.name}: {problem}")
            else:
                odd = file or self._odd_file(each, name)
                raise self._failed(source, f"{problem}; {_ADVICE}", odd, name)

    def _odd_file(self, each: SourceIncrement, column: str) -> str | None:
        """The first file in which a column is not what it was."""
        before = {f["name"]: f["type"] for f in each.columns["fields"]}
        for file in _with_content(each):
            fields = self._read(each.source, [file]).schema.jsonValue()["fields"]
            if {f["name"]: f["type"] for f in fields}.get(column) != before.get(column):
                return file.path
        return None

    # A graph

    def _graph_frame(self, each: SourceIncrement) -> Frame:
        source = each.source
        assert source.graph is not None
        assert source.type is not None
        now = GraphReader(self._spark, source.graph, source.branch, at=each.commit)
        after = now.frame(source.type)
        if not each.is_incremental:
            return after
        f = import_module("pyspark.sql.functions")
        if each.since_commit is None:
            return after.withColumn(OP, f.lit("insert"))
        if each.is_empty:
            return after.withColumn(OP, f.lit("insert")).where("false")
        before = GraphReader(self._spark, source.graph, source.branch, at=each.since_commit)
        return _changed(f, before.frame(source.type), after)

    # Files of a bucket

    def _bucket_frame(self, source: PipelineSource, files: Sequence[FoundFile]) -> Frame:
        objects = tuple(file.object for file in files if file.object is not None)
        match source.format:
            case "parquet":
                return self._worker_frame(source, objects, _parquet_schema(objects[0]))
            case "csv":
                return self._typed(source, self._csv_lines(source, objects))
            case "json" | "ndjson":
                return self._json_lines(source, objects)
            case "text":
                return self._worker_frame(source, objects, _TEXT)
            case _:
                pass
        raise self._failed(
            source, f"format {source.format} is not read from s3://", str(objects[0])
        )

    def _worker_frame(
        self, source: PipelineSource, objects: tuple[ObjectInput, ...], schema: pa.Schema
    ) -> Frame:
        types = import_module("pyspark.sql.pandas.types")
        rows = task_numbers(self._spark, len(objects))
        assert source.format is not None
        task = _reading(source.format, dict(source.options), objects, schema)
        return rows.mapInArrow(task, types.from_arrow_schema(schema))

    def _csv_lines(self, source: PipelineSource, objects: tuple[ObjectInput, ...]) -> Frame:
        with objects[0].open() as opened:
            line = io.TextIOWrapper(opened, "utf-8-sig", newline="").readline()
        header = next(csv.reader([line], delimiter=delimiter(source.options)), [])
        names = header if has_header(source.options) else [f"_c{n}" for n in range(len(header))]
        return self._worker_frame(
            source, objects, pa.schema([(name, pa.string()) for name in names])
        )

    def _typed(self, source: PipelineSource, frame: Frame) -> Frame:
        """Columns of text with the types of the declared schema."""
        if source.schema is None:
            return frame
        wanted = self._spark.createDataFrame([], source.schema).schema
        f = import_module("pyspark.sql.functions")
        columns = frame.columns
        chosen = [
            f.col(f"`{columns[n]}`").cast(each.dataType).alias(each.name)
            for n, each in enumerate(wanted.fields)
        ]
        return frame.select(*chosen)

    def _json_lines(self, source: PipelineSource, objects: tuple[ObjectInput, ...]) -> Frame:
        f = import_module("pyspark.sql.functions")
        if source.schema is not None:
            wanted = self._spark.createDataFrame([], source.schema).schema
        else:
            wanted = import_module("pyspark.sql.pandas.types").from_arrow_schema(
                _json_schema(objects[0])
            )
        lines = self._worker_frame(source, objects, _TEXT)
        parsed = lines.where("length(trim(value)) > 0").select(
            f.from_json("value", wanted, dict(source.options)).alias("row")
        )
        return parsed.select("row.*")


def _with_content(each: SourceIncrement) -> list[FoundFile]:
    """The files to read. An empty text has no rows and tells no columns."""
    return [file for file in each.files if file.size or each.source.format not in _TEXTS]


def has_header(options: Mapping[str, str]) -> bool:
    return options.get("header", "false").lower() == "true"


def delimiter(options: Mapping[str, str]) -> str:
    return options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")


def _changed(f: Any, before: Frame, after: Frame) -> Frame:
    """Entities that differ between two states: as they are now, or as they were if deleted."""
    names = after.columns
    old = before.select(*[f.col(f"`{name}`").alias(f"__{name}") for name in before.columns])
    both = after.join(old, after["id"] == old["__id"], "full_outer")
    same = f.lit(True)
    for name in names:
        here = f.col(f"`{name}`")
        same = same & (
            here.eqNullSafe(f.col(f"`__{name}`")) if name in before.columns else here.isNull()
        )
    op = (
        f.when(f.col("__id").isNull(), f.lit("insert"))
        .when(f.col("id").isNull(), f.lit("delete"))
        .otherwise(f.lit("update"))
    )
    gone = f.col("id").isNull()
    values = [
        f.when(gone, f.col(f"`__{name}`")).otherwise(f.col(f"`{name}`")).alias(name)
        if name in before.columns
        else f.col(f"`{name}`")
        for name in names
    ]
    return both.where(~same).select(*values, op.alias(OP))


_TEXT = pa.schema([("value", pa.string())])


def _parquet_schema(file: ObjectInput) -> pa.Schema:
    with file.open() as opened, pq.ParquetFile(opened) as parquet:
        return parquet.schema_arrow.remove_metadata()


def _json_schema(file: ObjectInput) -> pa.Schema:
    """From the first lines; a source with other columns later declares its `schema`."""
    with file.open() as opened:
        data = opened.read(_SAMPLE_BYTES)
    whole = data if len(data) < _SAMPLE_BYTES else data[: data.rfind(b"\n") + 1]
    return pa_json.read_json(io.BytesIO(whole)).schema


def _reading(
    kind: str, options: dict[str, str], objects: tuple[ObjectInput, ...], schema: pa.Schema
) -> Any:
    """A function for `mapInArrow` over the numbers of the objects."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in _rows(kind, options, objects[number], schema):
                    columns = [
                        rows.column(name).cast(schema.field(name).type) for name in schema.names
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return run


def _rows(
    kind: str, options: dict[str, str], file: ObjectInput, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    if kind == "parquet":
        with file.open() as opened, pq.ParquetFile(opened) as parquet:
            yield from parquet.iter_batches(columns=schema.names, use_threads=False)
    elif kind == "csv":
        with open_unpacked(file) as unpacked:
            yield from pa_csv.open_csv(
                unpacked,
                pa_csv.ReadOptions(
                    use_threads=False,
                    column_names=None if has_header(options) else schema.names,
                ),
                pa_csv.ParseOptions(delimiter=delimiter(options), newlines_in_values=True),
                pa_csv.ConvertOptions(
                    column_types={name: pa.string() for name in schema.names},
                    include_columns=schema.names,
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            )
    else:
        for _, lines in line_blocks(file):
            texts = lines.decode().splitlines()
            yield pa.record_batch({"value": pa.array(texts, pa.string())})
