"""The columns of a type after a schema change, made from its stored columns a batch at a time.

Checks read the new columns before the change is decided, and the rewrite writes them. Both use the
same `NewColumns`, which is plain data, so that tasks of other processes can use it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import (
    ID,
    SOURCE,
    TARGET,
    Catalog,
    EdgeType,
    EntityType,
    GeneratedDefault,
    Property,
    embedding_of,
)
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import InvalidArgument, LanguageError
from omnigraph.evolve.conversion import Converted, Mask, convert
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.row_expressions import RowExpression, over_rows
from omnigraph.ir.writes import Update
from omnigraph.lance_store.staging.columns import ColumnShape
from omnigraph.query.compiler import compile_query
from omnigraph.schema.evolve import ColumnChange, FillSource, TableChange
from omnigraph.values.arrow_types import arrow_field
from omnigraph.values.clock import Clock
from omnigraph.values.coercion import coerce


@dataclass(frozen=True, slots=True)
class NewColumns:
    """Makes columns of the new type from batches of the old one."""

    change: TableChange
    expressions: Mapping[str, RowExpression] = field(default_factory=dict)
    """Backfills by the name of their property, over the new names."""
    now_millis: int = 0
    provider: EmbeddingProvider | None = None

    def reads(self, names: Sequence[str]) -> list[str]:
        """The stored columns that these new columns are made from."""
        found: dict[str, None] = {}
        for name in names:
            if name in (ID, SOURCE, TARGET):
                found[name] = None
                continue
            column = self.column(name)
            if column.before is not None:
                found[column.before.name] = None
            for other in self._inputs(column):
                found.update(dict.fromkeys(self.reads([other])))
        return list(found)

    def make(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        arrays = [self._array(batch, name).values for name in names]
        return pa.RecordBatch.from_arrays(arrays, list(names))

    def failed(self, batch: pa.RecordBatch, name: str) -> Mask:
        """Rows whose stored value does not convert to the new type."""
        column = self.column(name)
        assert column.before is not None
        stored = batch.column(column.before.name)
        return convert(stored, column.before.type, column.after.type).failed

    def column(self, name: str) -> ColumnChange:
        return next(c for c in self.change.columns if c.after.name == name)

    def _inputs(self, column: ColumnChange) -> Sequence[str]:
        """New columns that a fill reads, apart from the one that it fills."""
        name = column.after.name
        if column.fill is None:
            return ()
        if column.fill.source is FillSource.EMBEDDING:
            made = embedding_of(column.after)
            return (made.source,) if made is not None else ()
        expression = self.expressions.get(name)
        return [c for c in expression.columns if c != name] if expression is not None else ()

    def _array(self, batch: pa.RecordBatch, name: str) -> Converted:
        if name in (ID, SOURCE, TARGET):
            return Converted(batch.column(name), np.zeros(batch.num_rows, bool))
        column = self.column(name)
        found = self._kept(batch, column)
        if column.fill is None:
            return found
        missing = found.values.is_null()
        if not pc.any(missing).as_py():
            return found
        fill = self._fill(batch, column, found.values)
        return replace(found, values=pc.if_else(missing, fill, found.values))

    def _kept(self, batch: pa.RecordBatch, column: ColumnChange) -> Converted:
        """The stored values in their new form; NULL for a new property."""
        kind = arrow_field(column.after.name, column.after.type, nullable=True).type
        nothing = np.zeros(batch.num_rows, bool)
        if column.before is None:
            return Converted(pa.nulls(batch.num_rows, kind), nothing)
        values = batch.column(column.before.name)
        if column.mapping:
            values = _mapped(values, dict(column.mapping))
        if not column.converts:
            return Converted(values, nothing)
        return convert(values, column.before.type, column.after.type)

    def _fill(self, batch: pa.RecordBatch, column: ColumnChange, current: pa.Array) -> pa.Array:
        fill, name = column.fill, column.after.name
        assert fill is not None
        if fill.source is FillSource.EMBEDDING:
            return self._embedded(batch, column)
        expression = self.expressions.get(name)
        if expression is not None:
            inputs = {
                other: current if other == name else self._array(batch, other).values
                for other in expression.columns
            }
            rows = pa.table(inputs) if inputs else _rows_without_columns(batch.num_rows)
            return expression.values(rows, Evaluator({}, self.now_millis)).cast(current.type)
        if isinstance(fill.value, GeneratedDefault):
            return generated_values(fill.value, batch.num_rows, self.now_millis, current.type)
        value = coerce(fill.value, column.after.type)
        return pa.repeat(pa.scalar(value, current.type), batch.num_rows)

    def _embedded(self, batch: pa.RecordBatch, column: ColumnChange) -> pa.Array:
        raise NotImplementedError
