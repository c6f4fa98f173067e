"""The second stage of a load: parsed rows -> prepared rows. Both engines run this code.

A prepared row has its id and its vectors, and it keeps every rule that the row alone can break.
Rules about several rows, and rows that are stored already, are checked later by `commit_load`.

Spark workers import this module for every task, so it must not import DuckDB or anything that opens
a graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, EntityType
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.violations import Place, Places, Report, Violation
from omnigraph.load.parsed_rows import Lines, ParsedBlock, ParsedRows, ParseProblem
from omnigraph.values.entity_ids import new_ulids
from omnigraph.writes.derived import derived_ids, fill_embeddings
from omnigraph.writes.row_compare import Mask

PLACE = "__place"
"""The column that says where a row came from: one number that grows with file and line."""

_FILE_SHIFT = 40


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
    """If the rows are patches: what each of them leaves out."""


def prepare_block(
    block: ParsedBlock, report: Report, provider: EmbeddingProvider
) -> Iterator[PreparedRows]:
    """The rows of a block, while `report` is empty.

    After the first broken rule rows are still checked, so that the report names more of them, but
    none is yielded, because the load will write nothing.
    """
    report_problems(block, report)
    for rows in block.rows:
        entity = rows.entity
        table = _with_ids(entity, rows.table)
        if report.total == 0:  # vectors cost time or money, and a failed load does not need them
            table = fill_embeddings(entity, table, provider)
        check_rows(entity, table, report, _places(block.file, rows.lines))
        if report.total == 0:
            stored = pa.table(table.columns, schema=table_schema(entity))
            yield PreparedRows(entity, stored, rows.lines, _has_id(rows))


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
    return (
        None
        if rows.entity.key or given.null_count == 0
        else np.asarray(given.is_valid().to_numpy())
    )


def _places(file: str, lines: Lines) -> Places:
    return lambda row: Place(file, int(lines[row]))


def report_problems(block: ParsedBlock, report: Report) -> None:
    """Report the rows that cannot be read."""
    for problem in block.problems:
        report.add(problem.rule, 1, [_violation(problem, block.file)])


def _violation(problem: ParseProblem, file: str) -> Violation:
    table = problem.entity.table_key if problem.entity is not None else None
    place = Place(file, problem.line)
    return Violation(problem.rule, table, None, problem.property, problem.message, place)
