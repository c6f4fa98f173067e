"""A small graph as data: schema text and lines of the load format, read into typed rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.coercion import coerce
from omnigraph.values.entity_ids import entity_id
from omnigraph.values.scalars import ValueType

Tables = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class GraphData:
    """A schema and the entities of one graph, in the load format.

    Entities without a key or an explicit id get an id from their line number, so that every
    executor sees the same ids.
    """

    schema: str
    lines: tuple[str, ...]

    @cached_property
    def catalog(self) -> Catalog:
        return catalog_from_text(self.schema)

    @cached_property
    def tables(self) -> Tables:
        """Type -> id -> row, every property present, values of exactly their types."""
        found: Tables = {entity.name: {} for entity in self.catalog.entity_types()}
        for number, line in enumerate(self.lines, 1):
            entity, row = self._read(json.loads(line), f"e{number:03}")
            assert row["id"] not in found[entity.name], f"{row['id']!r} twice: {line}"
            found[entity.name][row["id"]] = row
        return found

    @property
    def nodes(self) -> Tables:
        return {node.name: self.tables[node.name] for node in self.catalog.nodes}

    @property
    def edges(self) -> Tables:
        return {edge.name: self.tables[edge.name] for edge in self.catalog.edges}

    def edits(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """The argument of `Graph.apply` that writes this graph."""
        return {
            name: {"insert": [dict(row) for row in rows.values()]}
            for name, rows in self.tables.items()
            if rows
        }

    def _read(self, line: Mapping[str, Any], place: str) -> tuple[EntityType, dict[str, Any]]:
        entity = self.catalog.resolve(line["edge"] if "edge" in line else line["type"])
        given = dict(line.get("data", {}))
        explicit = given.pop("id", place)
        row = {
            p.name: typed(given.pop(p.name, None), p.type, nullable=p.nullable)
            for p in entity.properties
        }
        assert not given, f"{entity.name} has no property {', '.join(given)}"
        if isinstance(entity, EdgeType):
            return entity, {"id": explicit, "src": line["from"], "dst": line["to"]} | row
        return entity, {"id": _node_id(entity, row, explicit)} | row


def _node_id(node: NodeType, row: Mapping[str, Any], explicit: str) -> str:
    return entity_id([row[name] for name in node.key]) if node.key else explicit


def typed(value: Any, kind: ValueType, *, nullable: bool = True) -> Any:
    """A JSON value as the stored value of a property."""
    if value is None:
        assert nullable, f"a {kind} may not be null"
        return None
    return coerce(value, kind)


def data_lines(text: Iterable[str]) -> tuple[str, ...]:
    """The lines of a load file without blank lines and comments."""
    return tuple(line for line in text if line.strip() and not line.startswith("//"))
