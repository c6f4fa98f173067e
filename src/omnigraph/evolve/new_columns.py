"""The columns of a type after a schema change, made from its stored columns a batch at a time.

Checks read the new columns before the change is decided, and the rewrite writes them. Both use the
same `NewColumns`, which is plain data, so that tasks of other processes can use it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import failpoints
from omnigraph.catalog.generated import generated_column
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
from omnigraph.embed.provider import EmbeddingProvider, fill_vectors, is_written
from omnigraph.errors import InvalidArgument, LanguageError
from omnigraph.evolve.conversion import ConvertedValues, Mask, convert
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.row_expressions import RowExpression, one_chunk, over_rows
from omnigraph.ir.writes import Update
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.staging.columns import ColumnShape, write_columns
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.progress import teller
from omnigraph.query.compiler import compile_query
from omnigraph.schema.changes import ColumnChange, FillSource, TableChange
from omnigraph.values.arrow_types import arrow_field
from omnigraph.values.blob_columns import judged_column
from omnigraph.values.blob_values import judged_blob
from omnigraph.values.coercion import coerce
from omnigraph.values.external_blobs import NONE_ALLOWED
from omnigraph.values.scalars import BlobType, ValueType
from omnigraph.writes.derived import derived_ids
from omnigraph.yielding import GiveWay

STAGE = "write"
"""The stage of progress."""

_ROWS = 64 * 1024
_ROWS_WITH_IDS = 1024 * 1024


@dataclass(frozen=True, slots=True)
class IdMap:
    """The old and the new ids of a type, in the same order."""

    old: pa.Array
    new: pa.Array

    def translated(self, ids: pa.Array) -> pa.Array:
        """New ids; an id that is not known stays."""
        return pc.coalesce(self.new.take(pc.index_in(ids, value_set=self.old)), ids)


@dataclass(frozen=True, slots=True)
class NewColumns:
    """Makes columns of the new type from batches of the old one."""

    change: TableChange
    expressions: Mapping[str, RowExpression] = field(default_factory=dict)
    """Backfills by the name of their property, over the new names."""
    now_millis: int = 0
    provider: EmbeddingProvider | None = None
    new_ids: Mapping[str, IdMap] = field(default_factory=dict)
    """For `src` and `dst`: the new ids of nodes whose key changes."""

    def reads(self, names: Sequence[str]) -> list[str]:
        """The stored columns that these new columns are made from."""
        found: dict[str, None] = {}
        for name in names:
            if name in (ID, SOURCE, TARGET):
                found[name] = None
                if name == ID and self.change.rekeys:
                    found.update(dict.fromkeys(self.reads(self._key)))
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

    def missing(self, batch: pa.RecordBatch, name: str) -> Mask:
        """Rows that have no value afterwards, apart from those that refuse the change as failed."""
        source = self._embedded_text(name)
        if source is not None:  # the vectors are not made for the check
            texts = self._array(batch, source).values
            return ~np.asarray(is_written(texts).to_numpy(zero_copy_only=False), bool)
        found = self._array(batch, name)
        missing = np.asarray(found.values.is_null().to_numpy(zero_copy_only=False), bool)
        if name in (ID, SOURCE, TARGET) or self.column(name).is_lossy:
            return missing
        return missing & ~found.failed

    def is_never_null(self, name: str) -> bool:
        """Known without a look at the rows."""
        if name in (ID, SOURCE, TARGET):
            return True
        fill = self.column(name).fill
        if fill is None or fill.source is FillSource.EMBEDDING:
            return False
        expression = self.expressions.get(name)
        if expression is None:
            return True
        # The new type says that the property has a value, but where it is filled it has none yet.
        return name not in expression.columns and not expression.expression.nullable

    def _embedded_text(self, name: str) -> str | None:
        """The property whose texts the vectors of this one are made from again."""
        if name in (ID, SOURCE, TARGET):
            return None
        fill, made = self.column(name).fill, embedding_of(self.column(name).after)
        is_made = fill is not None and fill.source is FillSource.EMBEDDING
        return made.source if is_made and made is not None else None

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

    def _array(self, batch: pa.RecordBatch, name: str) -> ConvertedValues:
        if name in (ID, SOURCE, TARGET):
            return ConvertedValues(self._system(batch, name), np.zeros(batch.num_rows, bool))
        column = self.column(name)
        found = self._kept(batch, column)
        if column.fill is None:
            return found
        missing = found.values.is_null()
        if not pc.any(missing).as_py():
            return found
        fill = self._fill(batch, column, found.values)
        return replace(found, values=pc.if_else(missing, fill, found.values))

    @property
    def _key(self) -> tuple[str, ...]:
        assert self.change.after is not None
        return self.change.after.key

    def _system(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """`id`, `src` or `dst`, as they are after a change of keys."""
        if name == ID and self.change.rekeys:
            made = [pa.chunked_array([self._array(batch, member).values]) for member in self._key]
            return one_chunk(derived_ids(made))
        known = self.new_ids.get(name)
        return batch.column(name) if known is None else known.translated(batch.column(name))

    def _kept(self, batch: pa.RecordBatch, column: ColumnChange) -> ConvertedValues:
        """The stored values in their new form; NULL for a new property."""
        kind = arrow_field(column.after.name, column.after.type, nullable=True).type
        nothing = np.zeros(batch.num_rows, bool)
        if column.before is None:
            return ConvertedValues(pa.nulls(batch.num_rows, kind), nothing)
        values = batch.column(column.before.name)
        if column.mapping:
            values = _mapped(values, dict(column.mapping))
        if not column.converts:
            return ConvertedValues(values, nothing)
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
            try:
                values = expression.values(rows, Evaluator({}, self.now_millis))
                if isinstance(column.after.type, BlobType):
                    return judged_column(values.cast(pa.string()), NONE_ALLOWED)
                return values.cast(current.type)
            except InvalidArgument as error:
                assert self.change.after is not None
                owner = self.change.after.name
                raise InvalidArgument(f"backfill of {owner}.{name}: {error.message}") from error
        if isinstance(fill.value, GeneratedDefault):
            return generated_column(fill.value, current.type, batch.num_rows, self.now_millis)
        value = _fitting(fill.value, column.after.type)
        return pa.repeat(pa.scalar(value, current.type), batch.num_rows)

    def _embedded(self, batch: pa.RecordBatch, column: ColumnChange) -> pa.Array:
        made = embedding_of(column.after)
        assert made is not None
        assert self.provider is not None
        texts = self._array(batch, made.source).values
        kind = arrow_field(column.after.name, column.after.type, nullable=True).type
        vectors = pa.nulls(batch.num_rows, kind)
        return fill_vectors(self.provider, texts, vectors, made.model)


def _mapped(values: pa.Array, mapping: Mapping[str, str]) -> pa.Array:
    place = pc.index_in(values, value_set=pa.array(list(mapping), values.type))
    renamed = pa.array(list(mapping.values()), values.type).take(place)
    return pc.coalesce(renamed, values)


def _rows_without_columns(count: int) -> pa.Table:
    return pa.table({ID: pa.nulls(count)})


def id_map(store: Store, at: DatasetVersion, columns: NewColumns) -> IdMap:
    """The ids of a type before and after its key changes."""
    old, new = [pa.array([], pa.string())], [pa.array([], pa.string())]
    for batch in read_batches(store.open(at), columns.reads([ID]), batch_rows=_ROWS_WITH_IDS):
        old.append(batch.column(ID))
        new.append(columns.make(batch, [ID]).column(0))
    return IdMap(pa.concat_arrays(old), pa.concat_arrays(new))


def new_columns(
    change: TableChange, target: Catalog, now_millis: int, provider: EmbeddingProvider | None
) -> NewColumns:
    """Compiles the backfills of a type; raises `InvalidArgument` where an expression is wrong."""
    assert change.after is not None
    for column in change.columns:
        if column.fill is not None and column.fill.source is FillSource.CONSTANT:
            _require_fitting(change.after, column.after, column.fill.value)
    expressions = {
        column.after.name: _compiled(change.after, column.after, column.fill.expression, target)
        for column in change.columns
        if column.fill is not None and column.fill.expression is not None
    }
    return NewColumns(change, expressions, now_millis, provider)


def _require_fitting(entity: EntityType, declared: Property, value: object) -> None:
    try:
        _fitting(value, declared.type)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"backfill of {entity.name}.{declared.name}: {error.message}"
        ) from error


def _fitting(value: object, kind: ValueType) -> Any:
    """The value as it is stored. A backfill gives the bytes of a blob, never an external one."""
    if isinstance(kind, BlobType) and value is not None:
        return judged_blob(value, NONE_ALLOWED)
    return coerce(value, kind)


def _compiled(entity: EntityType, declared: Property, text: str, target: Catalog) -> RowExpression:
    """An expression in the words of `update … set { property: expression }`.

    The type is compiled without its constraints, because a key may be filled, too.
    """
    name = f"{entity.name}.{declared.name}"
    catalog = replace(
        target,
        nodes=tuple(replace(n, constraints=()) if n is entity else n for n in target.nodes),
        edges=tuple(replace(e, constraints=()) if e is entity else e for e in target.edges),
    )
    update = f"update {entity.name} set {{ {declared.name}: {text} }} where id = id"
    try:
        compiled = compile_query(update, catalog)
    except LanguageError as error:
        first = error.diagnostics[0] if error.diagnostics else None
        reason = first["message"] if first else error.message
        raise InvalidArgument(f"backfill of {name}: {reason} in `{text}`") from error
    (statement,) = compiled.statements
    if not isinstance(statement, Update) or len(statement.assignments) != 1:
        raise InvalidArgument(f"backfill of {name}: `{text}` is not one expression")
    return over_rows(statement.assignments[0].value)


def new_shape(
    change: TableChange, *, keeps_nullable: frozenset[str] = frozenset()
) -> list[ColumnShape]:
    """The columns of the table after the change.

    `keeps_nullable` are required properties whose stored column holds NULLs in deleted rows: Lance
    could not read them as required.
    """
    assert change.after is not None
    system = [ID, SOURCE, TARGET] if isinstance(change.after, EdgeType) else [ID]
    written = {column for column, _ in change.remaps} | ({ID} if change.rekeys else set())
    found = [
        ColumnShape(
            pa.field(name, pa.string(), nullable=False), source=name, is_written=name in written
        )
        for name in system
    ]
    for column in change.columns:
        declared = column.after
        nullable = declared.nullable or declared.name in keeps_nullable
        shape = ColumnShape(
            arrow_field(declared.name, declared.type, nullable=nullable),
            declared.identity,
            column.before.name if column.before is not None else None,
            column.is_written,
        )
        found.append(shape)
    return found


@dataclass(frozen=True, slots=True)
class ColumnTask:
    """New values of one table, written one fragment at a time; tasks of Spark get it, too."""

    columns: NewColumns
    names: tuple[str, ...]
    schema: pa.Schema
    rows: int
    """How many rows get new values, for progress."""

    @staticmethod
    def of(columns: NewColumns, rows: int) -> ColumnTask:
        written = [shape.field for shape in new_shape(columns.change) if shape.is_written]
        return ColumnTask(columns, tuple(f.name for f in written), pa.schema(written), rows)

    @property
    def what(self) -> str:
        """The work in the words of progress."""
        assert self.columns.change.after is not None
        return f"writing {self.columns.change.after.name}: {', '.join(self.names)}"

    @property
    def needs_this_process(self) -> bool:
        """A provider of vectors and the ids of a whole type are not sent to other processes."""
        return self.columns.provider is not None or bool(self.columns.new_ids)

    def write(
        self,
        store: Store,
        at: DatasetVersion,
        fragment: int,
        after_batch: Callable[[int], None] = lambda _: None,
    ) -> str:
        """The metadata of one fragment with its new columns.

        `after_batch` gets the number of rows; a thread of Lance may call it.
        """
        reads = self.columns.reads(self.names)
        # Translating ids looks at all of them for every batch.
        rows = _ROWS_WITH_IDS if self.columns.new_ids else _ROWS

        def make(batch: pa.RecordBatch) -> pa.RecordBatch:
            made = self.columns.make(batch, self.names)
            after_batch(batch.num_rows)
            return made

        return write_columns(store.address(at), fragment, self.schema, reads, make, rows)


class ColumnWriter(Protocol):
    """Where new columns are written: in this process, or by workers."""

    def __call__(
        self, store: Store, at: DatasetVersion, fragments: Sequence[int], task: ColumnTask
    ) -> Sequence[str]:
        """The metadata of each fragment with its new columns, in order."""


def write_here(
    store: Store, at: DatasetVersion, fragments: Sequence[int], task: ColumnTask
) -> Sequence[str]:
    """Between two batches it gives way to writers of this process."""
    made: list[str] = []
    tell, give_way, done = teller(), GiveWay(), 0
    tell(task.what, 0, task.rows, "rows", STAGE)

    def after_batch(rows: int) -> None:
        nonlocal done
        done += rows
        tell(task.what, done, task.rows, "rows", STAGE)
        give_way()

    for fragment in fragments:
        made.append(task.write(store, at, fragment, after_batch))
        failpoints.hit("schema_apply.after_backfill_batch")
    return made
