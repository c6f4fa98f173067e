"""Check the tables of one snapshot: manifest against datasets, rules, indexes against scans."""

from __future__ import annotations

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.index_plan import wanted_indexes
from omnigraph.errors import NotFound, StorageFailure
from omnigraph.integrity.graph_checks import check_graph
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.rules import checked_columns
from omnigraph.integrity.stored_image import Deltas, StoredImage, TableDelta
from omnigraph.integrity.violations import Report
from omnigraph.lance_store.dataset_files import lineages, needed_content
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.lance_store.search.indexes import disagreeing_values
from omnigraph.lance_store.store import Dataset, Store, head_version
from omnigraph.maintain.findings import Findings
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.indexes import IndexKind


def verify_tables(
    store: Store,
    snapshot: Snapshot,
    owner: str | None,
    busy: frozenset[str],
    found: Findings,
    *,
    full: bool,
) -> None:
    """`owner` is the branch incarnation whose tables must have their pin as HEAD.

    Tables at `busy` locations have a writer in flight: their HEAD may be ahead for a moment.
    `full` compares indexes value by value however many there are.
    """
    deltas: Deltas = {}
    rows = Report()
    for key, pin in snapshot.tables.items():
        found.checked["tables"] += 1
        try:
            dataset = store.open(pin.at)
            _check_against_pin(snapshot, pin, dataset, found)
            _check_files(store, snapshot, pin, found)
            if pin.owner == owner and pin.location not in busy:
                _check_head(snapshot, pin, dataset, found)
            entity = snapshot.catalog.entity_type(key)
            content = read_table(dataset, table_schema(entity).names)
            check_rows(entity, content, rows)
            _check_indexes(snapshot, pin, dataset, found, full=full)
            found.checked["rows"] += content.num_rows
            deltas[key] = TableDelta(key, content.select(checked_columns(entity)), replaces=True)
        except (NotFound, StorageFailure) as error:
            found.add("dataset", snapshot.graph_branch, key, error.message)
    if len(deltas) == len(snapshot.tables):
        check_graph(StoredImage(snapshot, store, deltas), deltas, rows)
    for violation in rows.violations:
        found.add(f"rule:{violation.rule}", snapshot.graph_branch, violation.table, str(violation))
    for rule, count in rows.counts.items():
        kept = sum(violation.rule == rule for violation in rows.violations)
        found.counts[f"rule:{rule}"] += count - kept


def _check_against_pin(
    snapshot: Snapshot, pin: TablePin, dataset: Dataset, found: Findings
) -> None:
    branch = snapshot.graph_branch
    entity = snapshot.catalog.entity_type(pin.key)
    missing = set(table_schema(entity).names) - set(dataset.schema.names)
    if missing:
        found.add("columns", branch, pin.key, f"the dataset has no column {sorted(missing)}")
    rows = dataset.count_rows()
    if rows != pin.row_count:
        message = f"the manifest says {pin.row_count} rows, the dataset has {rows}"
        found.add("row_count", branch, pin.key, message)
    if not dataset.has_stable_row_ids:
        found.add("row_ids", branch, pin.key, "the dataset was made without stable row ids")


def _check_files(store: Store, snapshot: Snapshot, pin: TablePin, found: Findings) -> None:
    """Against a listing: a read may be served from memory although the file is gone."""
    lines = lineages(pin.location, store.files.walk(pin.location))
    present = {name for line in lines.values() for name in line.content}
    missing = sorted(needed_content(store, pin.at) - present)
    if missing:
        message = f"{len(missing)} files are missing, the first is {missing[0]}"
        found.add("files", snapshot.graph_branch, pin.key, message)


def _check_head(snapshot: Snapshot, pin: TablePin, dataset: Dataset, found: Findings) -> None:
    head = head_version(dataset)
    if head > pin.version:
        message = f"HEAD is {head}, the manifest shows {pin.version}: `repair` puts it right"
        found.add("drift", snapshot.graph_branch, pin.key, message)
    elif head < pin.version:
        message = f"HEAD is {head}, behind the manifest's {pin.version}: restore files from backup"
        found.add("invariant", snapshot.graph_branch, pin.key, message)


def _check_indexes(
    snapshot: Snapshot, pin: TablePin, dataset: Dataset, found: Findings, *, full: bool
) -> None:
    for spec in wanted_indexes(snapshot.catalog.entity_type(pin.key)):
        if spec.kind is not IndexKind.SORTED:
            continue
        found.checked["indexes"] += 1
        wrong, exact = disagreeing_values(dataset, spec.column, full=full)
        found.checked["indexes_sampled"] += not exact
        for value in wrong:
            message = f"the index on {spec.column!r} and a scan disagree about {value!r}"
            found.add("index", snapshot.graph_branch, pin.key, message)
