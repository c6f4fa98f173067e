"""Ask the stored rows whether a schema change is possible.

Each check reads only the columns that it judges, a batch at a time, in the form that they will have
after the change. A rule about single rows is a `RowCheck`: the first pass counts, and only if rows
break the rule, a second pass finds out which. Comparisons over all rows (unique values, edges of a
source, endpoints) are SQL over relations. A `CheckEngine` runs both: this process with DuckDB
(`local_checks.py`), or Spark (`spark/schema_checks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
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
from omnigraph.evolve.new_columns import NewColumns
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.rules import DerivedId, Required, row_rules
from omnigraph.integrity.violations import Report
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import tell
from omnigraph.schema.changes import CODES, CheckKind, DataCheck, SchemaChanges, TableChange
from omnigraph.schema.steps import spell_constraint
from omnigraph.values.identifiers import TableKey, node_table
from omnigraph.values.plurals import counted
from omnigraph.values.scalars import EnumType, ScalarKind, ScalarType, ValueType

MOST_SAMPLES = 20
SYSTEM_COLUMNS = (ID, SOURCE, TARGET)
STAGE = "check"
"""The stage of progress."""


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


ReadStored = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Reads these stored columns: all rows of a table, or those of one task."""


@dataclass(frozen=True, slots=True)
class RuleBreaks:
    """How many rows break a rule, and the ids of the first ones in stored order."""

    count: int
    sample_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A rule that is decided row by row. It is plain data, so tasks of Spark get it, too."""

    new: NewColumns
    kind: CheckKind
    name: str
    rules: NodeType | None = None
    """With `VALUES`: the rules of the property; None only evaluates its new values."""

    def run(self, read: ReadStored) -> RuleBreaks:
        columns = self.new.reads([self.name])
        total = sum(len(self._broken(batch)) for batch in read(columns or [ID]))
        if not total:
            return RuleBreaks(0, ())
        samples: list[str] = []
        for batch in read([ID, *(name for name in columns if name != ID)]):
            rows = pa.array(self._broken(batch), pa.int64())
            samples += batch.column(ID).take(rows).to_pylist()
            if len(samples) >= MOST_SAMPLES:
                break
        return RuleBreaks(total, tuple(samples[:MOST_SAMPLES]))

    def _broken(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """The numbers of the rows that break the rule."""
        if self.kind is CheckKind.REQUIRED:
            return np.flatnonzero(self.new.missing(batch, self.name))
        if self.kind is CheckKind.CONVERTIBLE:
            return np.flatnonzero(self.new.failed(batch, self.name))
        values = self.new.make(batch, [self.name]).column(0)
        if self.rules is None:
            return np.empty(0, np.int64)
        report = Report(batch.num_rows)
        numbers = pa.array(np.arange(batch.num_rows)).cast(pa.string())
        check_rows(self.rules, pa.table({ID: numbers, self.name: values}), report)
        found = sorted({int(violation.entity_id or 0) for violation in report.violations})
        return np.array(found, np.int64)


def made_batches(
    new: NewColumns, names: Sequence[str], read: ReadStored
) -> Iterator[pa.RecordBatch]:
    """New columns of stored rows; ids and ends are the stored ones.

    System columns keep their names. The others are `c0`, `c1` and so on, so that SQL needs no
    quotes.
    """
    own = [name for name in names if name not in SYSTEM_COLUMNS]
    system = [name for name in names if name in SYSTEM_COLUMNS]
    stored = list(dict.fromkeys([*system, *new.reads(own)])) or [ID]
    for batch in read(stored):
        made = dict(zip(own, new.make(batch, own).columns, strict=True)) if own else {}
        arrays = [made[name] if name in made else batch.column(name) for name in names]
        yield pa.RecordBatch.from_arrays(arrays, sql_names(names))


def sql_names(names: Sequence[str]) -> list[str]:
    """The columns of a relation with the values of these columns."""
    own = iter(range(len(names)))
    return [name if name in SYSTEM_COLUMNS else f"c{next(own)}" for name in names]


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

    def row_count(self, after: TableKey) -> int:
        """Rows of a type now; a new type has none."""
        if after not in self.columns:
            return 0
        return self.snapshot.pin(self.before(after)).row_count


class Relations(Protocol):
    """Tables as SQL sees them. A statement names a relation in braces: `SELECT id FROM {e}`."""

    def read(self, name: str, table: TableKey, columns: Sequence[str]) -> None:
        """A relation of new columns, which one statement reads; `sql_names` has their names."""

    def keep(self, name: str, statement: str) -> None:
        """A relation of the result, which several statements read."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The result of a statement with few rows."""


class CheckEngine(Protocol):
    """Where checks read the rows."""

    def by_row(self, tables: CheckedTables, table: TableKey, check: RowCheck) -> RuleBreaks:
        """The rows of a table that break a rule."""

    def relations(self, tables: CheckedTables) -> AbstractContextManager[Relations]:
        """Relations for one check."""


ChooseEngine = Callable[[int], CheckEngine]
"""Where so many rows are checked."""


def run_checks(tables: CheckedTables, choose: ChooseEngine) -> list[SchemaViolation]:
    """All violations of all checks."""
    found = []
    for check in tables.changes.checks:
        if check.table not in tables.columns:
            continue
        rows = tables.row_count(check.table)
        if not rows and check.kind is not CheckKind.CARDINALITY:
            continue
        tell(f"checking {check.table.type_name}: {check.constraint}", 0, rows, "rows", STAGE)
        broken = _CHECKS[check.kind](tables, check, choose(rows))
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


