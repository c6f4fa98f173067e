"""A snapshot: one coherent state of a graph, which every read works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.catalog.model import Catalog
from omnigraph.errors import NotFound
from omnigraph.manifest.records import TablePin
from omnigraph.values.identifiers import TableKey

if TYPE_CHECKING:  # a worker that writes needs snapshots, and no rules
    from omnigraph.ir.data_scope import DataScope


@dataclass(frozen=True, slots=True)
class SnapshotDataset:
    """The table of one type in a snapshot."""

    entity_kind: str
    type_name: str
    dataset_path: str
    published_dataset_version: int
    native_dataset_branch: str | None
    entity_count: int | None
    """None when a rule about rows applies, because the number would count rows out of scope."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Pins, schema and head commit at one moment of one branch."""

    graph_branch: str
    graph_commit_id: str
    graph_manifest_version: int
    schema_id: str
    catalog: Catalog
    tables: Mapping[TableKey, TablePin]
    internal_schema_version: int
    """The format stamp of the graph's files."""
    scope: DataScope | None = field(default=None, repr=False)
    """The part of the graph that this snapshot shows; its rules about rows are not applied yet."""
    uncounted: frozenset[TableKey] = frozenset()
    """Tables whose number of rows is not told."""

    @property
    def datasets(self) -> tuple[SnapshotDataset, ...]:
        return tuple(
            SnapshotDataset(
                entity_kind=pin.key.kind.value,
                type_name=pin.key.type_name,
                dataset_path=pin.location,
                published_dataset_version=pin.version,
                native_dataset_branch=pin.branch,
                entity_count=None if pin.key in self.uncounted else pin.row_count,
            )
            for pin in self.tables.values()
        )

    def pin(self, key: TableKey) -> TablePin:
        found = self.tables.get(key)
        if found is None:
            self.catalog.entity_type(key)  # raises with hints when the schema has no such type
            raise NotFound(f"{key} is in the schema but has no table", table=str(key))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The `snapshot` object of the command line and HTTP."""
        return {
            "graph_branch": self.graph_branch,
            "graph_commit_id": self.graph_commit_id,
            "graph_manifest_version": self.graph_manifest_version,
            "internal_schema_version": self.internal_schema_version,
            "datasets": [dataset.to_dict() for dataset in self.datasets],
        }
