"""The one evaluator of a change set, and which tables it relies on.

`claims` says what a write must take and hold before it can be judged, `validate_changes` judges a
change set, `validate_deltas` what a load or Spark wrote elsewhere (rows checked with `check_rows`,
narrow columns handed in as deltas). All of them raise `ValidationFailed` through a `Report`.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.catalog.model import ID, SOURCE, TARGET, Catalog, EdgeType
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

_SYSTEM = frozenset({ID, SOURCE, TARGET})


def claims(
    catalog: Catalog,
    written: Iterable[TableKey] = (),
    deleted: Iterable[TableKey] = (),
    replaced: Iterable[TableKey] = (),
) -> Claims:
    """What a write needs that inserts or updates, deletes from, or replaces these tables.

    Edges of deleted nodes may have to go, so their tables are changed; that nobody adds one
    meanwhile is read, so that a writer elsewhere cannot leave an orphan. An edge relies on its
    endpoints, a minimum on the number of edges.
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
    """Every row and graph rule on the final image; raises `ValidationFailed` with all findings.

    Adopted rows are not in memory: whoever wrote them checks them with `check_rows` and
    `validate_deltas`.
    """
    found = Report()
    deltas = deltas_of(changes.effects)
    for effect in changes.effects:
        if isinstance(effect, EditRows | ReplaceRows):
            _check_effect(snapshot.catalog, effect, found)
    if any(v.property in _SYSTEM for v in found.violations if v.rule == Required.name):
        found.raise_if_any()  # rows without an identity or an end have no place in the graph
    validate_deltas(snapshot, store, deltas, cascaded=cascaded, report=found)


def validate_deltas(
    snapshot: Snapshot,
    store: Store,
    deltas: Deltas,
    *,
    cascaded: bool = False,
    report: Report | None = None,
) -> None:
    """Graph rules only; raises with what `report` holds already and what is found now.

    `id`, `src` and `dst` hold no NULL (`check_rows` says so first).
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
