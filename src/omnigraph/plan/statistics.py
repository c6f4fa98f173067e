"""What the planner knows about a graph: how many entities of each type there are, roughly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.catalog.model import Catalog, Unique
from omnigraph.ir.expressions import Variable, VariableKind
from omnigraph.ir.reads import Direction, EdgeStep
from omnigraph.values.identifiers import TableKey, edge_table, node_table


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts rounded down to powers of two: a plan does not change with every commit."""

    catalog: Catalog
    counts: Mapping[TableKey, int]

    def rows_of(self, variable: Variable) -> int:
        """How many entities a variable may be bound to, at least 1."""
        table = node_table if variable.kind is VariableKind.NODE else edge_table
        return max(1, sum(self._count(table(name)) for name in variable.types))

    def per_node(self, step: EdgeStep) -> float:
        """Edges one node has on average, followed this way."""
        edge = self.catalog.edge_types[step.edge]
        count = self._count(edge_table(step.edge))
        out = count / max(1, self._count(node_table(edge.source)))
        into = count / max(1, self._count(node_table(edge.target)))
        match step.direction:
            case Direction.OUT:
                return out
            case Direction.IN:
                return into
            case Direction.BOTH:
                return out + into

    def is_name(self, variable: Variable, property_name: str) -> bool:
        """`id`, or the one property that is the key: it names at most one entity."""
        if property_name == "id":
            return True
        if variable.kind is not VariableKind.NODE or len(variable.types) != 1:
            return False
        return self.catalog.node_types[variable.types[0]].key == (property_name,)

    def is_unique(self, variable: Variable, property_name: str) -> bool:
        if self.is_name(variable, property_name):
            return True
        table = node_table if variable.kind is VariableKind.NODE else edge_table
        entities = [self.catalog.entity_type(table(name)) for name in variable.types]
        return all(
            any(isinstance(c, Unique) and c.properties == (property_name,) for c in e.constraints)
            for e in entities
        )

    def _count(self, key: TableKey) -> int:
        return self.counts.get(key, 0)


def rounded(count: int) -> int:
    """The largest power of two that is not larger; 0 stays 0."""
    return 1 << (count.bit_length() - 1) if count > 0 else 0
