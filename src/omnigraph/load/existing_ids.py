"""Ids of the input against themselves and against the graph."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID
from omnigraph.errors import KeyConflict
from omnigraph.integrity.violations import FIRST_VIOLATIONS, Violation
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.load.key_index import KeyIndex
from omnigraph.load.prepare import PreparedInput
from omnigraph.load.proofs import no_row_twice
from omnigraph.load.spool import PLACE
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey

_RULE = "duplicate_id"
_NAMED_IDS = 10


def drop_earlier_rows(index: KeyIndex, tables: Iterable[TableKey]) -> frozenset[TableKey]:
    """Of several input rows with one id only the last stays in the index.

    Which tables may have lost some.
    """
    found = set()
    for key in sorted(tables):
        held = index.held(key)
        if held is not None and no_row_twice(held.select([ID])):
            continue
        found.add(key)
        rows = index.input(key)
        index.run(
            f"DELETE FROM {rows} WHERE {ID} IS NOT NULL AND {PLACE} NOT IN "
            f"(SELECT max({PLACE}) FROM {rows} WHERE {ID} IS NOT NULL GROUP BY {ID})"
        )
    return frozenset(found)


def refuse_existing(
    prepared: PreparedInput, snapshot: Snapshot, store: Store, *, small: bool
) -> None:
    """`KeyConflict` when the graph has some of the ids already."""
    index = prepared.index
    found: list[tuple[TableKey, str, int]] = []
    total = 0
    for key in sorted(prepared.given_ids):
        pin = snapshot.pin(key)
        if pin.row_count == 0:
            continue
        if small:
            stored = _stored_among(index, key, store.open(pin.at))
            if stored.num_rows == 0:
                continue
            index.fill_stored(key, stored.select([ID]))
        elif _none_stored(index, key):
            continue
        rows = index.input(key)
        taken = f"FROM {rows} r SEMI JOIN {index.stored(key)} s ON r.{ID} = s.{ID}"
        clashes = index.count(f"SELECT count(*) {taken}")
        if clashes == 0:
            continue
        total += clashes
        first = index.rows(
            f"SELECT r.{ID}, r.{PLACE} {taken} ORDER BY r.{PLACE} LIMIT {FIRST_VIOLATIONS}"
        )
        found += [(key, identity, place) for identity, place in first]
    if found:
        raise _conflict(prepared, found, total)


def _stored_among(index: KeyIndex, key: TableKey, dataset: Dataset) -> pa.Table:
    """Stored rows with an id of the input, which is small."""
    held = index.held(key)
    if held is None:
        held = index.table(f"SELECT {ID} FROM {index.input(key)}")
    return find_rows(dataset, pc.unique(held.column(ID).drop_null()))


def _none_stored(index: KeyIndex, key: TableKey) -> bool:
    """Proven in memory: no id of the input is stored."""
    held, stored = index.held(key), index.stored_ids(key)
    if held is None or stored is None:
        return False
    ids = held.column(ID).drop_null()
    few, many = sorted((ids, stored), key=len)
    return not pc.any(pc.is_in(many, value_set=few.combine_chunks()), min_count=0).as_py()


def _conflict(
    prepared: PreparedInput, found: list[tuple[TableKey, str, int]], total: int
) -> KeyConflict:
    found = sorted(found, key=lambda entry: entry[2])[:FIRST_VIOLATIONS]
    message = "exists already; load with mode merge to replace it"
    violations = [
        Violation(_RULE, key, identity, ID, message, prepared.place(place))
        for key, identity, place in found
    ]
    more = f" (and {total - 1} more)" if total > 1 else ""
    return KeyConflict(
        f"{violations[0]}{more}",
        type=found[0][0].type_name,
        ids=[identity for _, identity, _ in found][:_NAMED_IDS],
        violations=[violation.to_dict() for violation in violations],
        total=total,
        counts={_RULE: total},
    )
