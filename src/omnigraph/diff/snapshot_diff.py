"""The difference of two snapshots as changes, in a stable order, a page at a time (`g.diff`).

The cursor of a page names both commits and the filter, so branches can move between two pages.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.diff.change import Change, ChangedType, ChangeFilter, ChangeOp, ChangePage
from omnigraph.diff.differing_ids import DifferingIds, TablePair
from omnigraph.diff.entity_rows import (
    AlignedRows,
    ChunkSize,
    TableAt,
    common_schema,
    images,
    rows_of,
    sort_key,
)
from omnigraph.diff.id_runs import Scratch
from omnigraph.diff.visible_ids import VisibleIds, visible_pairs
from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.store import Store
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.scoping.visible_rows import VisibleRows
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.row_compare import differing_rows

# Python objects of a row take many times its bytes.
_BYTES_AT_ONCE = 8 * 1024 * 1024
_ROWS_AT_ONCE = 16 * 1024

_DIFF_CURSOR = "diff"
_SHOWN = 80
_LONGEST_CURSOR = 4096

REJECTED = "change cursor rejected:"
"""The beginning of every message about a cursor that cannot be used."""


@dataclass(frozen=True, slots=True)
class ChangePosition:
    """The place of one change in the order of a diff; a cursor holds that of the last one read."""

    key: TableKey
    entity_id: str

    @staticmethod
    def of(change: Change) -> ChangePosition:
        return ChangePosition(TableKey.parse(f"{change.kind}:{change.type.name}"), change.id)


def diff_page(
    store: Store,
    lineage: Lineage | None,
    before: Snapshot,
    after: Snapshot,
    wanted: ChangeFilter,
    limit: int | None = None,
    cursor: str | None = None,
    most_bytes: int | None = None,
) -> ChangePage:
    """Up to `limit` changes behind `cursor`, and about `most_bytes` of them, but at least one."""
    wanted.check_types(before.catalog, after.catalog)
    if limit is not None and limit < 1:
        raise InvalidArgument(f"limit must be a positive number, not {limit!r}")
    commits = [before.graph_commit_id, after.graph_commit_id]
    bound_to: dict[str, Any] = {"commits": commits, "filter": filter_json(wanted)}
    rules = [scope_mark(before), scope_mark(after)]
    if any(mark is not None for mark in rules):
        bound_to["rules"] = rules
    last_read = None
    if cursor is not None:
        body = decode_cursor(_DIFF_CURSOR, cursor)
        if body.get("rules") != bound_to.get("rules"):
            raise InvalidArgument(f"{REJECTED} it was made under other rules")
        if any(body.get(name) != value for name, value in bound_to.items()):
            raise InvalidArgument(f"{REJECTED} it was made for another diff or another filter")
        last_read = ChangePosition(TableKey.parse(body["key"]), body["id"])
    changes = snapshot_changes(store, lineage, before, after, wanted, last_read)
    found, more = take(changes, limit, most_bytes)
    if not more:
        return ChangePage(found)
    last = ChangePosition.of(found[-1])
    place = {"key": str(last.key), "id": last.entity_id}
    return ChangePage(found, encode_cursor(_DIFF_CURSOR, {**bound_to, **place}))


def commits_of(cursor: str) -> tuple[str, str]:
    """(before, after): the two commits a diff cursor was made for."""
    before, after = decode_cursor(_DIFF_CURSOR, cursor)["commits"]
    return str(before), str(after)


def snapshot_changes(
    store: Store,
    lineage: Lineage | None,
    before: Snapshot,
    after: Snapshot,
    wanted: ChangeFilter,
    last_read: ChangePosition | None = None,
) -> Iterator[Change]:
    """The changes from one snapshot to the other, those behind `last_read`.

    Only entities whose values differ are changes; a row that was written again is not. Of scoped
    snapshots these are the changes from one visible graph to the other: an entity that becomes
    visible is inserted, and one that becomes hidden is deleted.
    """
    with Scratch() as scratch:
        pairs = [p for p in visible_pairs(before, after) if _is_wanted(p, wanted, last_read)]
        if not pairs:
            return
        found = DifferingIds(store, lineage, before, after, scratch)
        ids = VisibleIds(store, before, after, found, scratch)
        for pair in pairs:
            in_this = last_read is not None and pair.key == last_read.key
            start = last_read.entity_id if last_read is not None and in_this else None
            size = ChunkSize(store, (pair.before, pair.after), _BYTES_AT_ONCE, _ROWS_AT_ONCE)
            for chunk in ids.runs(pair).chunks(start, size):
                yield from _table_changes(store, pair, chunk, wanted, size, ids.sides)


def take(
    changes: Iterator[Change], limit: int | None, most_bytes: int | None = None
) -> tuple[list[Change], bool]:
    """(the first `limit` changes, whether there are more).

    The change that reaches `most_bytes` is the last one, so a page has at least one change.
    """
    if limit is None and most_bytes is None:
        return list(changes), False
    if most_bytes is None:
        assert limit is not None
        found = list(islice(changes, limit + 1))
        return found[:limit], len(found) > limit
    found, size = [], 0
    for change in changes:
        if size >= most_bytes or len(found) == limit:
            return found, True
        found.append(change)
        size += change.size
    return found, False


def filter_json(wanted: ChangeFilter) -> dict[str, list[str] | None]:
    """A filter as it stands in cursors."""
    return {k: list(v) if v is not None else None for k, v in asdict(wanted).items()}


def scope_mark(snapshot: Snapshot) -> str | None:
    """The rules of a snapshot as they stand in cursors: equal for equal rules, and no more."""
    if snapshot.scope is None:
        return None
    return hashlib.sha256(snapshot.scope.key.encode()).hexdigest()[:16]


def encode_cursor(kind: str, body: dict[str, Any]) -> str:
    """One printable word."""
    text = json.dumps({"kind": kind, **body}, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(kind: str, cursor: str) -> dict[str, Any]:
    """The body of a cursor of this kind; anything else is refused."""
    if len(str(cursor)) > _LONGEST_CURSOR:
        raise InvalidArgument(f"{REJECTED} it has more than {_LONGEST_CURSOR:,} characters")
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        body = json.loads(base64.b64decode(padded.encode("ascii"), b"-_", validate=True))
        if body.pop("kind") == kind:
            return dict(body)
    except (AttributeError, TypeError, ValueError, KeyError, binascii.Error):
        pass
    raise InvalidArgument(
        f"{REJECTED} {str(cursor)[:_SHOWN]!r} is not a {kind} cursor: pass a cursor exactly as "
        "it was returned"
    )


def _is_wanted(pair: TablePair, wanted: ChangeFilter, last_read: ChangePosition | None) -> bool:
    if last_read is not None and sort_key(pair.key) < sort_key(last_read.key):
        return False
    return wanted.wants_table(pair.key.kind.value, pair.names)


def _table_changes(
    store: Store,
    pair: TablePair,
    ids: pa.Array,
    wanted: ChangeFilter,
    size: ChunkSize,
    sides: tuple[VisibleRows, VisibleRows],
) -> Iterator[Change]:
    # A property that was dropped or renamed makes no change of its entities.
    old = pair.before.named_like(pair.after.entity) if pair.before and pair.after else pair.before
    schema = common_schema(*(t.entity if t else None for t in (old, pair.after)))
    before = rows_of(store, old, ids, schema)
    after = rows_of(store, pair.after, ids, schema, since=old)
    size.learn(before, after)
    before = _shown(sides[0], pair.before, before, ids)
    after = _shown(sides[1], pair.after, after, ids)
    both = before.present & after.present
    changed = (before.present ^ after.present) | (both & differing_rows(before.rows, after.rows))
    for op, mask in (
        (ChangeOp.INSERT, ~before.present),
        (ChangeOp.DELETE, ~after.present),
        (ChangeOp.UPDATE, both),
    ):
        if not wanted.wants_op(op.value):
            changed &= ~mask
    where = pa.array(np.flatnonzero(changed))
    known = pair.after or pair.before
    assert known is not None
    type_ref = ChangedType(known.entity.identity, known.entity.name)
    found = zip(
        ids.take(where).to_pylist(),
        _images(old, before, where),
        _images(pair.after, after, where),
        strict=True,
    )
    for entity_id, was, now in found:
        op = ChangeOp.INSERT if was is None else ChangeOp.DELETE if now is None else ChangeOp.UPDATE
        yield Change(pair.key.kind.value, type_ref, entity_id, op.value, was, now)


def _shown(
    side: VisibleRows, table: TableAt | None, found: AlignedRows, ids: pa.Array
) -> AlignedRows:
    """The rows without those that the scope of their state hides."""
    if table is None or side.shows_all(table.pin.key):
        return found
    visible = pc.is_in(ids, value_set=side.among(table.pin.key, ids))
    present = found.present & visible.to_numpy(zero_copy_only=False)
    return replace(found, present=present)


def _images(
    table: TableAt | None, side: AlignedRows, where: pa.Array
) -> Iterator[dict[str, object] | None]:
    """The entities of one side; None where an entity does not exist."""
    if table is None:
        return iter([None] * len(where))
    rows = images(side.rows.select(table.columns).take(where))
    present = side.present[where.to_numpy()]
    return (row if there else None for row, there in zip(rows, present, strict=True))
