"""Rejected rows of a whole load: what the input has at their places, and why others fall with them.

A row that breaks a rule by itself is kept as it was read. Graph rules find their rows when nothing
of the input is in memory any more, so these rows are read again. An input that can be read only
once (a stream, a reader, a Spark DataFrame) gives the prepared row in the form of an NDJSON line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, Catalog, EdgeType, EntityType, spelled
from omnigraph.errors import ValidationFailed
from omnigraph.integrity.rules import EndpointExists
from omnigraph.integrity.violations import Violation
from omnigraph.load.prepare_rows import PLACE, file_and_line, place_of
from omnigraph.load.prepared import PreparedInput
from omnigraph.load.sources import ReadOptions, Source, read_source
from omnigraph.values.identifiers import TableKey, node_table
from omnigraph.values.plurals import counted


def write_rejects(prepared: PreparedInput) -> None:
    """Write the rejected rows to the file that the caller named, each as the input has it."""
    if prepared.rules.path is None:
        return
    _complete(prepared)
    rows = sorted(prepared.rejected.rows.items())
    prepared.rules.write({prepared.place(number): row for number, row in rows})


def refuse_too_many(prepared: PreparedInput, *, unread: bool = False) -> None:
    """Fail if more rows are rejected than the caller allows, or if the rest is `unread` for that.

    Graph rules would blame edges for nodes that were not read.
    """
    rules, rejected, report = prepared.rules, len(prepared.rejected.rows), prepared.report
    too_many = rules.skip and rejected > rules.most
    if not too_many and not unread:
        return
    write_rejects(prepared)
    if not too_many:
        report.raise_if_any()
    rest = "; the rest of the input was not read" if unread else ""
    raise ValidationFailed(
        f"{counted(rejected, 'row')} would be rejected, more than max_errors={rules.most} "
        f"allows{rest}: {report.message()}",
        **report.fields(),
    )


def _complete(prepared: PreparedInput) -> None:
    """Find what the input has at the places of rejected rows."""
    rejected = prepared.rejected
    missing = [number for number, found in rejected.rows.items() if found.row is None]
    for number, row in _read_again(prepared, missing):
        rejected.rows[number].row = row
    left = [number for number in missing if rejected.rows[number].row is None]
    for number, row in _prepared_rows(prepared, left):
        rejected.rows[number].row = row


def read_again(
    sources: Sequence[Source],
    catalog: Catalog,
    options: ReadOptions,
    number: int,
    lines: Collection[int],
) -> Iterator[tuple[int, Any]]:
    """Lines of a source that was read before, if it can be read twice."""
    source = sources[number]
    if source.stream is not None or isinstance(source.table, pa.RecordBatchReader):
        return
    left = set(lines)
    for block in read_source(source, catalog, options):
        wanted = np.array(sorted(left), dtype=np.int64)
        for rows in block.rows:
            for line in np.intersect1d(rows.lines, wanted).tolist():
                yield line, block.as_read(line)
                left.discard(line)
        if not left:
            return


def explain(prepared: PreparedInput, violation: Violation) -> Violation:
    """The same violation; of an edge whose node was rejected, it says so."""
    if violation.rule != EndpointExists.name or violation.ends is None or violation.table is None:
        return violation
    edge = prepared.catalog.edge_types[violation.table.type_name]
    at_source = violation.property == spelled(SOURCE)
    name, identity = (
        (edge.source, violation.ends[0]) if at_source else (edge.target, violation.ends[1])
    )
    if identity is None or not _was_rejected(prepared, node_table(name), identity):
        return violation
    return replace(violation, message=f"{violation.property!r}: {name} {identity!r} was rejected")


def _was_rejected(prepared: PreparedInput, key: TableKey, identity: str) -> bool:
    if identity in prepared.dropped_ids.get(key, ()):
        return True
    value = pa.scalar(identity, pa.string())
    return any(
        pc.index(rows.ids, value).as_py() >= 0 for rows in prepared.broken if rows.key == key
    )


def _read_again(prepared: PreparedInput, numbers: Collection[int]) -> Iterator[tuple[int, Any]]:
    if prepared.read_again is None or not numbers:
        return
    lines: dict[int, set[int]] = defaultdict(set)
    for number in numbers:
        file, line = file_and_line(number)
        lines[file].add(line)
    for file, wanted in lines.items():
        for line, row in prepared.read_again(file, wanted):
            yield place_of(file, line), row


def _prepared_rows(prepared: PreparedInput, numbers: Collection[int]) -> Iterator[tuple[int, Any]]:
    if not numbers:
        return
    wanted = pa.array(sorted(numbers), pa.int64())
    for table in prepared.tables.values():
        for chunk in table.chunks():
            for row in chunk.filter(pc.is_in(chunk.column(PLACE), value_set=wanted)).to_pylist():
                yield row.pop(PLACE), _as_line(table.entity, row)


def _as_line(entity: EntityType, row: dict[str, Any]) -> dict[str, Any]:
    """The row as a line of NDJSON has it."""
    data = {name: value for name, value in row.items() if value is not None}
    if entity.key:
        data.pop(ID, None)
    if isinstance(entity, EdgeType):
        source, target = data.pop("src"), data.pop("dst")
        return {"edge": entity.name, "from": source, "to": target, "data": data}
    return {"type": entity.name, "data": data}
