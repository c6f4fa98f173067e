"""From DataFrame to Arrow: small answers at once, large ones batch by batch through a file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from omnigraph.errors import ResourceLimit
from omnigraph.spark.query.outputs import as_output
from omnigraph.spark.query.rows import Output, SparkRows

_BATCH = "batch"


def answer_at_once(rows: SparkRows) -> pa.Table:
    """For answers known to be small."""
    table: pa.Table = rows.frame.toArrow().combine_chunks()
    arrays = [
        as_output(_one_array(table.column(output.column)), output.arrow)
        for output in rows.outputs.values()
    ]
    return pa.Table.from_arrays(arrays, schema=schema_of(rows.outputs))


def answer_in_batches(rows: SparkRows, directory: str | None, limit_bytes: int) -> pa.Table:
    """Partition by partition, in order; what memory holds of it is what somebody reads."""
    outputs = tuple(rows.outputs.values())
    batches = rows.frame.mapInArrow(_packed(outputs, schema_of(rows.outputs)), f"{_BATCH} binary")
    with tempfile.TemporaryDirectory(prefix="omnigraph-spark-", dir=directory) as folder:
        path = Path(folder) / "answer.arrow"
        with (
            pa.OSFile(str(path), "wb") as file,
            pa.ipc.new_file(file, schema_of(rows.outputs)) as out,
        ):
            for row in batches.toLocalIterator(prefetchPartitions=True):
                for batch in pa.ipc.open_stream(row[_BATCH]):
                    out.write_batch(batch)
                _check_size(file.tell(), limit_bytes)
        # The map outlives the name of the file, and is all that does.
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def schema_of(outputs: Mapping[str, Output]) -> pa.Schema:
    return pa.schema([(name, output.arrow) for name, output in outputs.items()])


def _packed(
    outputs: tuple[Output, ...], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Result batches as bytes: Spark hands them over without looking inside."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = [as_output(batch.column(o.column), o.arrow) for o in outputs]
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as out:
                out.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            yield pa.record_batch({_BATCH: pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    return run


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _check_size(used: int, limit_bytes: int) -> None:
    if used > limit_bytes:
        raise ResourceLimit(
            f"the answer is larger than {limit_bytes / 1e9:.1f} GB; narrow the query, add a limit "
            "or raise spill_bytes",
            limit="spill",
            budget_bytes=limit_bytes,
        )
