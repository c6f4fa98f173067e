"""Queries of an older state in the names of today.

A query is checked against a catalog that has the types and constraints of the older state under
today's names. Its plan is then translated to the names of the older state, which are those of the
stored columns. Types and properties are matched by identity.

A property that did not exist yet is NULL. A type that did not exist yet is unknown to the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from omnigraph.catalog.model import (
    ID,
    SOURCE,
    TARGET,
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
from omnigraph.errors import InvalidArgument
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import rewrite

_SYSTEM = (ID, SOURCE, TARGET)
_D = TypeVar("_D", NodeType, EdgeType)
_T = TypeVar("_T", NodeType, EdgeType, Property)


@dataclass(frozen=True, slots=True)
class NamesThen:
    """The names that an older state has for the names of today."""

    catalog: Catalog
    """The older state under today's names."""
    types: Mapping[str, str]
    """Today's name of a type -> its name then."""
    properties: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    """Today's names of a type and a property -> the name then; None if it did not exist."""

    def translate(self, plan: reads.ReadOp) -> reads.ReadOp:
        return rewrite(plan, self._node)

    def _node(self, node: Any) -> Any:
        """One node whose children are translated already; its own names are those of today."""
        match node:
            case ex.PropertyOf(variable, name, kind):
                then = self._property(variable.types, name)
                if then is None:
                    return ex.Constant(None, kind, nullable=True)
                node = replace(node, property=then)
            case ex.TextMatch() if not isinstance(node.field, ex.PropertyOf | ex.ColumnRef):
                return ex.Constant(None, ex.BOOL, nullable=True)  # the text is NULL
            case reads.Search(_, _, _, variable, name):
                then = self._property(variable.types, name)
                if then is None:
                    raise InvalidArgument(
                        f"{variable.types[0]}.{name} did not exist in that state, so nothing can "
                        "be ranked by it",
                        property=name,
                    )
                node = replace(node, property=then)
            case reads.Expand(_, _, steps):
                named = tuple(replace(s, edge=self.types.get(s.edge, s.edge)) for s in steps)
                node = replace(node, steps=named)
            case ex.TypeName(variable):
                return self._type_name(replace(node, variable=self._variable(variable)))
            case _:
                pass
        return self._with_variables(node)

    def _with_variables(self, node: Any) -> Any:
        updates: dict[str, Any] = {}
        for part in fields(node):
            value = getattr(node, part.name)
            new: Any = value
            if isinstance(value, ex.Variable):
                new = self._variable(value)
            elif isinstance(value, ex.WholeType):
                new = replace(value, types=self._types(value.types))
            elif isinstance(value, tuple) and any(isinstance(v, ex.Variable) for v in value):
                new = tuple(self._variable(v) if isinstance(v, ex.Variable) else v for v in value)
            if new != value:
                updates[part.name] = new
        return replace(node, **updates) if updates else node

    def _variable(self, variable: ex.Variable) -> ex.Variable:
        return replace(variable, types=self._types(variable.types))

    def _types(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.types.get(name, name) for name in names)

    def _type_name(self, node: ex.TypeName) -> ex.Expression:
        """`type($x)` with today's names."""
        now = {then: today for today, then in self.types.items()}
        branches = tuple(
            ex.CaseWhen(
                ex.Compare("=", node, ex.Constant(then, ex.STRING), nullable=node.nullable),
                ex.Constant(now[then], ex.STRING),
            )
            for then in node.variable.types
            if now.get(then, then) != then
        )
        if not branches:
            return node
        return ex.Case(branches, node, ex.STRING, nullable=node.nullable)

    def _property(self, types: Iterable[str], name: str) -> str | None:
        """The name then, which must be the same for all types of a variable that had it."""
        if name in _SYSTEM:
            return name
        found = {then for t in types if (then := self.properties.get((t, name), name)) is not None}
        if len(found) > 1:
            listed = ", ".join(sorted(found))
            raise InvalidArgument(
                f"{name!r} had several names in that state ({listed}): match one type at a time",
                property=name,
            )
        return next(iter(found), None)


