"""The head of one branch at one manifest version, and its form in the manifest, with a stamp."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.errors import FormatTooNew, FormatUnknown
from omnigraph.manifest.packed_commits import pack_commits, unpack_commits
from omnigraph.manifest.records import HistorySegment, StoredCommit, StreamMark, TablePin
from omnigraph.values.identifiers import TableKey

CURRENT_FORMAT = 4
"""The format that this release writes: the stamp in the schema metadata of every manifest."""

_STAMP = "omnigraph:format"
_HEAD = "omnigraph:head"

# Lance wants a column. The dataset has no row: its schema metadata holds the state, so that a
# publication writes no data file and opening a version reads the state.
_FIELDS = (pa.field("object_id", pa.string()),)

# Columns of the rows that formats 2 and 3 kept the state in.
_ROW_COLUMNS = (
    "object_id",
    "object_type",
    "location",
    "metadata",
    "base_objects",
    "table_key",
    "table_version",
    "table_branch",
    "row_count",
)


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


def state_to_schema(state: BranchState, format_stamp: int) -> pa.Schema:
    """The schema of a manifest without rows, whose metadata holds the complete state."""
    head = {
        "schema_id": state.schema_id,
        "history": [s.to_json() for s in state.history],
        "cancelled": list(state.cancelled),
        "deleted": state.deleted,
        "name": state.name,
        "streams": {s: [mark.batch, mark.commit_id] for s, mark in state.streams.items()},
        "tables": [pin.to_json() for pin in state.tables.values()],
        "dropped": [pin.to_json() for pin in state.dropped.values()],
    }
    packed = pack_commits(head, state.commits)
    return pa.schema(_FIELDS, metadata={_STAMP: str(format_stamp), _HEAD: packed})


def read_state(version: int, schema: pa.Schema, read_rows: Callable[[], pa.Table]) -> BranchState:
    """The state of a manifest version. `read_rows` is called for a format before 4."""
    packed = (schema.metadata or {}).get(_HEAD.encode())
    if packed is None:
        return _state_from_rows(version, read_rows())
    head, commits = unpack_commits(packed)
    return BranchState(
        version=version,
        tables=_pins_by_key(head["tables"]),
        commits=commits,
        dropped=_pins_by_key(head["dropped"]),
        **_head_fields(head),
    )


def _pins_by_key(pins: Iterable[dict[str, Any]]) -> dict[TableKey, TablePin]:
    return {pin.key: pin for pin in map(TablePin.from_json, pins)}


def _head_fields(head: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a state that every format keeps in the JSON of the head."""
    return {
        "schema_id": head["schema_id"],
        "history": tuple(HistorySegment.from_json(s) for s in head["history"]),
        "cancelled": tuple(head["cancelled"]),
        "deleted": head["deleted"],
        "name": head.get("name"),
        "streams": {s: StreamMark(*mark) for s, mark in head.get("streams", {}).items()},
    }


def _state_from_rows(version: int, table: pa.Table) -> BranchState:
    """The state as formats 2 and 3 kept it: a row for the head, each pin and each commit."""
    columns = {name: table.column(name).to_pylist() for name in _ROW_COLUMNS}
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
        commits=tuple(commits),
        dropped=dropped,
        **_head_fields(head),
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
