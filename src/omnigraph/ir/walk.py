"""Traversal and bottom-up rewriting of every kind of IR node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar, get_args

from omnigraph.ir.expressions import (
    And,
    CaseWhen,
    Expression,
    Function,
    PropertyOf,
    TypeName,
    Whole,
)
from omnigraph.ir.reads import (
    AntiJoin,
    Column,
    ExistsFilter,
    NamedPattern,
    Optional,
    ReadOp,
    SemiJoin,
    SortKey,
)
from omnigraph.ir.writes import Assignment, WriteOp

Node = Expression | ReadOp | WriteOp | CaseWhen | Column | SortKey | NamedPattern | Assignment
_NODES: tuple[type, ...] = (
    *get_args(Expression),
    *get_args(ReadOp),
    *get_args(WriteOp),
    CaseWhen,
    Column,
    SortKey,
    NamedPattern,
    Assignment,
)
_N = TypeVar("_N", bound=Node)


def children(node: Node) -> Iterator[Node]:
    """The direct children, in the order of the fields: inputs before expressions."""
    for field in fields(node):
        value: Any = getattr(node, field.name)
        if isinstance(value, tuple):
            yield from (item for item in value if _is_node(item))
        elif _is_node(value):
            yield value


def walk(node: Node) -> Iterator[Node]:
    """This node and all nodes inside it, parents first."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack += reversed(list(children(current)))


def reads_clock(node: Node) -> bool:
    """Whether the value depends on the time: it calls `now()`."""
    return any(isinstance(part, Function) and part.name == "now" for part in walk(node))


def variables_in(expressions: Iterable[Expression]) -> frozenset[int]:
    """Ids of the variables that the expressions read."""
    return frozenset(
        node.variable.id
        for expression in expressions
        for node in walk(expression)
        if isinstance(node, PropertyOf | Whole | TypeName)
    )


def conjuncts_of(predicate: Expression) -> tuple[Expression, ...]:
    """The operands of a conjunction, nested ones included."""
    if isinstance(predicate, And):
        return tuple(part for operand in predicate.operands for part in conjuncts_of(operand))
    return (predicate,)


def inner_patterns(op: Any) -> tuple[NamedPattern, ...]:
    """The sub-patterns of an operator. Only those of an ExistsFilter have a name."""
    match op:
        case AntiJoin(_, pattern) | SemiJoin(_, pattern) | Optional(_, pattern):
            return (NamedPattern("", pattern),)
        case ExistsFilter(_, patterns):
            return patterns
        case _:
            return ()


def map_patterns(op: Any, change: Callable[[Any], Any]) -> Any:
    """A copy with `change` applied to every sub-pattern, but not to the input."""
    match op:
        case AntiJoin(_, pattern) | SemiJoin(_, pattern) | Optional(_, pattern):
            return replace(op, pattern=change(pattern))
        case ExistsFilter(_, patterns):
            changed = tuple(replace(inner, pattern=change(inner.pattern)) for inner in patterns)
            return replace(op, patterns=changed)
        case _:
            return op


def map_children(node: _N, change: Callable[[Any], Any]) -> _N:
    """A copy with `change` applied to every direct child."""
    updates: dict[str, Any] = {}
    for field in fields(node):
        value: Any = getattr(node, field.name)
        new: Any = value
        if isinstance(value, tuple):
            new = tuple(change(item) if _is_node(item) else item for item in value)
        elif _is_node(value):
            new = change(value)
        if new != value:
            updates[field.name] = new
    changed: Any = replace(node, **updates) if updates else node
    return changed  # type: ignore[no-any-return]


def rewrite(node: _N, change: Callable[[Any], Any]) -> _N:
    """A copy with `change` applied to every node, children first."""
    return change(map_children(node, lambda child: rewrite(child, change)))  # type: ignore[no-any-return]


def _is_node(value: object) -> bool:
    return isinstance(value, _NODES)
