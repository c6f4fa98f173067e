"""A write as data: the effects on its tables, its schema change, and the parent that it merges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.staging.columns import ColumnShape
from omnigraph.manifest.changed_ids import ChangeList
from omnigraph.manifest.records import StreamBatch, TableChanges
from omnigraph.values.identifiers import TableKey
from omnigraph.values.indexes import BuiltIndex

_SMALL_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Located:
    """Stored rows that were found while an edit was built, so that they are not looked up again.

    The tables have the columns `id`, `_rowid` and `_rowaddr`; rows to be upserted have all columns.
    They hold for the snapshot that the edit was built on, so the edit is built again for another
    snapshot. `absent` are ids that were generated for this edit, so no row has them.
    """

    upserted: pa.Table | None = None
    deleted: pa.Table | None = None
    absent: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class EditRows:
    """Insert (ids must be new), upsert and delete by id; ids are distinct over all three."""

    key: TableKey
    inserts: pa.Table | None = None
    upserts: pa.Table | None = None
    deletes: pa.Array | None = None
    located: Located = Located()
    marks: Mapping[str, pa.Array] = field(default_factory=dict)
    """Property with a generated default -> for every upserted row, whether the row left it out.

    Such a row keeps the value of the stored entity, if there is one.
    """


@dataclass(frozen=True, slots=True)
class ReplaceRows:
    """Afterwards the table holds exactly these rows."""

    key: TableKey
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class ReplacedRows:
    """Addresses, in one version of a table, of all stored rows that a write updates or deletes."""

    version: int
    addresses: tuple[pa.ChunkedArray, ...]


@dataclass(frozen=True, slots=True)
class AdoptRows:
    """Rows that are already written as fragments of one physical branch.

    `fragments` is the result of `lance_store.staging.written_fragments.write_rows`, in order.
    `location` and `branch` name the dataset that they were written for. `changes` lists every id
    that is inserted, updated or deleted, and the commit records it. Staging looks up the rows to
    replace by these ids, so the same effect can be staged again on a newer pin. Where they are
    known (`replaced`), it looks nothing up.
    """

    key: TableKey
    location: str
    branch: str | None
    fragments: tuple[str, ...]
    changes: ChangeList
    replaced: ReplacedRows | None = None


@dataclass(frozen=True, slots=True)
class AdoptCompaction:
    """Adopt fragments that were rewritten from exactly this version; no row changes.

    `results` comes from `lance_store.staging.compaction.run_compaction`, run here or in tasks.
    """

    key: TableKey
    location: str
    branch: str | None
    version: int
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdoptIndexes:
    """Adopt index segments that were built over exactly this version; no row changes."""

    key: TableKey
    location: str
    branch: str | None
    version: int
    built: tuple[BuiltIndex, ...]


@dataclass(frozen=True, slots=True)
class LeaveInheritedIndexes:
    """Drop the index files that a branch shares with its source; no row changes."""

    key: TableKey
    location: str
    branch: str | None
    version: int


@dataclass(frozen=True, slots=True)
class ReshapeTable:
    """Give a table other columns, and then change rows of it.

    `written` are new values of columns, as `lance_store.staging.columns.write_columns` returned
    them for every fragment of exactly this version. Without them no value changes. `edit` has the
    new columns; its fragments, if it has some, were written for a preview of them.
    """

    key: TableKey
    location: str
    branch: str | None
    version: int
    columns: tuple[ColumnShape, ...]
    written: tuple[str, ...] = ()
    edit: EditRows | AdoptRows | None = None
    discards: bool = False
    """A property loses its values: its column is a new one, without values."""

    @property
    def changes_values(self) -> bool:
        return self.discards or any(column.is_written for column in self.columns)


ContentEffect = EditRows | ReplaceRows | AdoptRows
PhysicalEffect = AdoptCompaction | AdoptIndexes | LeaveInheritedIndexes
Effect = ContentEffect | PhysicalEffect | ReshapeTable


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The catalog to accept with the effects, its text, and the types that come and go."""

    catalog: Catalog
    source: str
    added: tuple[EntityType, ...] = ()
    """Types that get a new table."""
    first_rows: tuple[ReplaceRows, ...] = ()
    """The rows of new tables; a new table without them is empty."""
    dropped: tuple[TableKey, ...] = ()
    """Tables that leave the graph; a type of `added` may have the same name."""
    renamed: tuple[tuple[TableKey, TableKey], ...] = ()
    """Old and new names of types that keep their table."""
    steps: tuple[Mapping[str, Any], ...] = ()
    """The steps of the change as JSON, kept with the schema."""


@dataclass(frozen=True, slots=True)
class MergedHead:
    """The other parent of a merge, with what the commit records about it."""

    commit_id: str
    created_at: int
    history: str | None
    """The `__history` page of the commits that it brings in; written before the publish."""
    fast_forward: bool
    differs: tuple[TableChanges, ...] | None = None
    """Ids in which the result may differ from it, see `Commit.differs_from_merged`."""
    batches: tuple[StreamBatch, ...] = ()
    """The last batches of streams that it has and the target does not have."""
    carried: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """`Commit.details` of these streams, by stream."""


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Effects, at most one for each table, with an optional schema change and merged parent.

    Effects name existing tables by the names that they have before a schema change.
    With `merged` a commit is made even if no row changes. The tables that a write relied on are not
    in here: they are the `reads` of its request (`commit.request.WriteRequest`).
    """

    effects: tuple[Effect, ...]
    schema: SchemaChange | None = None
    merged: MergedHead | None = None

    def __post_init__(self) -> None:
        keys = [effect.key for effect in self.effects]
        twice = sorted({str(k) for k in keys if keys.count(k) > 1})
        if twice:
            raise InvalidArgument(f"two effects on one table: {', '.join(twice)}", tables=twice)

    def is_small(self, most_rows: int) -> bool:
        """Whether it only edits rows, few of them: other writers can wait for it."""
        if self.schema is not None or self.merged is not None:
            return False
        rows = size = 0
        for effect in self.effects:
            if not isinstance(effect, EditRows):
                return False
            for table in (effect.inserts, effect.upserts):
                rows += table.num_rows if table is not None else 0
                size += table.nbytes if table is not None else 0
            rows += len(effect.deletes) if effect.deletes is not None else 0
        return rows <= most_rows and size <= _SMALL_BYTES
