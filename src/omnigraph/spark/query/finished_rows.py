"""An answer that is there already, in memory or in a file that memory maps."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FinishedRows:
    """`LateRows` over a table."""

    table: pa.Table

    @property
    def names(self) -> list[str]:
        return list(self.table.column_names)

    @property
    def length(self) -> int:
        return int(self.table.num_rows)

    def values(self, start: int, end: int) -> pa.RecordBatch:
        part = self.table.slice(start, end - start).combine_chunks().to_batches()
        return part[0] if part else pa.RecordBatch.from_pylist([], schema=self.table.schema)
