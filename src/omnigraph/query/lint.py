"""Warnings about queries that compile but probably do not do what is meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import fields, is_dataclass

from omnigraph.catalog.model import Catalog, Index, NodeType, embedding_of
from omnigraph.ir.walk import variables_in
from omnigraph.query import ast, codes
from omnigraph.query.scope import ANONYMOUS
from omnigraph.query.typecheck import CheckedQuery, CheckedRead
from omnigraph.query.typecheck_calls import FUNCTIONS, FunctionKind
from omnigraph.query.typecheck_patterns import Pattern, mentioned
from omnigraph.syntax.diagnostics import Diagnostics
from omnigraph.syntax.source_text import Name, Span


def lint_queries(
    queries: Iterable[tuple[ast.Query, CheckedQuery | None]], catalog: Catalog, found: Diagnostics
) -> None:
    """All warnings of a file. A query with errors gets only the warnings that need no types."""
    pairs = list(queries)
    for query, checked in pairs:
        _unused_parameters(query, found)
        _hard_coded(query, found)
        if checked is not None:
            _unused_bindings(query, found)
            if isinstance(checked.body, CheckedRead):
                _cartesian(query, checked.body.pattern, found)
                _unindexed_searches(query, checked.body.pattern, catalog, found)
    _never_updated([query for query, _ in pairs], catalog, found)


def _nodes(root: object) -> Iterator[object]:
    """Every syntax node, parents first. The parser limits the depth, so recursion is safe."""
    yield root
    for field in fields(root):  # type: ignore[arg-type]
        value = getattr(root, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if is_dataclass(item) and not isinstance(item, Span):
                yield from _nodes(item)


def _unused_parameters(query: ast.Query, found: Diagnostics) -> None:
    used = {node.name for node in _nodes(query.body) if isinstance(node, ast.VariableExpr)}
    for parameter in query.parameters:
        if parameter.name.text not in used:
            found.warning(
                codes.UNUSED_PARAMETER,
                f"parameter ${parameter.name.text} is never used",
                parameter.name.span,
            )


def _hard_coded(query: ast.Query, found: Diagnostics) -> None:
    if isinstance(query.body, ast.MutationBody) and not query.parameters:
        found.warning(
            codes.HARD_CODED,
            f"mutation '{query.name.text}' takes no parameters: it does the same thing every time",
            query.name.span,
            "pass the values as parameters",
        )


def _unused_bindings(query: ast.Query, found: Diagnostics) -> None:
    bound: dict[str, Span] = {}
    times: dict[str, int] = {}
    matched: set[str] = set()
    for node in _nodes(query.body):
        if isinstance(node, ast.BindingClause) and node.matches:
            matched.add(node.variable.text)
        for written in _bound_by(node):
            bound.setdefault(written.text, written.span)
        for name in [*(n.text for n in _bound_by(node)), *_used_by(node)]:
            times[name] = times.get(name, 0) + 1
    if len(bound) < 2:
        return  # `match { $p: Person } return { count(*) }` needs its one binding
    for name, span in bound.items():
        if times[name] == 1 and name not in matched and name != ANONYMOUS:
            found.warning(
                codes.UNUSED_BINDING,
                f"${name} is bound and never used",
                span,
                "an end that does not matter is written `$_`",
            )


def _bound_by(node: object) -> list[Name]:
    match node:
        case ast.BindingClause(variable):
            return [variable]
        case ast.TraversalClause(source, edge, target, path):
            return [n for n in (path, source, edge.variable, target) if n is not None]
        case _:
            return []


def _used_by(node: object) -> list[str]:
    match node:
        case ast.PropertyExpr(variable):
            return [variable.text]
        case ast.VariableExpr(name):
            return [name]
        case ast.MatchDeleteStatement(_, variables):
            return [variable.text for variable in variables]
        case _:
            return []


def _cartesian(query: ast.Query, pattern: Pattern, found: Diagnostics) -> None:
    """Warn when the node variables form groups that no hop, filter or sub-block connects."""
    groups = [{node.id} for node in pattern.nodes]
    links: list[Set[int]] = [{hop.source.id, hop.target.id} for hop in pattern.hops]
    for predicate in pattern.filters:
        tested = [mentioned(block.pattern) for block in pattern.blocks_in(predicate)]
        links.append(variables_in([predicate]).union(*tested))
    links += [mentioned(inner) for inner in (*pattern.optionals, *pattern.negations)]
    for link in links:
        touched = [group for group in groups if group & link]
        if len(touched) > 1:
            groups = [group for group in groups if not group & link]
            groups.append(set[int]().union(*touched))
    if len(groups) < 2:
        return
    names = {node.id: node.name for node in pattern.nodes}
    sides = sorted(min(group) for group in groups)
    listed = " and ".join(f"${names[side]}" for side in sides)
    found.warning(
        codes.CARTESIAN,
        f"nothing connects {listed}: every row of one meets every row of the other",
        query.name.span,
        "connect them with a hop or a condition, or use two queries",
    )


def _unindexed_searches(
    query: ast.Query, pattern: Pattern, catalog: Catalog, found: Diagnostics
) -> None:
    types = {variable.name: variable.types for variable in pattern.introduced()}
    for call in _nodes(query.body):
        field = _searched(call)
        if field is None:
            continue
        for name in types.get(field.variable.text, ()):
            owner = catalog.node_types.get(name)
            if owner is not None and not _is_indexed(owner, field.property.text):
                found.warning(
                    codes.UNINDEXED_SEARCH,
                    f"{owner.name}.{field.property.text} has no index: every row is read",
                    field.span,
                    f"write `{field.property.text}: … @index` in the schema",
                )


def _searched(node: object) -> ast.PropertyExpr | None:
    """The property that a text predicate or ranking searches."""
    if not isinstance(node, ast.CallExpr) or not node.arguments:
        return None
    function = FUNCTIONS.get(node.function)
    is_search = function is not None and function.kind in (FunctionKind.TEXT, FunctionKind.RANKING)
    field = node.arguments[0]
    return field if is_search and isinstance(field, ast.PropertyExpr) else None


def _is_indexed(owner: NodeType, name: str) -> bool:
    return any(isinstance(c, Index) and name in c.properties for c in owner.constraints)


def _never_updated(queries: list[ast.Query], catalog: Catalog, found: Diagnostics) -> None:
    """Checked only for types that the file updates, because others may be updated elsewhere."""
    updates = [
        node for query in queries for node in _nodes(query) if isinstance(node, ast.UpdateStatement)
    ]
    first: dict[str, ast.UpdateStatement] = {}
    assigned: dict[str, set[str]] = {}
    for update in updates:
        first.setdefault(update.type.text, update)
        names = assigned.setdefault(update.type.text, set())
        names |= {assignment.name.text for assignment in update.assignments}
    for type_name, update in first.items():
        owner = catalog.node_types.get(type_name)
        for declared in owner.properties if owner else ():
            written = declared.name in assigned[type_name] or embedding_of(declared) is not None
            if declared.nullable and not written:
                found.warning(
                    codes.NEVER_UPDATED,
                    f"no update ever sets {type_name}.{declared.name}, which is nullable",
                    update.type.span,
                )
