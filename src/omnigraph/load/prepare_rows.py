"""The second stage of a load: parsed rows -> prepared rows. Both engines run this code.

A prepared row has its id, and it keeps every rule that the row alone can break. Rules about several
rows, and rows that are stored already, are checked later by `commit_load`. Vectors are made last,
because they cost time or money, and a load that fails does not need them.

Spark workers import this module for every task, so it must not import DuckDB or anything that opens
a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.generated import fill_generated
from omnigraph.catalog.model import ID, SOURCE, EdgeType, EntityType, embedding_of
from omnigraph.embed.provider import is_written
from omnigraph.integrity.row_checks import (
    RowNumbers,
    checked_property,
    failing_rows,
    row_violations,
)
from omnigraph.integrity.rules import DerivedId, Required, RowRule, row_rules
from omnigraph.integrity.violations import Place, Places, Report, Violation
from omnigraph.load.json_columns import one_array
from omnigraph.load.parsed_rows import AbsentColumns, Lines, ParsedBlock, ParsedRows, ParseProblem
from omnigraph.values.entity_ids import new_ulids
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.derived import derived_ids
from omnigraph.writes.row_compare import Mask

PLACE = "__place"
"""The column that says where a row came from: one number that grows with file and line."""
ABSENT = "__absent"
"""The column that says what a row leaves out: names of columns, joined by commas."""

_FILE_SHIFT = 40
MOST_REJECTED = 1_000_000
"""Without a limit of the caller: a load with more rejected rows fails without reading the rest."""


def place_of(file_number: int, line: int) -> int:
    return (file_number << _FILE_SHIFT) | line


def file_and_line(place: int) -> tuple[int, int]:
    return place >> _FILE_SHIFT, place & ((1 << _FILE_SHIFT) - 1)


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """Rows of one type under the schema of their table, and the line of each row."""

    entity: EntityType
    table: pa.Table
    lines: Lines
    has_id: Mask | None
    """Rows that came with an id or a key; None when all did. This load made the other ids."""
    absent: pa.Array | None = None
    """What each row leaves out, if the rows are patches or the type has generated defaults."""


@dataclass(slots=True)
class RejectedRow:
    """One row, and every rule that it breaks. Pickles."""

    violations: list[Violation] = field(default_factory=list)
    row: Any = None
    """The row as the input has it; None until it is known."""


@dataclass(slots=True)
class RejectedRows:
    """Rejected rows by the number of their place, or in a Spark task by their line. Pickles."""

    kept: bool = False
    """Keep the rows, because the load goes on without them or writes them to a file."""
    rows: dict[int, RejectedRow] = field(default_factory=dict)

    def add(self, number: int, violation: Violation, row: Any = None) -> None:
        found = self.rows.setdefault(number, RejectedRow())
        found.violations.append(violation)
        found.row = row if found.row is None else found.row


@dataclass(frozen=True, slots=True)
class BrokenRows:
    """The ids, and of edges the sources, of rows that break a row rule; they are not loaded.

    Graph rules do not see these rows. They must know of them, because an edge is not to blame if
    its node is a broken row.
    """

    key: TableKey
    ids: pa.Array
    sources: pa.Array | None


@dataclass(frozen=True, slots=True)
class _JudgedRows:
    """Rows of one type with what their rejection needs."""

    entity: EntityType
    table: pa.Table
    numbers: Lines
    """The number of the place of each row."""
    places: Places
    as_read: Callable[[int], Any]
    """Row number -> the row as the input has it; None if it is not known."""


@dataclass(slots=True)
class RowJudge:
    """Checks rows by themselves, and keeps what is wrong with them."""

    report: Report
    rejected: RejectedRows
    broken: list[BrokenRows] = field(default_factory=list)
    now_millis: int = field(kw_only=True)
    """The `now()` of defaults."""

    def prepare(self, block: ParsedBlock, before: int = 0) -> Iterator[PreparedRows]:
        """The rows of a block that keep all rules; `before` is the place before its first line."""
        unread = self._refuse_problems(block, before)
        for rows in block.broken:
            table = self._with_defaults(rows)
            self._check(_of_block(block, rows, table, before), unread)
            self._keep_broken(rows.entity, table)
        for rows in block.rows:
            table = self._with_defaults(rows)
            bad = self._check(_of_block(block, rows, table, before))
            lines, has_id, absent = rows.lines, _has_id(rows), rows.absent
            if bad is not None:
                self._keep_broken(rows.entity, table.filter(pa.array(bad)))
                table, lines = table.filter(pa.array(~bad)), lines[~bad]
                has_id = None if has_id is None else has_id[~bad]
                absent = None if absent is None else absent.filter(pa.array(~bad))
            if table.num_rows:
                stored = pa.table(table.columns, schema=table_schema(rows.entity))
                yield PreparedRows(rows.entity, stored, lines, has_id, absent)

    def _with_defaults(self, rows: ParsedRows) -> pa.Table:
        """The rows with generated defaults and ids."""
        table = rows.table
        if rows.absent is not None:
            left_out = AbsentColumns(rows.absent).of
            table = fill_generated(rows.entity, table, left_out, self.now_millis)
        return _with_ids(rows.entity, table)

    def patches(self, block: ParsedBlock, before: int = 0) -> Iterator[ParsedRows]:
        """The patches of a block whose values keep all rules; whole rows are checked later."""
        unread = self._refuse_problems(block, before)
        for rows in block.broken:
            table = _with_ids(rows.entity, rows.table)
            self._check(_of_block(block, rows, table, before), unread, whole=False)
            self._keep_broken(rows.entity, table)
        for rows in block.rows:
            ids = known_ids(rows.entity, rows.table)
            table = rows.table.set_column(0, rows.table.schema.field(0), ids)
            bad = self._check(_of_block(block, rows, table, before), whole=False)
            if bad is None:
                yield rows
                continue
            good = pa.array(~bad)
            self._keep_broken(rows.entity, table.filter(pa.array(bad)))
            absent = None if rows.absent is None else rows.absent.filter(good)
            yield ParsedRows(rows.entity, rows.table.filter(good), rows.lines[~bad], absent)

    def accepted(
        self, entity: EntityType, rows: pa.Table, place: Callable[[int], Place]
    ) -> Mask | None:
        """A mask of the rows that keep all rules; None if all do. The rows have places."""
        numbers = rows.column(PLACE).to_numpy()
        judged = _JudgedRows(
            entity, rows, numbers, lambda row: place(int(numbers[row])), lambda _: None
        )
        bad = self._check(judged)
        if bad is None:
            return None
        self._keep_broken(entity, rows.filter(pa.array(bad)))
        return ~bad

    def _refuse_problems(self, block: ParsedBlock, before: int) -> dict[int, set[str | None]]:
        """Reject rows that cannot be read; returns their unreadable properties by place."""
        unread: dict[int, set[str | None]] = {}
        for problem in block.problems:
            found = _violation(problem, block.file)
            number = before + problem.line
            self.report.add(problem.rule, 1, [found], found.table, problem.property)
            unread.setdefault(number, set()).add(problem.property)
            if self.rejected.kept:
                self.rejected.add(number, found, block.as_read(problem.line))
        return unread

    def _check(
        self,
        rows: _JudgedRows,
        unread: Mapping[int, AbstractSet[str | None]] | None = None,
        *,
        whole: bool = True,
    ) -> Mask | None:
        """A mask of the rows that break a rule; None if none does.

        `unread` names the values that could not be read. They are NULL, so rules pass over them. If
        the rows are not `whole`, what is missing is no mistake.
        """
        bad: Mask | None = None
        entity, numbers = rows.entity, rows.numbers
        for rule in row_rules(entity):
            if not whole and isinstance(rule, Required | DerivedId):
                continue
            name = checked_property(rule)
            failing = _failing(entity, rule, rows.table)
            if unread is not None:
                known = [name not in unread.get(int(numbers[row]), ()) for row in failing]
                failing = failing[np.array(known, dtype=bool)]
            if len(failing) == 0:
                continue
            bad = np.zeros(len(numbers), dtype=bool) if bad is None else bad
            bad[failing] = True
            found = row_violations(entity, rule, rows.table, failing, rows.places)
            if self.rejected.kept:
                kept = list(found)
                for row, violation in zip(failing.tolist(), kept, strict=True):
                    self.rejected.add(int(numbers[row]), violation, rows.as_read(row))
                found = iter(kept)
            self.report.add(rule.name, len(failing), found, entity.table_key, name)
        return bad

    def _keep_broken(self, entity: EntityType, table: pa.Table) -> None:
        sources = one_array(table.column(SOURCE)) if isinstance(entity, EdgeType) else None
        self.broken.append(BrokenRows(entity.table_key, one_array(table.column(ID)), sources))


def _of_block(block: ParsedBlock, rows: ParsedRows, table: pa.Table, before: int) -> _JudgedRows:
    lines = rows.lines
    return _JudgedRows(
        rows.entity,
        table,
        before + lines,
        lambda row: Place(block.file, int(lines[row])),
        lambda row: block.as_read(int(lines[row])),
    )


def _failing(entity: EntityType, rule: RowRule, table: pa.Table) -> RowNumbers:
    """Rows that break the rule. A vector that will be made from a text is not missing."""
    rows = failing_rows(rule, table)
    if len(rows) == 0 or not isinstance(rule, Required):
        return rows
    declared = next((p for p in entity.properties if p.name == rule.column), None)
    embedding = None if declared is None else embedding_of(declared)
    if embedding is None:
        return rows
    texts = table.column(embedding.source).take(pa.array(rows))
    lacking: Mask = ~np.asarray(is_written(texts), dtype=bool)
    return np.asarray(rows[lacking])


def _with_ids(entity: EntityType, table: pa.Table) -> pa.Table:
    """Every row with its id: the given one, else one derived from its key, else a new one.

    A row with an incomplete key gets an empty id. `check_rows` reports the missing member.
    """
    if not entity.key and table.column(ID).null_count == 0:
        return table
    ids = with_new_ids(entity, known_ids(entity, table))
    return table.set_column(0, table.schema.field(0), ids)


def known_ids(entity: EntityType, table: pa.Table) -> pa.ChunkedArray:
    """The given ids, else those of the keys; NULL for a row that has neither."""
    given = table.column(ID)
    if not entity.key:
        return given
    derived = derived_ids([table.column(name) for name in entity.key])
    return derived if given.null_count == len(given) else pc.coalesce(given, derived)


def with_new_ids(entity: EntityType, given: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The ids, with a new one for each NULL; an empty one if the type has a key."""
    if given.null_count == 0:
        return given
    if entity.key:
        return pc.fill_null(given, "")
    fresh = new_ulids(given.null_count)
    if given.null_count == len(given):
        return fresh
    missing = given.is_null().to_numpy()
    position = np.cumsum(missing) - 1
    return pc.coalesce(given, fresh.take(pa.array(np.maximum(position, 0))))


def _has_id(rows: ParsedRows) -> Mask | None:
    given = rows.table.column(ID)
    if rows.entity.key or given.null_count == 0:
        return None
    if given.null_count == len(given):
        return np.zeros(len(given), bool)
    return np.asarray(given.is_valid().to_numpy())


def _violation(problem: ParseProblem, file: str) -> Violation:
    table = problem.entity.table_key if problem.entity is not None else None
    place = Place(file, problem.line)
    return Violation(problem.rule, table, None, problem.property, problem.message, place)
