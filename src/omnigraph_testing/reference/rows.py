"""The values of the reference evaluator: entities, paths, rows, the graph, and their order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.ir.expressions import Variable, VariableKind

Tables = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Type name -> entity id -> row. A missing property is NULL. Edge rows have `src` and `dst`."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A node or an edge. Its identity is type and id, because ids are unique within a type only."""

    type: str
    id: str
    row: Mapping[str, Any] = field(compare=False, repr=False)

    def get(self, name: str) -> Any:
        return self.id if name == "id" else self.row.get(name)


@dataclass(frozen=True, slots=True)
class EntityPath:
    """Nodes and edges by turns, with a node at both ends."""

    entities: tuple[Entity, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(entity.id for entity in self.entities)

    @property
    def length(self) -> int:
        return len(self.entities) // 2

    @property
    def end(self) -> Entity:
        return self.entities[-1]

    def extended(self, edge: Entity, node: Entity) -> EntityPath:
        return EntityPath((*self.entities, edge, node))


BoundValue = Entity | EntityPath | None


@dataclass(frozen=True, slots=True)
class Row:
    """Variables and scores while matching; named columns after a Project or Aggregate."""

    bindings: Mapping[Variable, BoundValue] = field(default_factory=dict)
    scores: Mapping[str, float | None] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)

    def bound(self, variable: Variable) -> BoundValue:
        return self.bindings[variable]

    def entity(self, variable: Variable) -> Entity | None:
        found = self.bindings[variable]
        assert not isinstance(found, EntityPath)
        return found

    def path(self, variable: Variable) -> EntityPath | None:
        found = self.bindings[variable]
        assert not isinstance(found, Entity)
        return found

    def with_bindings(self, new: Mapping[Variable, BoundValue]) -> Row:
        return replace(self, bindings={**self.bindings, **new})

    def with_score(self, slot: str, score: float | None) -> Row:
        return replace(self, scores={**self.scores, slot: score})


@dataclass(frozen=True)
class Evaluation:
    """The context of one evaluation: the graph, the parameters, the time."""

    catalog: Catalog
    nodes: Tables
    edges: Tables
    parameters: Mapping[str, Any]
    now: dt.datetime

    def node(self, type_name: str, entity_id: str) -> Entity:
        return Entity(type_name, entity_id, self.nodes[type_name][entity_id])

    def nodes_of(self, type_name: str) -> Iterator[Entity]:
        for entity_id, row in self.nodes.get(type_name, {}).items():
            yield Entity(type_name, entity_id, row)

    def edges_of(self, type_name: str) -> Iterator[Entity]:
        for entity_id, row in self.edges.get(type_name, {}).items():
            yield Entity(type_name, entity_id, row)


_NULL_FIRST = (0,)
_NULL_LAST = (2,)


def comparable(value: Any) -> Any:
    """The value in a form that Python sorts and hashes as the query language does.

    Strings sort by code point, false before true, lists element by element, entities by id and
    then type, paths by their list of ids.
    """
    match value:
        case Entity():
            return (value.id, value.type)
        case EntityPath():
            return (value.ids, tuple(entity.type for entity in value.entities))
        case list() | tuple():
            return tuple(comparable(item) for item in value)
        case _:
            return value


def identity(value: Any) -> Any:
    """A key that is equal for values of one group; here NULL equals NULL."""
    # In Python 1 equals True. That does no harm, because no column holds both.
    return None if value is None else (comparable(value),)


@dataclass(frozen=True, slots=True)
class RowKey:
    """What rows are sorted by."""

    value_of: Callable[[Row], Any]
    descending: bool = False
    nulls_last: bool = False


def sorted_by(rows: Sequence[Row], keys: Sequence[RowKey]) -> list[Row]:
    """Rows by several keys, the most important one first.

    NULLs come first ascending and last descending, or last both ways when asked.
    """
    result = list(rows)
    for key in reversed(keys):
        null = _NULL_LAST if key.nulls_last and not key.descending else _NULL_FIRST
        # Keys are computed before sorting: an error must not depend on which rows are compared.
        decorated = [(_sort_value(key.value_of(row), null), row) for row in result]
        decorated.sort(key=lambda pair: pair[0], reverse=key.descending)
        result = [row for _, row in decorated]
    return result


def _sort_value(value: Any, null: tuple[int, ...]) -> tuple[Any, ...]:
    return null if value is None else (1, comparable(value))


def in_tie_order(rows: Sequence[Row]) -> list[Row]:
    """Rows by the ids of their variables, in order of appearance, paths last."""
    if not rows:
        return []
    named = [v for v in rows[0].bindings if v.name != "_"]
    named.sort(key=lambda v: (v.kind is VariableKind.PATH, v.id))
    return sorted_by(rows, [RowKey(partial(_bound, variable)) for variable in named])


def _bound(variable: Variable, row: Row) -> Any:
    return row.bound(variable)
