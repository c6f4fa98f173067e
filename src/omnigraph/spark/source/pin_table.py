"""A request -> the one commit it means now. Opens the graph, so only the driver's side runs it."""

from __future__ import annotations

import omnigraph
from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.reads.scan import fragment_ids, read_target
from omnigraph.spark.source.conditions import parse_filter
from omnigraph.spark.source.options import TableRequest
from omnigraph.spark.source.pinned_table import PinnedTable


def pin(request: TableRequest) -> PinnedTable:
    """What `request` means now; the graph may move on."""
    graph = omnigraph.open(request.uri, read_only=True)
    snapshot = graph.snapshot(request.branch, at=request.at)
    entity = snapshot.catalog.resolve(request.type_name)
    store = graph.engine.store
    at = snapshot.pin(entity.table_key).at
    return PinnedTable(
        graph_commit_id=snapshot.graph_commit_id,
        entity=entity,
        columns=_columns(entity, request.columns),
        row_filter=parse_filter(request.filter_text, entity) if request.filter_text else None,
        target=read_target(store, at),
        groups=tuple(_groups(fragment_ids(store, at), request.rows_per_partition)),
        pushdown=request.pushdown,
    )


def _columns(entity: EntityType, wanted: tuple[str, ...] | None) -> tuple[str, ...]:
    known = tuple(table_schema(entity).names)
    unknown = [name for name in wanted or () if name not in known]
    if unknown:
        raise InvalidArgument(
            f"{entity.name} has no {unknown[0]!r}; it has: {', '.join(known)}", property=unknown[0]
        )
    return wanted or known


def _groups(fragments: list[tuple[int, int]], rows_per_group: int) -> list[tuple[int, ...]]:
    """Neighbouring fragments together until they hold enough rows for a task."""
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    rows = 0
    for fragment, count in fragments:
        if group and rows + count > rows_per_group:
            groups.append(tuple(group))
            group, rows = [], 0
        group.append(fragment)
        rows += count
    return [*groups, tuple(group)] if group else groups
