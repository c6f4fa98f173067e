"""A write as data: effects per table and what they were computed from."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.changes.effects import Effect
from omnigraph.errors import InvalidArgument
from omnigraph.values.identifiers import TableKey


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The catalog to accept together with the effects, its text, and the types it adds."""

    catalog: Catalog
    source: str
    added: tuple[EntityType, ...]


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Effects, at most one per table, plus the tables whose content they relied on."""

    effects: tuple[Effect, ...]
    reads: tuple[TableKey, ...] = ()
    schema: SchemaChange | None = None

    def __post_init__(self) -> None:
        keys = [effect.key for effect in self.effects]
        twice = sorted({str(k) for k in keys if keys.count(k) > 1})
        if twice:
            raise InvalidArgument(f"two effects on one table: {', '.join(twice)}", tables=twice)
