"""Change the columns of a dataset without writing its rows again.

A dataset keeps the values of a column under the id of its field, so a rename, a drop, a reorder, a
new column of NULLs and another nullability are one `Project` of Lance: a new schema over the old
files. New values of a column are written beside the old files (`write_columns`, one fragment at a
time, in any process) and joined by one `Merge`. Neither moves rows, so indexes of other columns
stay.

Lance does not check a `Project`: it accepts two fields of one name, or a required column that holds
NULLs. The caller has checked the change.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph.lance_store.blobs import to_lance_rows, to_lance_schema
from omnigraph.lance_store.objects.protobuf import fields, length_delimited, number_field
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store, VersionAddress

PROPERTY_ID = "omnigraph.property"
"""The key of field metadata under which a column has the identity of its property."""

_NEXT_FIELD = "omnigraph.next_field"
"""The key of schema metadata with the lowest field id that no column ever had.

Lance would give the id of a dropped column to a new one, and a transaction from before the drop
would then put old values into the new column.
"""

_NAME, _ID, _PARENT, _NULLABLE, _METADATA = 2, 3, 4, 6, 10
_TOP_LEVEL = -1
_STAGED = "__staged_"
# Lance would call the function for every 1,024 rows, which takes five times as long.
_ROWS_PER_BATCH = 64 * 1024


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """One column of a table after a change."""

    field: pa.Field
    identity: str = ""
    """The identity of its property; empty for a system column."""
    source: str | None = None
    """The column that has its values now; None for a new column."""
    is_written: bool = False
    """Its values are new: they were written by `write_columns` under the name of the column."""


def stage_columns(
    store: Store, at: DatasetVersion, columns: Sequence[ColumnShape], written: Sequence[str] = ()
) -> StagedWrite:
    """Give a dataset these columns; `written` is what `write_columns` returned for each fragment.

    Two transactions are staged if there are new values: one adds them, one puts all columns in
    place. The second is staged on a detached version that holds the result of the first.
    """
    dataset = store.open(at)
    rows = dataset.count_rows()
    with storage_errors(f"staging the columns of {at.location}"):
        if not any(column.is_written for column in columns) or not written:
            project = _projection(dataset, at.version, columns)
            return StagedWrite(at, project, project.uuid, rows)
        merge = Transaction(at.version, _merged(dataset, written))
        detached = LanceDataset.commit(dataset, merge, detached=True)
        try:
            project = _projection(detached, at.version + 1, columns)
        finally:
            store.forget_detached(at, int(detached.version))
    return StagedWrite(at, (merge, project), project.uuid, rows, steps=2)


def preview_columns(
    store: Store, at: DatasetVersion, columns: Sequence[ColumnShape]
) -> DatasetVersion:
    """A detached version with these columns, none of them written anew.

    HEAD does not move, and no other process finds the version. `stage.drop_preview` removes it.
    """
    dataset = store.open(at)
    with storage_errors(f"previewing the columns of {at.location}"):
        handle = LanceDataset.commit(
            dataset, _projection(dataset, at.version, columns), detached=True
        )
    preview = DatasetVersion(at.location, at.branch, int(handle.version))
    store.remember(preview, handle)
    return preview


def stage_then(first: StagedWrite, second: StagedWrite) -> StagedWrite:
    """Two staged writes as one: `second` was staged on a preview of the result of `first`."""
    read = first.result_version
    following = Transaction(read, second.transaction.operation)
    before = first.transaction if isinstance(first.transaction, tuple) else (first.transaction,)
    return StagedWrite(
        first.at, (*before, following), following.uuid, second.row_count, first.steps + 1
    )


def write_columns(
    target: VersionAddress,
    fragment_id: int,
    columns: pa.Schema,
    read: Sequence[str],
    values: Callable[[pa.RecordBatch], pa.RecordBatch],
    batch_rows: int = _ROWS_PER_BATCH,
) -> str:
    """Write new columns of one fragment; the metadata of the fragment with them, as JSON.

    `values` makes the new columns from a batch of the columns `read`. It must depend on nothing
    else, because a task may run twice.
    """
    staged = pa.schema([field.with_name(f"{_STAGED}{field.name}") for field in columns])

    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        made = values(batch)
        arrays = [made.column(field.name).cast(field.type) for field in columns]
        rows = to_lance_rows(pa.Table.from_arrays(arrays, schema=staged))
        made_columns = [column.combine_chunks() for column in rows.columns]
        return pa.RecordBatch.from_arrays(made_columns, schema=rows.schema)

    with storage_errors(f"writing columns for {target.uri}"):
        fragment = target.open().get_fragment(fragment_id)
        metadata, schema = fragment.merge_columns(
            renamed, columns=list(read), batch_size=batch_rows
        )
    return json.dumps({"fragment": metadata.to_json(), "schema": _schema_to_json(schema)})


def fragment_ids(dataset: Dataset) -> list[int]:
    return [fragment.fragment_id for fragment in dataset.get_fragments()]


def _merged(dataset: Dataset, written: Sequence[str]) -> LanceOperation.Merge:
    parts = [json.loads(text) for text in written]
    given = {part["fragment"]["id"] for part in parts}
    missing = set(fragment_ids(dataset)) - given
    if missing:
        raise OSError(f"fragments {sorted(missing)} have no new columns")
    fragments = [FragmentMetadata.from_json(json.dumps(part["fragment"])) for part in parts]
    return LanceOperation.Merge(fragments, _schema_from_json(parts[0]["schema"]))


def _projection(dataset: Dataset, version: int, columns: Sequence[ColumnShape]) -> Transaction:
    metadata, protos = _unpack(dataset.lance_schema)
    groups = _by_column(protos)
    taken = [_number(p, _ID) for p in protos]
    taken += [i for f in dataset.get_fragments() for d in f.metadata.files for i in d.fields]
    mark = int(bytes(metadata.get(_NEXT_FIELD, b"0")) or b"0")
    following = max([mark, *(number + 1 for number in taken)])
    target: list[bytes] = []
    for column in columns:
        name = f"{_STAGED}{column.field.name}" if column.is_written else column.source
        if name is None or name not in groups:
            made = _new_fields(column.field, following)
            following += len(made)
        else:
            made = groups[name]
        head, *children = made
        before = groups.get(column.source or "")
        if column.is_written and before:
            head += b"".join(raw for number, raw, _ in fields(before[0]) if number == _METADATA)
        head = _put(head, _NAME, length_delimited(_NAME, column.field.name.encode()))
        head = _put(head, _NULLABLE, number_field(_NULLABLE, 1) if column.field.nullable else b"")
        if column.identity:
            head = _tagged(head, PROPERTY_ID, column.identity)
        target += [head, *children]
    metadata[_NEXT_FIELD] = list(str(following).encode())
    return Transaction(version, LanceOperation.Project(_pack(metadata, target)))


def _by_column(protos: Sequence[bytes]) -> dict[str, list[bytes]]:
    """The fields of each column: itself, then what is inside of it."""
    groups: dict[str, list[bytes]] = {}
    current: list[bytes] = []
    for proto in protos:
        if _number(proto, _PARENT) == _TOP_LEVEL:
            current = groups.setdefault(_text(proto, _NAME), [])
        current.append(proto)
    return groups


def _new_fields(field: pa.Field, first: int) -> list[bytes]:
    schema = LanceSchema.from_pyarrow(to_lance_schema(pa.schema([field])))
    made = []
    for proto in _unpack(schema)[1]:
        parent = _number(proto, _PARENT)
        place = parent + first if parent != _TOP_LEVEL else parent
        proto = _put(proto, _ID, number_field(_ID, _number(proto, _ID) + first))
        made.append(_put(proto, _PARENT, number_field(_PARENT, place & (1 << 64) - 1)))
    return made


def _unpack(schema: LanceSchema) -> tuple[dict[str, Any], list[bytes]]:
    """Schema metadata (values are lists of bytes), and the fields depth first."""
    metadata, *protos = schema.__reduce__()[1]
    return json.loads(metadata), protos


def _pack(metadata: dict[str, Any], protos: Sequence[bytes]) -> LanceSchema:
    return LanceSchema._from_protos(json.dumps(metadata), *protos)  # noqa: SLF001


def _schema_to_json(schema: LanceSchema) -> list[Any]:
    metadata, protos = _unpack(schema)
    return [metadata, [base64.b64encode(proto).decode() for proto in protos]]


def _schema_from_json(data: list[Any]) -> LanceSchema:
    metadata, protos = data
    return _pack(metadata, [base64.b64decode(proto) for proto in protos])


def _number(message: bytes, number: int) -> int:
    """A signed number; absent means 0."""
    raw = next((raw for found, raw, _ in fields(message) if found == number), None)
    value = 0 if raw is None else sum((b & 127) << 7 * i for i, b in enumerate(raw[1:]))
    return value - (1 << 64) if value >> 63 else value


def _text(message: bytes, number: int) -> str:
    return next(body.decode() for found, _, body in fields(message) if found == number and body)


def _put(message: bytes, number: int, raw: bytes) -> bytes:
    return b"".join(old for found, old, _ in fields(message) if found != number) + raw


def _tagged(message: bytes, key: str, value: str) -> bytes:
    """The field with one more entry of metadata, or with another value of it."""
    kept = [
        raw
        for found, raw, body in fields(message)
        if found != _METADATA or _entry_key(body) != key.encode()
    ]
    entry = length_delimited(1, key.encode()) + length_delimited(2, value.encode())
    return b"".join(kept) + length_delimited(_METADATA, entry)


def _entry_key(entry: bytes | None) -> bytes | None:
    return next((body for found, _, body in fields(entry or b"") if found == 1), None)


def holds_null(dataset: Dataset, column: str) -> bool:
    """Whether a NULL is stored in the column, also in a row that is deleted.

    Lance reads the values of deleted rows in some calls, and fails on a NULL in a required column.
    """
    with storage_errors("reading stored NULLs"):
        for fragment in dataset.get_fragments():
            scan = fragment.scanner(columns=[column], include_deleted_rows=True, with_row_id=True)
            if any(batch.column(column).null_count for batch in scan.to_batches()):
                return True
    return False
