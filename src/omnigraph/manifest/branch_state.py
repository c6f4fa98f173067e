"""The head of one branch at one manifest version, and its form as manifest rows with a stamp."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.errors import FormatTooNew, FormatUnknown
from omnigraph.manifest.records import HistorySegment, StoredCommit, StreamMark, TablePin
from omnigraph.values.identifiers import TableKey

CURRENT_FORMAT = 3
"""The format that this release writes: the stamp in the schema metadata of every manifest."""

_STAMP = "omnigraph:format"

MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        # Compressing the JSON costs 2 ms a publish and saves 40 kB that the next publish drops.
        pa.field("metadata", pa.string(), metadata={"lance-encoding:compression": "none"}),
        pa.field("base_objects", pa.list_(pa.string())),
        pa.field("table_key", pa.string()),
        pa.field("table_version", pa.int64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.int64()),
    ]
)
_COLUMNS = tuple(MANIFEST_SCHEMA.names)

_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class BranchState:
    """The head of a branch: pins, accepted schema, recent commits, segments of older ones."""

    version: int
    tables: Mapping[TableKey, TablePin]
    schema_id: str
    commits: tuple[StoredCommit, ...]
    history: tuple[HistorySegment, ...] = ()
    cancelled: tuple[str, ...] = ()
    dropped: Mapping[TableKey, TablePin] = field(default_factory=dict)
    deleted: bool = False
    name: str | None = None
    """The name that a rename gave the branch; None when it was never renamed.

    It is valid while a ref of that name leads here, see `ManifestReader.goes_by_another_name`.
    """
    streams: Mapping[str, StreamMark] = field(default_factory=dict)
    """The last batch of each stream, least recently moved first."""

    @property
    def head_commit_id(self) -> str:
        return self.commits[-1].commit_id


def state_to_rows(state: BranchState, format_stamp: int) -> pa.Table:
    """The complete manifest content of this state."""
    rows = [_head_row(state)]
    for pin in state.tables.values():
        rows.append(_table_row(pin))
        rows.append(_pin_row(pin, "table_version"))
    rows += [_pin_row(pin, "table_tombstone") for pin in state.dropped.values()]
    rows += [_commit_row(stored) for stored in state.commits]
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(list(values), type=column.type)
        for values, column in zip(columns, MANIFEST_SCHEMA, strict=True)
    ]
    schema = MANIFEST_SCHEMA.with_metadata({_STAMP: str(format_stamp)})
    return pa.Table.from_arrays(arrays, schema=schema)


def state_from_rows(version: int, table: pa.Table) -> BranchState:
    columns = {name: table.column(name).to_pylist() for name in _COLUMNS}
    pins: dict[TableKey, TablePin] = {}
    dropped: dict[TableKey, TablePin] = {}
    commits: list[StoredCommit] = []
    head: dict[str, Any] = {}
    for index, kind in enumerate(columns["object_type"]):
        match kind:
            case "graph_head":
                head = json.loads(columns["metadata"][index])
            case "table_version":
                pin = _pin_from(columns, index)
                pins[pin.key] = pin
            case "table_tombstone":
                pin = _pin_from(columns, index)
                dropped[pin.key] = pin
            case "graph_commit":
                commits.append(
                    StoredCommit(
                        columns["object_id"][index],
                        tuple(columns["base_objects"][index]),
                        columns["metadata"][index],
                    )
                )
            case _:
                continue  # a `table` row repeats the content of its `table_version` row
    return BranchState(
        version=version,
        tables=pins,
        schema_id=head["schema_id"],
        commits=tuple(commits),
        history=tuple(HistorySegment.from_json(s) for s in head["history"]),
        cancelled=tuple(head["cancelled"]),
        dropped=dropped,
        deleted=head["deleted"],
        name=head.get("name"),
        streams={s: StreamMark(*mark) for s, mark in head.get("streams", {}).items()},
    )


def read_stamp(schema: pa.Schema) -> int:
    """The format stamp in the schema metadata of a manifest."""
    text = (schema.metadata or {}).get(_STAMP.encode())
    if text is None or not text.isdigit():
        raise FormatUnknown(
            "this is not a manifest of OmniGraph: its format stamp is missing or unreadable. To "
            "bring in a graph of the Rust original, `export` it there and `load` it here."
        )
    return int(text)


def check_readable(stamp: int) -> None:
    if stamp > CURRENT_FORMAT:
        raise FormatTooNew(
            f"the graph has format {stamp}, this release reads up to {CURRENT_FORMAT}: "
            "upgrade omnigraph first",
            found=stamp,
            supported=CURRENT_FORMAT,
        )


def _head_row(state: BranchState) -> _Row:
    metadata = {
        "head": state.head_commit_id,
        "schema_id": state.schema_id,
        "history": [s.to_json() for s in state.history],
        "cancelled": list(state.cancelled),
        "deleted": state.deleted,
        "name": state.name,
        "streams": {s: [mark.batch, mark.commit_id] for s, mark in state.streams.items()},
    }
    return _row("graph_head", "graph_head", metadata=_compact(metadata))


def _table_row(pin: TablePin) -> _Row:
    return _row(f"table:{pin.key}", "table", location=pin.location, table_key=str(pin.key))


def _pin_row(pin: TablePin, object_type: str) -> _Row:
    return _row(
        f"{object_type}:{pin.key}",
        object_type,
        location=pin.location,
        metadata=_compact({"owner": pin.owner, "content_epoch": pin.content_epoch}),
        table_key=str(pin.key),
        table_version=pin.version,
        table_branch=pin.branch,
        row_count=pin.row_count,
    )


def _pin_from(columns: dict[str, list[Any]], index: int) -> TablePin:
    metadata = json.loads(columns["metadata"][index])
    return TablePin(
        key=TableKey.parse(columns["table_key"][index]),
        location=columns["location"][index],
        branch=columns["table_branch"][index],
        version=columns["table_version"][index],
        row_count=columns["row_count"][index],
        owner=metadata["owner"],
        content_epoch=metadata["content_epoch"],
    )


def _commit_row(stored: StoredCommit) -> _Row:
    return _row(
        stored.commit_id, "graph_commit", metadata=stored.text, base_objects=list(stored.parents)
    )


def _row(
    object_id: str,
    object_type: str,
    location: str | None = None,
    metadata: str | None = None,
    base_objects: list[str] | None = None,
    table_key: str | None = None,
    table_version: int | None = None,
    table_branch: str | None = None,
    row_count: int | None = None,
) -> _Row:
    return (
        object_id,
        object_type,
        location,
        metadata,
        base_objects,
        table_key,
        table_version,
        table_branch,
        row_count,
    )


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
