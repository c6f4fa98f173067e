"""Validate a write, and say which tables it must claim before it can be validated.

`claims` names the tables that a write changes and those that its validation reads.
`validate_changes` checks all rules on a change set. `validate_deltas` checks only the graph rules:
loads and Spark check their rows with `check_rows` and pass the columns that graph rules read. Both
raise `ValidationFailed` with everything that they found.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.catalog.model import ID, SOURCE, TARGET, Catalog, EdgeType, spelled
from omnigraph.commit.request import Claims
from omnigraph.integrity.graph_checks import check_graph
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.rules import Required, edges_touching
from omnigraph.integrity.stored_image import Deltas, StoredImage, deltas_of
from omnigraph.integrity.violations import Report
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import EntityKind, TableKey, node_table
from omnigraph.writes.changeset import ChangeSet, EditRows, ReplaceRows

_SYSTEM = frozenset({ID, spelled(SOURCE), spelled(TARGET)})


def claims(
    catalog: Catalog,
    written: Iterable[TableKey] = (),
    deleted: Iterable[TableKey] = (),
    replaced: Iterable[TableKey] = (),
) -> Claims:
    """The claims of a write that inserts or updates, deletes from, or replaces these tables.

    Deleting nodes can delete edges, so the tables of these edges are claimed for change. They are
    also claimed as read: the write fails if another writer adds an edge first, because that
    edge would be an orphan. Writing an edge reads the tables of its endpoints. A minimum of
    `@card` reads the edges of written nodes and the sources of changed edges.
    """
    written, deleted, replaced = set(written), set(deleted), set(replaced)
    tables = written | deleted | replaced
    reads: set[TableKey] = set()
    for key in (k for k in deleted if k.kind is EntityKind.NODE):
        incident = {edge.table_key for edge in edges_touching(catalog, key)}
        tables |= incident
        reads |= incident
    for key in (k for k in replaced if k.kind is EntityKind.NODE):
        reads |= {edge.table_key for edge in edges_touching(catalog, key)}
    for edge in catalog.edges:
        ends = {node_table(edge.source), node_table(edge.target)}
        if edge.table_key in written | replaced:
            reads |= ends
        if _minimum(edge) > 0:
            if edge.table_key in tables:
                reads.add(node_table(edge.source))
            if node_table(edge.source) in written:
                reads.add(edge.table_key)
    return Claims(tuple(sorted(tables)), tuple(sorted(reads)))


def claims_of(catalog: Catalog, changes: ChangeSet) -> Claims:
    """The claims of a change set before its cascades are known."""
    edits = [e for e in changes.effects if isinstance(e, EditRows)]
    return claims(
        catalog,
        written=[e.key for e in edits if e.inserts is not None or e.upserts is not None],
        deleted=[e.key for e in edits if e.deletes is not None],
        replaced=[e.key for e in changes.effects if isinstance(e, ReplaceRows)],
    )


def validate_changes(
    snapshot: Snapshot,
    store: Store,
    changes: ChangeSet,
    *,
    cascaded: bool = False,
) -> None:
    """Check every row rule and graph rule; raises `ValidationFailed` with all violations.

    Adopted rows are not in memory: the writer of their files checks them with `check_rows` and
    `validate_deltas`.
    """
    found = Report()
    deltas = deltas_of(changes.effects)
    for effect in changes.effects:
        if isinstance(effect, EditRows | ReplaceRows):
            _check_effect(snapshot.catalog, effect, found)
    if any(b.rule == Required.name and b.property in _SYSTEM for b in found.tally):
        found.raise_if_any()  # graph rules need the id and the ends of every row
    validate_deltas(snapshot, store, deltas, cascaded=cascaded, report=found)


def validate_deltas(
    snapshot: Snapshot,
    store: Store,
    deltas: Deltas,
    *,
    cascaded: bool = False,
    report: Report | None = None,
) -> None:
    """Check graph rules only; raises with the violations of `report` and those found now.

    `id`, `src` and `dst` must hold no NULL: `check_rows` comes first.
    """
    found = report or Report()
    check_graph(StoredImage(snapshot, store, deltas), deltas, found, cascaded=cascaded)
    found.raise_if_any()


def _check_effect(catalog: Catalog, effect: EditRows | ReplaceRows, report: Report) -> None:
    tables = (effect.rows,) if isinstance(effect, ReplaceRows) else (effect.inserts, effect.upserts)
    for table in tables:
        if table is not None:
            check_rows(catalog.entity_type(effect.key), table, report)


def _minimum(edge: EdgeType) -> int:
    return 0 if edge.cardinality is None else edge.cardinality.minimum