def _by_row(tables: CheckedTables, check: DataCheck, engine: CheckEngine) -> SchemaViolation | None:
    (name,) = check.columns
    new = tables.columns[check.table]
    rules = None
    if check.kind is CheckKind.REQUIRED and new.is_never_null(name):
        return None
    if check.kind is CheckKind.VALUES:
        rules = _rule_of(check, tables.changes.target.entity_type(check.table))
        if all(isinstance(r, Required | DerivedId) for r in row_rules(rules)):
            if name not in new.expressions:
                return None
            rules = None  # an expression that cannot be evaluated raises
    broken = engine.by_row(tables, check.table, RowCheck(new, check.kind, name, rules))
    return _violation(check, broken, name)


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


def _unique(tables: CheckedTables, check: DataCheck, engine: CheckEngine) -> SchemaViolation | None:
    names = check.columns
    columns = sql_names(names)
    listed = ", ".join(columns)
    whole = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    with engine.relations(tables) as at:
        at.read("t", check.table, names)
        at.keep(
            "g",
            f"SELECT {listed}, count(*) AS how_often FROM {{t}} WHERE {whole} "
            f"GROUP BY {listed} HAVING count(*) > 1",
        )
        total = int(at.rows("SELECT coalesce(sum(how_often), 0) FROM {g}")[0][0])
        if not total:
            return None
        at.read("u", check.table, [ID, *names])
        same = " AND ".join(f"u.{column} = g.{column}" for column in columns)
        shown = at.rows(
            f"SELECT u.{ID} FROM {{u}} AS u JOIN {{g}} AS g ON {same} "
            f"ORDER BY 1 LIMIT {MOST_SAMPLES}"
        )
    samples = tuple(row[0] for row in shown)
    return _violation(check, RuleBreaks(total, samples), names[0] if len(names) == 1 else None)


def _cardinality(
    tables: CheckedTables, check: DataCheck, engine: CheckEngine
) -> SchemaViolation | None:
    edge = _edge(tables, check)
    bounds = edge.cardinality
    assert bounds is not None
    with engine.relations(tables) as at:
        at.read("e", check.table, [SOURCE])
        per_source = f"SELECT {SOURCE} AS id, count(*) AS n FROM {{e}} GROUP BY {SOURCE}"
        nodes = node_table(edge.source)
        if bounds.minimum > 0 and nodes in tables.columns:
            at.read("v", nodes, [ID])
            per_source = (
                f"SELECT v.{ID} AS id, count(e.{SOURCE}) AS n FROM {{v}} AS v "
                f"LEFT JOIN {{e}} AS e ON e.{SOURCE} = v.{ID} GROUP BY v.{ID}"
            )
        high = f" OR n > {bounds.maximum}" if bounds.maximum is not None else ""
        query = f"SELECT id FROM ({per_source}) AS s WHERE n < {bounds.minimum}{high}"
        return _listed(at, check, query)


def _endpoints(
    tables: CheckedTables, check: DataCheck, engine: CheckEngine
) -> SchemaViolation | None:
    edge = _edge(tables, check)
    joins, lost = [], []
    with engine.relations(tables) as at:
        for column, name in ((SOURCE, edge.source), (TARGET, edge.target)):
            nodes = node_table(name)
            if nodes not in tables.columns:  # a new type has no nodes
                lost.append("true")
                continue
            other = f"of_{column}"
            at.read(other, nodes, [ID])
            joins.append(f"LEFT JOIN {{{other}}} AS {other} ON {other}.{ID} = e.{column}")
            lost.append(f"{other}.{ID} IS NULL")
        at.read("e", check.table, [ID, SOURCE, TARGET])
        ends = " ".join(joins)
        return _listed(
            at, check, f"SELECT e.{ID} AS id FROM {{e}} AS e {ends} WHERE {' OR '.join(lost)}"
        )


def _listed(at: Relations, check: DataCheck, query: str) -> SchemaViolation | None:
    at.keep("broken", query)
    total = int(at.rows("SELECT count(*) FROM {broken}")[0][0])
    if not total:
        return None
    first = at.rows(f"SELECT id FROM {{broken}} ORDER BY id LIMIT {MOST_SAMPLES}")
    return _violation(check, RuleBreaks(total, tuple(row[0] for row in first)), None)


_CHECKS: dict[
    CheckKind, Callable[[CheckedTables, DataCheck, CheckEngine], SchemaViolation | None]
] = {
    CheckKind.REQUIRED: _by_row,
    CheckKind.CONVERTIBLE: _by_row,
    CheckKind.VALUES: _by_row,
    CheckKind.UNIQUE: _unique,
    CheckKind.CARDINALITY: _cardinality,
    CheckKind.ENDPOINTS: _endpoints,
}


def _violation(check: DataCheck, broken: RuleBreaks, about: str | None) -> SchemaViolation | None:
    if not broken.count:
        return None
    return SchemaViolation(
        check.table.type_name,
        about,
        check.constraint,
        check.code,
        broken.count,
        broken.sample_ids,
    )


def _edge(tables: CheckedTables, check: DataCheck) -> EdgeType:
    return tables.changes.target.edge_types[check.table.type_name]


def changes_by_key(changes: Sequence[TableChange]) -> dict[TableKey, TableChange]:
    """The types that exist before and after, by their new key."""
    return {c.after.table_key: c for c in changes if c.before is not None and c.after is not None}
