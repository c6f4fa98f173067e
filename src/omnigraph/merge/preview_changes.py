"""What a merge would change in ours, entity by entity, for somebody who only looks."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.diff.change import Change, ChangeOp, TypeRef
from omnigraph.diff.entity_rows import images, sort_key
from omnigraph.lance_store.store import Store
from omnigraph.merge.merger import identity_of
from omnigraph.merge.resolve import Merged
from omnigraph.merge.table_merge import SideTable
from omnigraph.merge.table_output import TableOutput
from omnigraph.writes.change_list import Op

_DELETES_AT_ONCE = 1024


def preview_changes(store: Store, merged: Merged[TableOutput]) -> Iterator[Change]:
    """In the order of a diff."""
    for output in sorted(merged.outputs, key=lambda o: sort_key(o.entity.table_key)):
        ours = merged.sides.ours.of(identity_of(output.entity))
        parts = (_written(store, ours, output), _deleted(store, ours, output))
        yield from heapq.merge(*parts, key=lambda change: change.id)


def _written(store: Store, ours: SideTable, output: TableOutput) -> Iterator[Change]:
    schema = table_schema(output.entity)
    for table in output.batches():
        ids = table.column("id").combine_chunks()
        before = ours.rows(store, ids, schema)
        old = images(before.rows)
        for row, new in enumerate(images(table)):
            if not before.present[row]:
                yield _change(output, new["id"], ChangeOp.INSERT, None, new)
            elif old[row] != new:  # a table with new columns is written whole
                yield _change(output, new["id"], ChangeOp.UPDATE, old[row], new)


def _deleted(store: Store, ours: SideTable, output: TableOutput) -> Iterator[Change]:
    ids = output.ids(Op.DELETE)
    schema = table_schema(output.entity)
    for start in range(0, len(ids), _DELETES_AT_ONCE):
        some = ids.slice(start, _DELETES_AT_ONCE)
        before = ours.rows(store, some, schema)
        for old in images(before.rows):
            yield _change(output, old["id"], ChangeOp.DELETE, old, None)


def _change(
    output: TableOutput,
    entity_id: str,
    op: ChangeOp,
    before: dict[str, object] | None,
    after: dict[str, object] | None,
) -> Change:
    type_ref = TypeRef(output.entity.identity, output.entity.name)
    return Change(output.entity.table_key.kind.value, type_ref, entity_id, op.value, before, after)
