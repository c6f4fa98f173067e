"""The rows that can be among the first of an order: each task leaves the others out as it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class BestRows:
    """The first `count` rows by one column, and all rows that are equal to the last of them.

    These are more rows than an order by more columns needs. Spark sorts what is left.
    """

    entity: str
    """The column of a DataFrame that holds the id of the sorted entity."""
    column: str
    """The column in storage."""
    count: int
    descending: bool
    nulls_last: bool

    def among(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Rows that no `count` earlier rows precede. NULLs are left out when they cannot count."""
        order = "descending" if self.descending else "ascending"
        best: pa.ChunkedArray | None = None
        for table in tables:
            values = table.column(self.column)
            if best is not None and len(best) == self.count:
                table = table.filter(self._as_good_as(values, best[-1]))
                values = table.column(self.column)
            given = values.drop_null()
            if len(given):
                met = given if best is None else pa.chunked_array([*best.chunks, *given.chunks])
                first = pc.select_k_unstable(met, self.count, [(self.column, order)])
                best = met.take(first)
            if table.num_rows:
                yield table

    def _as_good_as(self, values: pa.ChunkedArray, last: pa.Scalar) -> pa.ChunkedArray:
        as_good = pc.greater_equal if self.descending else pc.less_equal
        return pc.fill_null(as_good(values, last), not self.nulls_last)
