"""The meaning of names while a query is checked: parameters, variables and their types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraph.ir.expressions import ParameterRef, Variable, VariableKind
from omnigraph.syntax.diagnostics import Diagnostics
from omnigraph.syntax.source_text import Name

ANONYMOUS = "_"


@dataclass
class Scope:
    """The names of one block; a sub-block also sees the variables of the blocks around it."""

    catalog: Catalog
    parameters: dict[str, ParameterRef]
    found: Diagnostics
    outer: Scope | None = None
    variables: dict[str, Variable] = field(default_factory=dict)
    # Offset of the first appearance by variable id; tie-breaks follow this order.
    first_seen: dict[int, int] = field(default_factory=dict)
    # Names whose binding has an error; their use is not reported as another error.
    failed: set[str] = field(default_factory=set)
    # Names that a `not` or `exists` block binds for itself, with the word of the block.
    local: dict[str, str] = field(default_factory=dict)
    _ids: Iterator[int] = field(default_factory=count)

    def inner(self) -> Scope:
        return Scope(
            self.catalog,
            self.parameters,
            self.found,
            self,
            first_seen=self.first_seen,
            failed=self.failed,
            local=self.local,
            _ids=self._ids,
        )

    def find(self, name: str) -> Variable | None:
        found = self.variables.get(name)
        if found is None and self.outer is not None:
            return self.outer.find(name)
        return found

    def add(
        self, name: Name, kind: VariableKind, types: tuple[str, ...], nullable: bool
    ) -> Variable:
        variable = Variable(next(self._ids), name.text, kind, types, nullable)
        self.first_seen[variable.id] = name.span.start
        if name.text != ANONYMOUS:
            self.variables[name.text] = variable
        return variable

    def adopt(self, variable: Variable) -> None:
        """Make a variable of an optional block visible in this one."""
        self.variables[variable.name] = variable

    def visible_names(self) -> set[str]:
        names = set(self.variables) | set(self.parameters)
        return names | (self.outer.visible_names() if self.outer else set())


def property_of(catalog: Catalog, kind: VariableKind, type_name: str, name: str) -> Property | None:
    owner: NodeType | EdgeType = (
        catalog.node_types[type_name]
        if kind is VariableKind.NODE
        else catalog.edge_types[type_name]
    )
    return next((p for p in owner.properties if p.name == name), None)


def property_names(catalog: Catalog, kind: VariableKind, types: tuple[str, ...]) -> set[str]:
    """The properties that all types of a variable have, and `id`, `from`, `to`."""
    owners: list[NodeType | EdgeType] = (
        [catalog.node_types[t] for t in types]
        if kind is VariableKind.NODE
        else [catalog.edge_types[t] for t in types]
    )
    shared = [{p.name for p in owner.properties} for owner in owners]
    names = set[str].intersection(*shared) if shared else set()
    return names | ({"id", "from", "to"} if kind is VariableKind.EDGE else {"id"})
