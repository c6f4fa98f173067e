"""The change feed as a Spark stream: an offset is a commit, a batch the commits between two.

Offsets are planned beside the driver and read in executors. Both open the graph where they run;
this module itself only knows Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from omnigraph.spark.column_types import spark_arrow_schema
from omnigraph.spark.source.failures import told_to_spark
from omnigraph.spark.source.options import ChangesRequest
from omnigraph.spark.source.pinned_table import PinnedTable

_COMMIT = "commit"
_BEGINS = "begins"
_BEGUN = "begun"
Offset = dict[str, str | None]
"""The commit that was seen last.

A stream that begins at the head of its branch has a first batch that says which one it was. Spark
asks for the initial offset again when it repeats that batch, and by then the head is another.
"""


@dataclass(frozen=True, slots=True)
class CommitRange(InputPartition):
    """What one task reads: commits behind `after` (None: the first one too) up to `until`."""

    after: str | None
    until: str


@dataclass(frozen=True, slots=True)
class BaselinePart(InputPartition):
    """What one task reads of a baseline: some fragments of one type."""

    table: PinnedTable
    fragments: tuple[int, ...]


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Changes in the order of commits; a restart goes on behind the last batch it finished."""

    def __init__(self, request: ChangesRequest, schema: Any) -> None:
        self._request = request
        self._schema = schema
        self._last: str | None = None
        """With `availableNow`: the head when the query began."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def initialOffset(self) -> Offset:
        from omnigraph.spark.source.change_feed import begins_at_head, first_position, head_commit

        with told_to_spark():
            if not begins_at_head(self._request):
                return {_COMMIT: first_position(self._request)}
            head = self._last or head_commit(self._request)
            return {_COMMIT: head, _BEGINS: self._request.start}

    def prepareForTriggerAvailableNow(self) -> None:
        from omnigraph.spark.source.change_feed import head_commit

        with told_to_spark():
            self._last = head_commit(self._request)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        from omnigraph.spark.source.change_feed import next_position

        if _BEGINS in start:
            return {_COMMIT: start[_COMMIT], _BEGUN: start[_BEGINS]}
        with told_to_spark():
            position = next_position(self._request, start[_COMMIT], self._last)
            return start if position == start[_COMMIT] else {_COMMIT: position}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        from omnigraph.spark.source.change_feed import ranges

        with told_to_spark():
            if start == end:
                return []
            if _BEGUN in end:
                return self._first_batch(end)
            found = ranges(self._request, start[_COMMIT], end[_COMMIT])
            return [CommitRange(after, until) for after, until in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from omnigraph.spark.source.change_feed import baseline_batches, change_batches

        wanted = spark_arrow_schema(self._schema)
        with told_to_spark():
            if isinstance(partition, BaselinePart):
                table, fragments = partition.table, partition.fragments
                yield from baseline_batches(self._request, table, fragments, wanted)
            elif isinstance(partition, CommitRange):
                span = (partition.after, partition.until)
                yield from change_batches(self._request, span, wanted)

    def _first_batch(self, end: Offset) -> list[InputPartition]:
        from omnigraph.spark.source.change_feed import BASELINE, baseline_tables

        commit = end[_COMMIT]
        if end[_BEGUN] != BASELINE or commit is None:
            return []
        tables = baseline_tables(self._request, commit)
        return [BaselinePart(replace(t, groups=()), group) for t in tables for group in t.groups]
