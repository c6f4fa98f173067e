"""Ask the stored rows whether a schema change is possible.

Each check reads only the columns that it judges, a batch at a time, in the form that they will have
after the change. The first pass counts. Only if rows break a rule, a second pass finds out which.
Comparisons over all rows (unique values, edges of a source, endpoints) are joins in DuckDB, which
keeps to a memory limit and spills to disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import (
    ID,
    SOURCE,
    TARGET,
    Check,
    EdgeType,
    EntityType,
    NodeType,
    Range,
)
from omnigraph.evolve.conversion import Mask
from omnigraph.evolve.new_columns import NewColumns
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.rules import DerivedId, Required, row_rules
from omnigraph.integrity.violations import Report
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.schema.changes import CODES, CheckKind, DataCheck, SchemaChanges, TableChange
from omnigraph.schema.steps import spell_constraint
from omnigraph.values.identifiers import TableKey, node_table
from omnigraph.values.plurals import counted
from omnigraph.values.scalars import EnumType, ScalarKind, ScalarType, ValueType

MOST_SAMPLES = 20
_BATCH_ROWS = 64 * 1024
_SYSTEM = (ID, SOURCE, TARGET)


@dataclass(frozen=True, slots=True)
class SchemaViolation:
    """Stored entities that break one rule of the new schema."""

    type_name: str
    property: str | None
    constraint: str
    code: str
    count: int
    sample_ids: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(repr, self.sample_ids[:3]))
        more = ", …" if self.count > 3 else ""
        broken = f"{counted(self.count, 'entity')} {'breaks' if self.count == 1 else 'break'}"
        rule = f"{self.constraint} ({shown}{more}): {CODES[self.code]}"
        return f"{self.type_name}: {broken} {rule}  [{self.code}]"

    def to_dict(self) -> dict[str, Any]:
        return {
            "type_name": self.type_name,
            "property": self.property,
            "constraint": self.constraint,
            "code": self.code,
            "count": self.count,
            "sample_ids": list(self.sample_ids),
        }


@dataclass(frozen=True, slots=True)
class CheckedTables:
    """Where the rows of a change are read from."""

    store: Store
    snapshot: Snapshot
    changes: SchemaChanges
    columns: dict[TableKey, NewColumns]
    """By the new key of each type that exists already."""
    memory_bytes: int

    def before(self, after: TableKey) -> TableKey:
        entity = self.columns[after].change.before
        assert entity is not None
        return entity.table_key

    def batches(self, after: TableKey, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """New columns of the stored rows; ids and ends are the stored ones."""
        new = self.columns[after]
        own = [name for name in names if name not in _SYSTEM]
        read = list(dict.fromkeys([*(name for name in names if name in _SYSTEM), *new.reads(own)]))
        for batch in self.stored(after, read):
            made = dict(zip(own, new.make(batch, own).columns, strict=True)) if own else {}
            arrays = [made[name] if name in made else batch.column(name) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, list(names))

    def stored(self, after: TableKey, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        dataset = self.store.open(self.snapshot.pin(self.before(after)).at)
        yield from read_batches(dataset, names or [ID], batch_rows=_BATCH_ROWS)

    def holds_rows(self, after: TableKey) -> bool:
        return after in self.columns and self.snapshot.pin(self.before(after)).row_count > 0


def run_checks(
    tables: CheckedTables, progress: Callable[[DataCheck], None] | None = None
) -> list[SchemaViolation]:
    """All violations of all checks."""
    found = []
    for check in tables.changes.checks:
        if not tables.holds_rows(check.table) and check.kind is not CheckKind.CARDINALITY:
            continue
        if check.table not in tables.columns:
            continue
        if progress is not None:
            progress(check)
        broken = _CHECKS[check.kind](tables, check)
        if broken is not None:
            found.append(broken)
    return found


def tables_read(changes: SchemaChanges) -> frozenset[TableKey]:
    """Types, by their new keys, whose rows the checks read."""
    found = set()
    edges = {edge.table_key: edge for edge in changes.target.edges}
    for check in changes.checks:
        found.add(check.table)
        if check.kind in (CheckKind.CARDINALITY, CheckKind.ENDPOINTS):
            edge = edges[check.table]
            found |= {node_table(edge.source), node_table(edge.target)}
    return frozenset(found)


Bad = Callable[[pa.RecordBatch], Any]
"""Numbers of the rows of a batch that break the rule."""


def _required(tables: CheckedTables, check: DataCheck) -> SchemaViolation | None:
    (name,) = check.columns
    if tables.columns[check.table].is_never_null(name):
        return None
    return _by_stored_row(tables, check, lambda new, batch: new.missing(batch, name))


def _convertible(tables: CheckedTables, check: DataCheck) -> SchemaViolation | None:
    (name,) = check.columns
    return _by_stored_row(tables, check, lambda new, batch: new.failed(batch, name))


def _by_stored_row(
    tables: CheckedTables, check: DataCheck, bad: Callable[[NewColumns, pa.RecordBatch], Mask]
) -> SchemaViolation | None:
    (name,) = check.columns
    new = tables.columns[check.table]
    read = new.reads([name])
    total = sum(int(bad(new, batch).sum()) for batch in tables.stored(check.table, read))
    if not total:
        return None
    samples: list[str] = []
    for batch in tables.stored(check.table, [ID, *(n for n in read if n != ID)]):
        rows = np.flatnonzero(bad(new, batch))
        samples += batch.column(ID).take(pa.array(rows, pa.int64())).to_pylist()
        if len(samples) >= MOST_SAMPLES:
            break
    return _violation(check, total, samples, name)


def _values(tables: CheckedTables, check: DataCheck) -> SchemaViolation | None:
    (name,) = check.columns
    rules = _rule_of(check, tables.changes.target.entity_type(check.table))
    if all(isinstance(r, Required | DerivedId) for r in row_rules(rules)):
        if name in tables.columns[check.table].expressions:
            for _ in tables.batches(check.table, (name,)):
                pass  # an expression that cannot be evaluated raises here
        return None

    def bad(batch: pa.RecordBatch) -> Any:
        report = Report(batch.num_rows)
        numbered = pa.table({ID: _numbers(batch.num_rows), name: batch.column(name)})
        check_rows(rules, numbered, report)
        return sorted({int(v.entity_id or 0) for v in report.violations})

    return _by_row(tables, check, (name,), bad, name)


def _numbers(count: int) -> pa.Array:
    return pa.array(np.arange(count)).cast(pa.string())


def _rule_of(check: DataCheck, entity: EntityType) -> NodeType:
    """A type with only the rule that is checked: one constraint, or the type of a property."""
    rules = tuple(
        c
        for c in entity.constraints
        if isinstance(c, Range | Check) and spell_constraint(c) == check.constraint
    )
    kept = tuple(
        replace(p, nullable=True, type=_without_values(p.type) if rules else p.type)
        for p in entity.properties
        if p.name in check.columns
    )
    return NodeType(entity.name, kept, rules)


def _without_values(value_type: ValueType) -> ValueType:
    """An enum as the String that it is stored as."""
    is_enum = isinstance(value_type, EnumType)
    return ScalarType(ScalarKind.STRING) if is_enum else value_type


def _by_row(
    tables: CheckedTables, check: DataCheck, names: tuple[str, ...], bad: Bad, about: str
) -> SchemaViolation | None:
    total = sum(len(bad(batch)) for batch in tables.batches(check.table, names))
    if not total:
        return None
    samples: list[str] = []
    for batch in tables.batches(check.table, (ID, *names)):
        rows = bad(batch)
        if len(rows):
            samples += batch.column(ID).take(pa.array(rows)).to_pylist()
        if len(samples) >= MOST_SAMPLES:
            break
    return _violation(check, total, samples, about)


def _unique(tables: CheckedTables, check: DataCheck) -> SchemaViolation | None:
    names = list(check.columns)
    columns = ", ".join(_quoted(name) for name in names)
    whole = " AND ".join(f"{_quoted(name)} IS NOT NULL" for name in names)
    with _database(tables) as database:
        database.register("t", _reader(tables, check.table, names))
        database.execute(
            f"CREATE TEMP TABLE g AS SELECT {columns}, count(*) AS __n FROM t WHERE {whole} "
            f"GROUP BY {columns} HAVING count(*) > 1"
        )
        total = int(database.sql("SELECT coalesce(sum(__n), 0) FROM g").fetchall()[0][0])
        if not total:
            return None
        database.register("u", _reader(tables, check.table, [ID, *names]))
        same = " AND ".join(f"u.{_quoted(n)} = g.{_quoted(n)}" for n in names)
        shown = database.sql(
            f"SELECT u.{ID} FROM u JOIN g ON {same} ORDER BY 1 LIMIT {MOST_SAMPLES}"
        )
        samples = [row[0] for row in shown.fetchall()]
    return _violation(check, total, samples, names[0] if len(names) == 1 else None)


def _cardinality(tables: CheckedTables, check: DataCheck) -> SchemaViolation | None:
    edge = _edge(tables, check)
    bounds = edge.cardinality
    assert bounds is not None
    with _database(tables) as database:
        database.register("e", _reader(tables, check.table, [SOURCE]))
        counted = f"SELECT {SOURCE} AS id, count(*) AS n FROM e GROUP BY 1"
        nodes = node_table(edge.source)
        if bounds.minimum > 0 and nodes in tables.columns:
            database.register("v", _reader(tables, nodes, [ID]))
            counted = (
                f"SELECT v.{ID} AS id, count(e.{SOURCE}) AS n FROM v LEFT JOIN e "
                f"ON e.{SOURCE} = v.{ID} GROUP BY 1"
            )
        high = f" OR n > {bounds.maximum}" if bounds.maximum is not None else ""
        return _listed(
            database, check, f"SELECT id FROM ({counted}) WHERE n < {bounds.minimum}{high}"
        )


def _endpoints(tables: CheckedTables, check: DataCheck) -> SchemaViolation | None:
    edge = _edge(tables, check)
    with _database(tables) as database:
        lost = []
        for number, (column, name) in enumerate(((SOURCE, edge.source), (TARGET, edge.target))):
            nodes = node_table(name)
            is_new = nodes not in tables.columns  # a new type has no nodes
            ids = pa.table({ID: pa.array([], pa.string())}) if is_new else None
            database.register(f"v{number}", _reader(tables, nodes, [ID]) if ids is None else ids)
            lost.append(f"e.{column} NOT IN (SELECT {ID} FROM v{number})")
        database.register("e", _reader(tables, check.table, [ID, SOURCE, TARGET]))
        return _listed(database, check, f"SELECT {ID} AS id FROM e WHERE {' OR '.join(lost)}")


def _listed(database: Any, check: DataCheck, query: str) -> SchemaViolation | None:
    database.execute(f"CREATE TEMP TABLE broken AS {query}")
    total = int(database.sql("SELECT count(*) FROM broken").fetchall()[0][0])
    if not total:
        return None
    first = database.sql(f"SELECT id FROM broken ORDER BY id LIMIT {MOST_SAMPLES}").fetchall()
    return _violation(check, total, [row[0] for row in first], None)


_CHECKS: dict[CheckKind, Callable[[CheckedTables, DataCheck], SchemaViolation | None]] = {
    CheckKind.REQUIRED: _required,
    CheckKind.CONVERTIBLE: _convertible,
    CheckKind.VALUES: _values,
    CheckKind.UNIQUE: _unique,
    CheckKind.CARDINALITY: _cardinality,
    CheckKind.ENDPOINTS: _endpoints,
}


def _violation(
    check: DataCheck, total: int, samples: Sequence[str], about: str | None
) -> SchemaViolation:
    return SchemaViolation(
        check.table.type_name,
        about,
        check.constraint,
        check.code,
        total,
        tuple(samples[:MOST_SAMPLES]),
    )


def _reader(tables: CheckedTables, after: TableKey, names: Sequence[str]) -> pa.RecordBatchReader:
    batches = tables.batches(after, names)
    first = next(batches, None)
    if first is None:
        kinds = pa.schema([pa.field(name, pa.string()) for name in names])
        return pa.RecordBatchReader.from_batches(kinds, [])

    def all_of() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, all_of())


@contextmanager
def _database(tables: CheckedTables) -> Iterator[Any]:
    with tempfile.TemporaryDirectory(prefix="omnigraph-checks-") as folder:
        database = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{max(tables.memory_bytes // (1 << 20), 64)}MiB",
                "temp_directory": folder,
                "preserve_insertion_order": "false",
            },
        )
        try:
            yield database
        finally:
            database.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _edge(tables: CheckedTables, check: DataCheck) -> EdgeType:
    return tables.changes.target.edge_types[check.table.type_name]


def changes_by_key(changes: Sequence[TableChange]) -> dict[TableKey, TableChange]:
    """The types that exist before and after, by their new key."""
    return {c.after.table_key: c for c in changes if c.before is not None and c.after is not None}
