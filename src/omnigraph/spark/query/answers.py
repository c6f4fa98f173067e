"""Answers: Arrow tables with the types of the local engine, or a DataFrame for the caller.

Small answers are read at once, large ones batch by batch through a file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from omnigraph.catalog.model import Catalog, spelled
from omnigraph.errors import ResourceLimit
from omnigraph.execute.evaluation.arrow_functions import as_arrow_type
from omnigraph.ir import expressions as ex
from omnigraph.spark.column_types import spark_type_of
from omnigraph.spark.query.rows import Frame, Output, SparkColumn, SparkRows, shown_columns
from omnigraph.values.arrow_types import arrow_type

_BATCH = "batch"


@dataclass(frozen=True, slots=True)
class SparkAnswer:
    """The finished rows of a query: `LateRows` over a table, in memory or memory-mapped."""

    table: pa.Table

    @property
    def names(self) -> list[str]:
        return list(self.table.column_names)

    @property
    def length(self) -> int:
        return int(self.table.num_rows)

    @property
    def is_ready(self) -> bool:
        return True

    def values(self, start: int, end: int) -> pa.RecordBatch:
        part = self.table.slice(start, end - start).combine_chunks().to_batches()
        return part[0] if part else pa.RecordBatch.from_pylist([], schema=self.table.schema)


def answer_at_once(rows: SparkRows, limit_bytes: int) -> SparkAnswer:
    """The answer in memory. For answers that are known to be small."""
    table: pa.Table = rows.frame.toArrow().combine_chunks()
    _check_size(table.nbytes, limit_bytes)
    arrays = [
        as_output(_one_array(table.column(output.column)), output.arrow)
        for output in rows.outputs.values()
    ]
    return SparkAnswer(pa.Table.from_arrays(arrays, schema=_schema(rows.outputs)))


def answer_in_batches(rows: SparkRows, directory: str | None, limit_bytes: int) -> SparkAnswer:
    """The answer in a memory-mapped file, written partition by partition, in order."""
    outputs = tuple(rows.outputs.values())
    batches = rows.frame.mapInArrow(_packed(outputs, _schema(rows.outputs)), f"{_BATCH} binary")
    with tempfile.TemporaryDirectory(prefix="omnigraph-spark-", dir=directory) as folder:
        path = Path(folder) / "answer.arrow"
        with (
            pa.OSFile(str(path), "wb") as file,
            pa.ipc.new_file(file, _schema(rows.outputs)) as out,
        ):
            for row in batches.toLocalIterator(prefetchPartitions=True):
                for batch in pa.ipc.open_stream(row[_BATCH]):
                    out.write_batch(batch)
                _check_size(file.tell(), limit_bytes)
        # The folder is deleted now. The memory map keeps the bytes of the file readable.
        return SparkAnswer(pa.ipc.open_file(pa.memory_map(str(path))).read_all())


def answer_frame(rows: SparkRows) -> Frame:
    """The answer as a `DataFrame`, with the names of the results and no internal columns."""
    types = {field.name: field.dataType for field in rows.frame.schema.fields}
    return rows.frame.select(
        *(
            _shown(F.col(output.column), types[output.column], output.arrow).alias(name)
            for name, output in rows.outputs.items()
        )
    )


def _shown(column: SparkColumn, kind: Any, wanted: pa.DataType) -> SparkColumn:
    if pa.types.is_null(wanted):
        return F.lit(None)
    if not pa.types.is_struct(wanted):
        return column.cast(spark_type_of(wanted))
    names = [kind.fields[0].name, *(field.name for field in kind.fields[2:])]
    fields = [
        column.getField(name).cast(spark_type_of(field.type)).alias(field.name)
        for name, field in zip(names, wanted, strict=True)
    ]
    return F.when(column.isNotNull(), F.struct(*fields))


def output_type(expression: ex.Expression, rows: SparkRows, catalog: Catalog) -> pa.DataType:
    match expression:
        case ex.ColumnRef(name):
            return rows.outputs[name].arrow
        case ex.AggregateCall("collect", operand):
            assert operand is not None
            return pa.list_(as_arrow_type(operand.type))
        case ex.Whole(_, ex.WholeType() as kind):
            return _entity_type(kind, catalog)
        case _:
            return as_arrow_type(expression.type)


def as_output(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in Spark's type, converted to the type of the result."""
    if pa.types.is_null(kind):
        return pa.nulls(len(column))
    if pa.types.is_struct(kind):
        return _entities(column, kind)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp(kind.unit, "UTC")).cast(kind)
    return column.cast(kind)


def _packed(
    outputs: tuple[Output, ...], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that gives each result batch as bytes.

    Spark then passes the batch on without converting its columns.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = [as_output(batch.column(o.column), o.arrow) for o in outputs]
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as out:
                out.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            yield pa.record_batch({_BATCH: pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    return run


def _schema(outputs: Mapping[str, Output]) -> pa.Schema:
    return pa.schema([(name, output.arrow) for name, output in outputs.items()])


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _check_size(used: int, limit_bytes: int) -> None:
    if used > limit_bytes:
        raise ResourceLimit(
            f"the answer is larger than {limit_bytes / 1e9:.1f} GB; narrow the query, add a limit "
            "or raise spill_bytes",
            limit="spill",
            needed_bytes=used,
            budget_bytes=limit_bytes,
        )


def _entity_type(kind: ex.WholeType, catalog: Catalog) -> pa.DataType:
    return pa.struct(
        [
            (spelled(name), _stored_type(kind, name, catalog))
            for name in shown_columns(kind, catalog)
        ]
    )


def _stored_type(kind: ex.WholeType, name: str, catalog: Catalog) -> pa.DataType:
    for type_name in kind.types:
        for declared in catalog.resolve(type_name).properties:
            if declared.name == name:
                return arrow_type(declared.type)
    return pa.string()


def _entities(column: pa.StructArray, kind: pa.DataType) -> pa.Array:
    """`id` and the properties. The second field, the type name, is left out of the result."""
    id_column, _, *rest = column.flatten()
    fields = [as_output(c, f.type) for c, f in zip((id_column, *rest), kind, strict=True)]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pc.is_null(column))
