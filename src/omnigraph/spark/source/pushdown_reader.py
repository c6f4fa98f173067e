"""A reader that takes Spark's own filters, for those who ask: see docs/spark.md before you do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from omnigraph.spark.source.conditions import from_spark
from omnigraph.spark.source.table_reader import TableReader


class PushdownReader(TableReader):
    """Spark 4.3 keeps the last filters of a relation for whatever scans it next.

    A DataFrame that is scanned twice, with other filters or with none, then loses rows: that is
    why nobody gets this reader who did not ask for it.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        taken = [self._table.row_filter] if self._table.row_filter else []
        for given, condition in from_spark(filters, self._table.entity):
            if condition is None:
                yield given
            else:
                taken.append(condition)
        self._table = replace(self._table, row_filter=" AND ".join(taken) or None)
