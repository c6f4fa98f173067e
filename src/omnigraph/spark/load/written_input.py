"""What workers report of the rows they wrote -> the prepared input of a load."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from omnigraph.integrity.violations import Report
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.load.prepare import PreparedInput
from omnigraph.load.spool import file_and_line, place_of
from omnigraph.spark.load.load_tasks import TaskResult, shifted
from omnigraph.spark.load.written_spool import PlacedPart, WrittenSpool
from omnigraph.values.identifiers import TableKey

Placed = tuple[TaskResult, int]
"""A report and the place before the first line of its piece."""


def in_order(results: Iterable[TaskResult], file: int) -> list[Placed]:
    """The reports of one file or frame, in its order, placed behind each other."""
    placed: list[Placed] = []
    before = 0
    for result in sorted(results, key=lambda result: result.task):
        placed.append((result, place_of(file, before)))
        before += result.lines
    return placed


def take_written(
    prepared: PreparedInput,
    store: Store,
    homes: Mapping[TableKey, DatasetVersion],
    results: Sequence[Placed],
    named: Collection[TableKey] = (),
) -> None:
    """Judge the reports and hand their rows to the checks; `homes` is where they were written.

    `named` are types that the input speaks of even when it has no row of them.
    """
    _judge(results, prepared.files)
    for key, home in homes.items():
        parts = [
            PlacedPart(part, offset)
            for result, offset in results
            for part in result.parts
            if part.key == key
        ]
        if parts or key in named:
            entity = prepared.catalog.entity_type(key)
            _take(prepared, key, WrittenSpool(entity, store, home, parts))


def _judge(results: Sequence[Placed], files: Sequence[str]) -> None:
    """Raise what the workers found wrong: unreadable input first, then broken rules."""
    for result, _ in results:
        if result.error is not None:
            raise result.error
    report = Report(files=files)
    for result, offset in results:
        _, before = file_and_line(offset)
        report.merge((shifted(v, before) for v in result.violations), result.counts)
    report.raise_if_any()


def _take(prepared: PreparedInput, key: TableKey, spool: WrittenSpool) -> None:
    """Hand the narrow columns to the checks."""
    for placed, table in spool.narrow():
        given = placed.part.has_id()
        if given is None or given.any():
            prepared.given_ids.add(key)
        prepared.index.add_input(spool.entity, table)
    prepared.spools[key] = spool
