"""What the reference evaluator works on: entities, paths, rows and the graph they come from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.ir.expressions import Variable

Tables = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""type name -> entity id -> row; an absent property is NULL, edge rows hold `src` and `dst`."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A node or an edge. Ids are unique only within a type, so identity is both."""

    type: str
    id: str
    row: Mapping[str, Any] = field(compare=False, repr=False)

    def get(self, name: str) -> Any:
        return self.id if name == "id" else self.row.get(name)


@dataclass(frozen=True, slots=True)
class Path:
    """Nodes and edges in turn, a node at both ends."""

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

    def extended(self, edge: Entity, node: Entity) -> Path:
        return Path((*self.entities, edge, node))


Bound = Entity | Path | None


@dataclass(frozen=True, slots=True)
class Row:
    """Variables and scores while matching; named columns after a Project or Aggregate."""

    bindings: Mapping[Variable, Bound] = field(default_factory=dict)
    scores: Mapping[str, float | None] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)

    def bound(self, variable: Variable) -> Bound:
        return self.bindings[variable]

    def entity(self, variable: Variable) -> Entity | None:
        found = self.bindings[variable]
        assert not isinstance(found, Path)
        return found

    def path(self, variable: Variable) -> Path | None:
        found = self.bindings[variable]
        assert not isinstance(found, Entity)
        return found

    def with_bindings(self, new: Mapping[Variable, Bound]) -> Row:
        return replace(self, bindings={**self.bindings, **new})

    def with_score(self, slot: str, score: float | None) -> Row:
        return replace(self, scores={**self.scores, slot: score})


@dataclass(frozen=True)
class World:
    """One evaluation: the graph, the parameters, and what time it is."""

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
