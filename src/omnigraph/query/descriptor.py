"""What an operation takes, gives, reads and writes: for clients, policy and tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads, writes
from omnigraph.ir.walk import Node, walk
from omnigraph.query.params import ParameterDecl
from omnigraph.values.identifiers import EntityKind, TableKey, edge_table, node_table
from omnigraph.values.scalars import EnumType, ListType, VectorType


@dataclass(frozen=True, slots=True)
class ResultField:
    """One result column. `kind` is scalar, enum, list, vector, node, edge or path.

    `type` is how the type is written, `value_type` the type itself.
    """

    name: str
    kind: str
    type: str
    nullable: bool
    value_type: ex.ExpressionType


@dataclass(frozen=True, slots=True)
class OperationDescriptor:
    """The contract of one query."""

    name: str
    kind: str
    parameters: tuple[ParameterDecl, ...]
    fields: tuple[ResultField, ...]
    reads: tuple[TableKey, ...]
    writes: tuple[TableKey, ...]
    description: str | None = None
    instruction: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The descriptor as JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "description": self.description,
            "instruction": self.instruction,
            "parameters": [
                {"name": p.name, "type": str(p.type), "optional": p.optional}
                for p in self.parameters
            ],
            "fields": [
                {"name": f.name, "kind": f.kind, "type": f.type, "nullable": f.nullable}
                for f in self.fields
            ],
            "reads": [str(table) for table in self.reads],
            "writes": [str(table) for table in self.writes],
        }


def result_fields(columns: Iterable[reads.Column]) -> tuple[ResultField, ...]:
    return tuple(
        ResultField(c.name, _kind(c.value.type), str(c.value.type), c.value.nullable, c.value.type)
        for c in columns
    )


def _kind(kind: ex.ExpressionType) -> str:
    match kind:
        case ex.EntityType(entity):
            return entity.value
        case ex.PathType():
            return "path"
        case ListType():
            return "list"
        case VectorType():
            return "vector"
        case EnumType():
            return "enum"
        case _:
            return "scalar"


def tables_read(nodes: Iterable[Node]) -> tuple[TableKey, ...]:
    """Every table whose rows decide the answer."""
    found: set[TableKey] = set()
    for root in nodes:
        for node in walk(root):
            match node:
                case reads.NodeScan(_, variable):
                    found |= {node_table(name) for name in variable.types}
                case reads.Expand(_, source, steps, target):
                    found |= {node_table(name) for name in (*source.types, *target.types)}
                    found |= {edge_table(step.edge) for step in steps}
                case writes.Update(table) | writes.Delete(table):
                    found.add(table)
                case _:
                    pass
    return tuple(sorted(found))


def tables_written(statements: Iterable[writes.WriteOp], catalog: Catalog) -> tuple[TableKey, ...]:
    """Every table that may change; deleting nodes takes their edges along."""
    found: set[TableKey] = set()
    for statement in statements:
        match statement:
            case writes.Insert(table) | writes.Update(table):
                found.add(table)
            case writes.Delete(table):
                found |= _with_edges({table}, catalog)
            case writes.DeleteMatched(_, variables):
                tables = {
                    node_table(name) if v.kind is ex.VariableKind.NODE else edge_table(name)
                    for v in variables
                    for name in v.types
                }
                found |= _with_edges(tables, catalog)
    return tuple(sorted(found))


def _with_edges(tables: set[TableKey], catalog: Catalog) -> set[TableKey]:
    nodes = {table.type_name for table in tables if table.kind is EntityKind.NODE}
    touching = {
        edge_table(edge.name) for edge in catalog.edges if {edge.source, edge.target} & nodes
    }
    return tables | touching
