"""A write as data: effects per table and what they were computed from."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.manifest.changed_ids import ChangeList
from omnigraph.manifest.records import TableChanges
from omnigraph.values.identifiers import TableKey
from omnigraph.values.indexes import BuiltIndex


@dataclass(frozen=True, slots=True)
class Located:
    """Stored rows that were found while an edit was built: they need not be looked up again.

    Tables with `id`, `_rowid`, `_rowaddr`; of rows to be upserted every column. They are true for
    the snapshot the edit was built on, so an edit that carries them is built anew for another one.
    `absent` are ids that were made for this edit: nothing is stored under them.
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


@dataclass(frozen=True, slots=True)
class ReplaceRows:
    """The table holds exactly these rows afterwards."""

    key: TableKey
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class AdoptRows:
    """Rows already written as fragments of one physical branch; memory never holds them all.

    `fragments` is what `lance_store.stage_fragments.write_rows` returned, in order; `location` and
    `branch` say which dataset it wrote them for. `changes` names every id that comes, changes and
    goes: it is recorded in the commit as it is, and the rows it says are updated or deleted are
    found by it at staging time, so the same effect can be staged again on a newer pin.
    """

    key: TableKey
    location: str
    branch: str | None
    fragments: tuple[str, ...]
    changes: ChangeList


@dataclass(frozen=True, slots=True)
class AdoptCompaction:
    """Take fragments that were rewritten from exactly this version; no row changes.

    `results` is what `lance_store.stage_maintenance.run_compaction` returned, in this process or in
    others.
    """

    key: TableKey
    location: str
    branch: str | None
    version: int
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdoptIndexes:
    """Take index segments that were built over exactly this version; no row changes."""

    key: TableKey
    location: str
    branch: str | None
    version: int
    built: tuple[BuiltIndex, ...]


@dataclass(frozen=True, slots=True)
class LeaveInheritedIndexes:
    """A branch does without the index files of the lineage it was forked from; no row changes."""

    key: TableKey
    location: str
    branch: str | None
    version: int


ContentEffect = EditRows | ReplaceRows | AdoptRows
PhysicalEffect = AdoptCompaction | AdoptIndexes | LeaveInheritedIndexes
Effect = ContentEffect | PhysicalEffect


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The catalog to accept together with the effects, its text, and the types it adds.

    `replaced` are those of `added` that exist already, with other columns: their tables give way.
    """

    catalog: Catalog
    source: str
    added: tuple[EntityType, ...]
    replaced: tuple[TableKey, ...] = ()


@dataclass(frozen=True, slots=True)
class MergedHead:
    """The other parent of a merge, and what must be remembered of it."""

    commit_id: str
    created_at: int
    history: str | None
    """The `__history` page of the commits it brings in; written before the publish."""
    fast_forward: bool
    differs: tuple[TableChanges, ...] | None = None
    """Ids in which the result may differ from it (`Commit.differs_from_merged`)."""


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Effects, at most one per table, plus the tables whose content they relied on.

    An effect on a table that `schema` adds must be `ReplaceRows`: its first content.
    With `merged` there is a commit even if no row changes.
    """

    effects: tuple[Effect, ...]
    reads: tuple[TableKey, ...] = ()
    schema: SchemaChange | None = None
    merged: MergedHead | None = None

    def __post_init__(self) -> None:
        keys = [effect.key for effect in self.effects]
        twice = sorted({str(k) for k in keys if keys.count(k) > 1})
        if twice:
            raise InvalidArgument(f"two effects on one table: {', '.join(twice)}", tables=twice)
