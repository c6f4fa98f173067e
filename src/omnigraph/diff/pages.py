"""Pages of a diff: a cursor pins both commits, so moving branches do not disturb the pages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from omnigraph.diff.change import ChangeFilter, ChangePage
from omnigraph.diff.cursors import decode_cursor, encode_cursor
from omnigraph.diff.snapshots import Position, snapshot_changes, take
from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.store import Store
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey

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
