"""How deep the expressions of a query are, measured without recursion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from omnigraph.query import ast
from omnigraph.syntax.span import NO_SPAN, Span

# Every later pass walks expressions recursively; this keeps the deepest within Python's stack.
MAX_DEPTH = 100


def deepest(query: ast.Query) -> tuple[int, Span]:
    """The greatest number of nested syntax nodes, and where it was met."""
    best = (0, NO_SPAN)
    stack: list[tuple[object, int]] = [(query.body, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > best[0]:
            best = (depth, getattr(node, "span", best[1]))
        stack += [(child, depth + 1) for child in _children(node)]
    return best


def _children(node: object) -> Iterator[object]:
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if isinstance(value, tuple):
            yield from (item for item in value if is_dataclass(item))
        elif is_dataclass(value) and not isinstance(value, (Span, ast.Name)):
            yield value