def names_then(then: Catalog, now: Catalog) -> NamesThen:
    """How the names of `now` are spelled in the older state `then`."""
    types: dict[str, str] = {}
    for today in now.entity_types():
        old = _same(today, then.nodes) if isinstance(today, NodeType) else _same(today, then.edges)
        if old is not None:
            types[today.name] = old.name
    to_now = {old: today for today, old in types.items()}
    taken = {today.name for today in now.entity_types()}
    for old_type in then.entity_types():  # dropped since: under its old name, if that is free
        if old_type.name not in to_now and old_type.name not in taken:
            types[old_type.name] = to_now[old_type.name] = old_type.name
    properties: dict[tuple[str, str], str | None] = {}
    nodes = tuple(
        _under_new_names(node, now.node_types, to_now, properties)
        for node in then.nodes
        if node.name in to_now
    )
    kept: set[str | None] = {node.name for node in nodes}
    edges = tuple(
        replace(
            _under_new_names(edge, now.edge_types, to_now, properties),
            source=to_now[edge.source],
            target=to_now[edge.target],
        )
        for edge in then.edges
        if edge.name in to_now and {to_now.get(edge.source), to_now.get(edge.target)} <= kept
    )
    interfaces = tuple(_interface(i, nodes) for i in then.interfaces)
    return NamesThen(Catalog(nodes, edges, interfaces), types, properties)


def _interface(interface: InterfaceType, nodes: Iterable[NodeType]) -> InterfaceType:
    """The interface with properties that all of its types still have under these names."""
    types = [node for node in nodes if interface.name in node.implements]
    names = [{p.name for p in node.properties} for node in types]
    kept = tuple(p for p in interface.properties if all(p.name in known for known in names))
    return replace(interface, properties=kept, constraints=())


def _under_new_names(
    old: _D,
    today_by_name: Mapping[str, Any],
    to_now: Mapping[str, str],
    properties: dict[tuple[str, str], str | None],
) -> _D:
    name = to_now[old.name]
    today: EntityType | None = today_by_name.get(name)
    found: dict[str, Property] = {}
    renamed: dict[str, str] = {}
    for declared in today.properties if today is not None else ():
        then = _same(declared, old.properties)
        properties[name, declared.name] = then.name if then is not None else None
        if then is None:
            found[declared.name] = replace(declared, nullable=True, annotations=())
        else:
            renamed[then.name] = declared.name
            found[declared.name] = then
    for then in old.properties:  # dropped since: under its old name, if that is free
        if then.name not in renamed and then.name not in found:
            renamed[then.name] = then.name
            properties[name, then.name] = then.name
            found[then.name] = then
    return replace(
        old,
        name=name,
        properties=tuple(
            replace(p, name=now, annotations=_annotations(p.annotations, renamed))
            for now, p in found.items()
        ),
        constraints=tuple(
            made for c in old.constraints if (made := _constraint(c, renamed)) is not None
        ),
    )


def _constraint(constraint: Constraint, renamed: Mapping[str, str]) -> Constraint | None:
    """The constraint under new names; None if a name of it was taken by another property."""
    if isinstance(constraint, Range | Check):
        new = renamed.get(constraint.property)
        return None if new is None else replace(constraint, property=new)
    names = [name if name in _SYSTEM else renamed.get(name) for name in constraint.properties]
    known = tuple(name for name in names if name is not None)
    return replace(constraint, properties=known) if len(known) == len(names) else None


def _annotations(
    given: tuple[Annotation, ...], renamed: Mapping[str, str]
) -> tuple[Annotation, ...]:
    """`@embed` names its source property."""
    return tuple(
        replace(a, arguments=(renamed.get(str(a.arguments[0]), a.arguments[0]), *a.arguments[1:]))
        if a.name == "embed"
        else a
        for a in given
    )


def _same(today: _T, then: Iterable[_T]) -> _T | None:
    """The type or property with an identity of the one of today."""
    wanted = _identities(today)
    return next((other for other in then if wanted & _identities(other)), None)


def _identities(declared: NodeType | EdgeType | Property) -> set[str]:
    return {declared.identity, *declared.also}
