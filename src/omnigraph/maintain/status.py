"""The state of a graph: `graph_status` of all branches and tables, `index_status` of one branch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.catalog.index_plan import wanted_indexes
from omnigraph.commit.intents import IntentBoard, PendingIntent
from omnigraph.lance_store.dataset_files import LineageFiles, lineages
from omnigraph.lance_store.reads.indexes import coverage
from omnigraph.lance_store.store import Store
from omnigraph.maintain.table_upkeep import is_due, look_at
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.layout import HISTORY, MANIFEST, SCHEMAS, dataset_folder
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef, TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import MaintenanceSettings
from omnigraph.values.indexes import IndexKind


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One type on one branch. `bytes` counts what the branch itself wrote, not what it shares."""

    type_name: str
    entity_kind: str
    owned: bool
    """False when the branch still shares the table of the branch that it was forked from."""
    entity_count: int
    fragments: int
    deleted_rows: int
    indexes: int
    unindexed_rows: int
    """Rows outside the index that covers the fewest."""
    versions: int
    bytes: int
    due: bool
    """True when a threshold of the settings is passed, so that upkeep would help."""


@dataclass(frozen=True, slots=True)
class BranchStatus:
    """A branch: the length of its history, the size of its manifest, and its tables."""

    name: str
    head_commit_id: str
    commits: int
    graph_manifest_version: int
    manifest_bytes: int
    tables: tuple[TableStatus, ...]


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """The whole graph; `bytes` is everything below its address."""

    uri: str
    branches: tuple[BranchStatus, ...]
    pending_intents: tuple[PendingIntent, ...]
    tags: int
    history_objects: int
    history_bytes: int
    schemas: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """One declared index and the rows that it covers; pending rows are searched without it."""

    type_name: str
    property: str
    kind: str
    built: bool
    covered_rows: int
    pending_rows: int

    status: str
    """`ready`, or `building` until upkeep has indexed every row."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def graph_status(
    reader: ManifestReader, board: IntentBoard, settings: MaintenanceSettings
) -> GraphStatus:
    files = reader.store.files.walk("")
    folders: dict[str, list[Any]] = {}
    for file in files:
        folders.setdefault(dataset_folder(file.path), []).append(file)
    sorted_files = {place: lineages(place, found) for place, found in folders.items()}
    history = folders.get(HISTORY, [])
    return GraphStatus(
        uri=reader.store.location.uri,
        branches=tuple(
            _branch_status(reader, ref, state, sorted_files, settings)
            for ref, state in reader.live_branches()
        ),
        pending_intents=board.pending(),
        tags=len(reader.tag_refs.names()),
        history_objects=len(history),
        history_bytes=sum(file.size for file in history),
        schemas=len(folders.get(SCHEMAS, [])),
        bytes=sum(file.size for file in files),
    )


SortedFiles = Mapping[str, Mapping[str | None, LineageFiles]]


def _branch_status(
    reader: ManifestReader,
    ref: BranchRef,
    state: BranchState,
    files: SortedFiles,
    settings: MaintenanceSettings,
) -> BranchStatus:
    snapshot = reader.snapshot(ref, state)
    manifest = files[MANIFEST].get(ref.physical_branch)
    return BranchStatus(
        name=ref.name,
        head_commit_id=state.head_commit_id,
        commits=len(state.commits) + sum(s.count for s in state.history),
        graph_manifest_version=state.version,
        manifest_bytes=manifest.size if manifest else 0,
        tables=_table_statuses(reader.store, ref, snapshot, files, settings),
    )


def _table_statuses(
    store: Store,
    ref: BranchRef,
    snapshot: Snapshot,
    files: SortedFiles,
    settings: MaintenanceSettings,
) -> tuple[TableStatus, ...]:
    return tuple(
        _table_status(
            store,
            ref,
            snapshot,
            pin,
            files.get(pin.location, {}).get(pin.branch),
            settings,
        )
        for pin in snapshot.tables.values()
    )


def _table_status(
    store: Store,
    ref: BranchRef,
    snapshot: Snapshot,
    pin: TablePin,
    lineage: LineageFiles | None,
    settings: MaintenanceSettings,
) -> TableStatus:
    layout = look_at(store, pin, snapshot.catalog.entity_type(pin.key), settings)
    shape = layout.shape
    owned = pin.owner == ref.incarnation
    return TableStatus(
        type_name=pin.key.type_name,
        entity_kind=pin.key.kind.value,
        owned=owned,
        entity_count=pin.row_count,
        fragments=shape.fragments,
        deleted_rows=shape.deleted_rows,
        indexes=layout.indexes,
        unindexed_rows=layout.unindexed_rows,
        versions=len(lineage.versions) if owned and lineage else 0,
        bytes=lineage.size if owned and lineage else 0,
        due=owned and is_due(layout, settings),
    )


_KIND_NAMES = {
    IndexKind.SORTED: "btree",
    IndexKind.FULL_TEXT: "full_text",
    IndexKind.SUBSTRING: "ngram",
    IndexKind.LIST: "label_list",
    IndexKind.VECTOR: "vector",
}


def index_status(store: Store, snapshot: Snapshot) -> list[IndexStatus]:
    return [
        IndexStatus(
            type_name=entity.name,
            property=index.column,
            kind=_KIND_NAMES[index.kind],
            built=index.built,
            covered_rows=index.covered_rows,
            pending_rows=index.pending_rows,
            status="ready" if index.built and not index.pending_rows else "building",
        )
        for entity in snapshot.catalog.entity_types()
        for index in coverage(store.open(snapshot.pin(entity.table_key).at), wanted_indexes(entity))
    ]
