"""The change feed as a Spark stream: an offset is a commit, a batch the commits between two.

Offsets are planned beside the driver and read in executors. Both open the graph where they run;
this module itself only knows Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from omnigraph.pipeline.spark_types import spark_arrow_schema
from omnigraph.spark_source.failures import told_to_spark
from omnigraph.spark_source.options import FeedRequest

_COMMIT = "commit"
Offset = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class CommitRange(InputPartition):
    """What one task reads: commits behind `after` (None: the first one too) up to `until`."""

    after: str | None
    until: str


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Changes in the order of commits; a restart goes on behind the last batch it finished."""

    def __init__(self, request: FeedRequest, schema: Any) -> None:
        self._request = request
        self._schema = schema
        self._last: str | None = None
        """With `availableNow`: the head when the query began."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def initialOffset(self) -> Offset:
        from omnigraph.spark_source.change_feed import first_position

        with told_to_spark():
            return {_COMMIT: first_position(self._request)}

    def prepareForTriggerAvailableNow(self) -> None:
        from omnigraph.spark_source.change_feed import head_commit

        with told_to_spark():
            self._last = head_commit(self._request)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        from omnigraph.spark_source.change_feed import next_position

        with told_to_spark():
            return {_COMMIT: next_position(self._request, start[_COMMIT], self._last)}

    def partitions(self, start: Offset, end: Offset) -> list[CommitRange]:
        from omnigraph.spark_source.change_feed import ranges

        with told_to_spark():
            found = ranges(self._request, start[_COMMIT], end[_COMMIT])
            return [CommitRange(after, until) for after, until in found]

    def read(self, partition: CommitRange) -> Iterator[pa.RecordBatch]:
        from omnigraph.spark_source.change_feed import change_batches

        wanted = spark_arrow_schema(self._schema)
        with told_to_spark():
            span = (partition.after, partition.until)
            yield from change_batches(self._request, span, wanted)
