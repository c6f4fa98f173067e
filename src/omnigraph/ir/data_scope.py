"""The part of a graph that rules let an actor read or write: types, properties and rows.

A `DataScope` belongs to one catalog. Where code takes `DataScope | None`, None means everything.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from omnigraph.catalog.model import (
    Annotation,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    EntityType,
    InterfaceType,
    NodeType,
    Property,
    Range,
)
from omnigraph.ir.expressions import DATETIME, Constant, Expression, Function
from omnigraph.ir.walk import reads_clock, rewrite

_EMBED = "embed"


@dataclass(frozen=True, slots=True)
class TypeScope:
    """The part of one type: its properties without `hidden`, and the rows that `rows` keeps."""

    hidden: frozenset[str] = frozenset()
    rows: Expression | None = None
    """A predicate over `RowProperty`; a row is in scope when it is true. None: every row.

    It may read hidden properties. It depends on the row alone, so it has no parameters.
    """


@dataclass(frozen=True, slots=True)
class DataScope:
    """The types in scope by name; a type that is not listed is out of scope.

    An edge is in scope only if both of its ends are.
    """

    key: str
    """Equal for actors with equal rules, so caches may be shared by this key."""
    types: Mapping[str, TypeScope]
    is_momentary: bool = False
    """Its rules ask for the time, and it holds for one moment."""

    def rows_of(self, type_name: str) -> Expression | None:
        """The rule about the rows of a type in scope, without the rules about ends of edges."""
        return self.types[type_name].rows

    def may_hide_rows(self, entity: EntityType) -> bool:
        """Whether some rows of a type in scope can be out of scope."""
        names = [entity.name]
        if isinstance(entity, EdgeType):
            names += [entity.source, entity.target]
        return any(self.types[name].rows is not None for name in names)


def depends_on_time(scope: DataScope) -> bool:
    return any(t.rows is not None and reads_clock(t.rows) for t in scope.types.values())


def at_moment(scope: DataScope, moment: dt.datetime) -> DataScope:
    """The scope as it is at one moment: `now()` in its rules is this moment."""
    now = Constant(moment, DATETIME)

    def fixed(rule: Expression) -> Expression:
        return rewrite(rule, lambda node: now if _is_now(node) else node)

    types = {
        name: t if t.rows is None else replace(t, rows=fixed(t.rows))
        for name, t in scope.types.items()
    }
    return DataScope(f"{scope.key} at {moment.isoformat()}", types, is_momentary=True)


def _is_now(node: object) -> bool:
    return isinstance(node, Function) and node.name == "now"


def visible_catalog(catalog: Catalog, scope: DataScope) -> Catalog:
    """The catalog without types and properties that are out of scope, and without their names."""
    nodes = tuple(_visible_node(node, scope) for node in catalog.nodes if node.name in scope.types)
    ends = {node.name for node in nodes}
    edges = tuple(
        _visible_edge(edge, scope)
        for edge in catalog.edges
        if edge.name in scope.types and {edge.source, edge.target} <= ends
    )
    interfaces = tuple(
        _visible_interface(interface, types)
        for interface in catalog.interfaces
        if (types := [node for node in nodes if interface.name in node.implements])
    )
    return Catalog(nodes, edges, interfaces)


def _visible_node(node: NodeType, scope: DataScope) -> NodeType:
    hidden = scope.types[node.name].hidden
    return replace(
        node,
        properties=_visible_properties(node.properties, hidden),
        constraints=_visible_constraints(node.constraints, hidden),
    )


def _visible_edge(edge: EdgeType, scope: DataScope) -> EdgeType:
    hidden = scope.types[edge.name].hidden
    return replace(
        edge,
        properties=_visible_properties(edge.properties, hidden),
        constraints=_visible_constraints(edge.constraints, hidden),
    )


def _visible_interface(interface: InterfaceType, types: Iterable[NodeType]) -> InterfaceType:
    """A property of the interface that one of its visible types hides is hidden, too."""
    names = [{p.name for p in node.properties} for node in types]
    hidden = frozenset(
        p.name for p in interface.properties if any(p.name not in known for known in names)
    )
    return replace(
        interface,
        properties=_visible_properties(interface.properties, hidden),
        constraints=_visible_constraints(interface.constraints, hidden),
    )


def _visible_properties(
    properties: tuple[Property, ...], hidden: frozenset[str]
) -> tuple[Property, ...]:
    if not hidden:
        return properties
    return tuple(
        replace(p, annotations=tuple(a for a in p.annotations if not _embeds(a, hidden)))
        for p in properties
        if p.name not in hidden
    )


def _embeds(annotation: Annotation, sources: frozenset[str]) -> bool:
    """`@embed` names the property that a vector is made from."""
    return annotation.name == _EMBED and str(annotation.arguments[0]) in sources


def _visible_constraints(
    constraints: tuple[Constraint, ...], hidden: frozenset[str]
) -> tuple[Constraint, ...]:
    if not hidden:
        return constraints
    return tuple(c for c in constraints if hidden.isdisjoint(_named_by(c)))


def _named_by(constraint: Constraint) -> tuple[str, ...]:
    if isinstance(constraint, Range | Check):
        return (constraint.property,)
    return constraint.properties
