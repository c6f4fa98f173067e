"""A write as data: effects per table and what they were computed from."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.manifest.records import TableChanges
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.effects import Effect


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
