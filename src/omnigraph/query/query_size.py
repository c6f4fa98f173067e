"""How deep and how long a query is, measured without recursion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from omnigraph.query import ast
from omnigraph.syntax.span import NO_SPAN, Span

# Later passes walk expressions and plans recursively; this keeps them within Python's stack.
MAX_DEPTH = 100
MAX_STEPS = 150

_STEPS = (ast.Binding, ast.Traversal, ast.Filter, ast.Negation, ast.OptionalBlock)
_RANKINGS = frozenset({"nearest", "bm25", "rrf"})


def deepest(query: ast.Query) -> tuple[int, Span]:
    """The greatest number of nested syntax nodes, and where it was met."""
    best = (0, NO_SPAN)
    for node, depth in _nodes(query):
        if depth > best[0]:
            best = (depth, getattr(node, "span", best[1]))
    return best


def steps(query: ast.Query) -> int:
    """How many operators the plan of a query will have at most, one behind the other."""
    count = 0
    for node, _ in _nodes(query):
        if isinstance(node, ast.Binding):
            count += len(node.matches)
        if isinstance(node, _STEPS) or (isinstance(node, ast.Call) and node.function in _RANKINGS):
            count += 1
    return count


def _nodes(query: ast.Query) -> Iterator[tuple[object, int]]:
    stack: list[tuple[object, int]] = [(query.body, 0)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack += [(child, depth + 1) for child in _children(node)]


def _children(node: object) -> Iterator[object]:
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if isinstance(value, tuple):
            yield from (item for item in value if is_dataclass(item))
        elif is_dataclass(value) and not isinstance(value, (Span, ast.Name)):
            yield value
