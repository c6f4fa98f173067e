"""The difference of two snapshots as changes, in stable order, a page at a time."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.diff.change import Change, ChangeFilter, ChangeOp, ChangePage, TypeRef
from omnigraph.diff.differing_ids import DifferingIds, TablePair, differing_tables
from omnigraph.diff.entity_rows import (
    AlignedRows,
    ChunkSize,
    common_schema,
    images,
    rows_of,
    sort_key,
)
from omnigraph.diff.id_runs import Scratch
from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.store import Store
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.row_compare import differing_rows

# Python objects of a row take many times its bytes.
_BYTES_AT_ONCE = 8 * 1024 * 1024
_ROWS_AT_ONCE = 16 * 1024


@dataclass(frozen=True, slots=True)
class Position:
    """The last change somebody has seen."""

    key: TableKey
    entity_id: str


def snapshot_changes(
    store: Store,
    lineage: Lineage | None,
    sides: tuple[Snapshot, Snapshot],
    wanted: ChangeFilter,
    after: Position | None = None,
) -> Iterator[Change]:
    """What turns the first snapshot into the second; rewritten equal rows never show."""
    a, b = sides
    with Scratch() as scratch:
        pairs = [p for p in differing_tables(a, b) if _wanted(p, wanted, after)]
        if not pairs:
            return
        ids = DifferingIds(store, lineage, a, b, scratch)
        for pair in pairs:
            start = after.entity_id if after is not None and pair.key == after.key else None
            size = ChunkSize(store, (pair.before, pair.after), _BYTES_AT_ONCE, _ROWS_AT_ONCE)
            for chunk in ids.chunks(pair, start, size):
                yield from _table_changes(store, pair, chunk, wanted, size)


def take(changes: Iterator[Change], limit: int | None) -> tuple[list[Change], bool]:
    """(the first `limit` changes, whether there are more)."""
    if limit is None:
        return list(changes), False
    found = list(islice(changes, limit + 1))
    return found[:limit], len(found) > limit


def _wanted(pair: TablePair, wanted: ChangeFilter, after: Position | None) -> bool:
    if after is not None and sort_key(pair.key) < sort_key(after.key):
        return False
    return wanted.wants_table(pair.key.kind.value, pair.names)


def _table_changes(
    store: Store, pair: TablePair, ids: pa.Array, wanted: ChangeFilter, size: ChunkSize
) -> Iterator[Change]:
    schema = common_schema(*(t.entity if t else None for t in (pair.before, pair.after)))
    before = rows_of(store, pair.before, ids, schema)
    after = rows_of(store, pair.after, ids, schema, since=pair.before)
    size.learn(before, after)
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
    type_ref = TypeRef(known.entity.identity, known.entity.name)
    found = zip(
        ids.take(where).to_pylist(),
        _images(pair, before, where, 0),
        _images(pair, after, where, 1),
        strict=True,
    )
    for entity_id, old, new in found:
        op = ChangeOp.INSERT if old is None else ChangeOp.DELETE if new is None else ChangeOp.UPDATE
        yield Change(pair.key.kind.value, type_ref, entity_id, op.value, old, new)


def _images(
    pair: TablePair, side: AlignedRows, where: pa.Array, which: int
) -> Iterator[dict[str, object] | None]:
    table = (pair.before, pair.after)[which]
    if table is None:
        return iter([None] * len(where))
    rows = images(side.rows.select(table.columns).take(where))
    present = side.present[where.to_numpy()]
    return (row if there else None for row, there in zip(rows, present, strict=True))


def encode_cursor(kind: str, body: dict[str, Any]) -> str:
    text = json.dumps({"kind": kind, **body}, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(kind: str, cursor: str) -> dict[str, Any]:
    """The body of a cursor of this kind; anything else is refused."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        body = json.loads(base64.b64decode(padded.encode("ascii"), b"-_", validate=True))
        if body.pop("kind") == kind:
            return dict(body)
    except (AttributeError, TypeError, ValueError, KeyError, binascii.Error):
        pass
    raise InvalidArgument(f"{cursor!r} is no {kind} cursor: pass one exactly as it was returned")


_KIND = "diff"


def diff_page(
    store: Store,
    lineage: Lineage | None,
    sides: tuple[Snapshot, Snapshot],
    wanted: ChangeFilter,
    limit: int | None = None,
    cursor: str | None = None,
) -> ChangePage:
    """Up to `limit` changes after `cursor`."""
    wanted.check_types(*(side.catalog for side in sides))
    if limit is not None and limit < 1:
        raise InvalidArgument(f"limit is a positive number, got {limit!r}")
    after = _position(cursor, sides, wanted) if cursor is not None else None
    found, more = take(snapshot_changes(store, lineage, sides, wanted, after), limit)
    if not more:
        return ChangePage(found)
    last = found[-1]
    key = f"{last.kind}:{last.type.name}"
    return ChangePage(
        found, encode_cursor(_KIND, {**_bound_to(sides, wanted), "key": key, "id": last.id})
    )


def commits_of(cursor: str) -> tuple[str, str]:
    """The two commits a diff cursor was made for."""
    body = decode_cursor(_KIND, cursor)
    a, b = body["commits"]
    return str(a), str(b)


def _position(cursor: str, sides: tuple[Snapshot, Snapshot], wanted: ChangeFilter) -> Position:
    body = decode_cursor(_KIND, cursor)
    bound = _bound_to(sides, wanted)
    if any(body.get(name) != value for name, value in bound.items()):
        raise InvalidArgument("this cursor was made for another diff or another filter")
    return Position(TableKey.parse(body["key"]), body["id"])


def _bound_to(sides: tuple[Snapshot, Snapshot], wanted: ChangeFilter) -> dict[str, Any]:
    filters = {k: list(v) if v is not None else None for k, v in asdict(wanted).items()}
    return {"commits": [side.graph_commit_id for side in sides], "filter": filters}
