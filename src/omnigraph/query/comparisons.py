"""Comparisons of two typed expressions: which there are and what they become."""

from __future__ import annotations

from omnigraph.ir import expressions as ex
from omnigraph.query.conversions import DoesNotFit, comparable, constant_of, is_text
from omnigraph.values.scalars import ListType, ScalarType, ValueType


def compare(operator: str, left: ex.Expression, right: ex.Expression) -> ex.Expression:
    """A comparison of two typed expressions, or `DoesNotFit`."""
    nullable = left.nullable or right.nullable
    if operator == "in":
        return _membership(left, right)
    if isinstance(left.type, ListType) and operator == "contains":
        element: ValueType = ScalarType(left.type.element)
        return ex.Compare(operator, left, _like_element(right, element), nullable=nullable)
    if operator in ("contains", "starts_with"):
        if not is_text(left.type) or not is_text(right.type):
            raise DoesNotFit(f"{operator} works on strings, not on {left.type} and {right.type}")
        return ex.Compare(operator, left, right, nullable=nullable)
    if isinstance(left.type, ex.EntityType) and isinstance(right.type, ex.EntityType):
        return _same_entity(operator, left, right)
    left, right = comparable(left, right)
    if operator not in ("=", "!=") and isinstance(left.type, (ListType, ex.PathType)):
        raise DoesNotFit(f"{left.type} has no order")
    return ex.Compare(operator, left, right, nullable=nullable)


def _membership(operand: ex.Expression, collection: ex.Expression) -> ex.Expression:
    if not isinstance(collection.type, ListType):
        raise DoesNotFit(f"`in` needs a list, not {collection.type}")
    element = ScalarType(collection.type.element)
    if isinstance(operand, ex.Constant):
        operand = _like_element(operand, element)
    elif isinstance(collection, ex.Constant):
        collection = _items_like(operand, collection, element)
    else:
        comparable(operand, ex.ParameterRef("", element))
    nullable = operand.nullable or collection.nullable
    return ex.InList(operand, collection, nullable=nullable)


def _items_like(
    operand: ex.Expression, collection: ex.Constant, element: ScalarType
) -> ex.Expression:
    """A literal list with its items in the type of what is looked for."""
    items = [comparable(operand, ex.Constant(value, element))[1] for value in collection.value]
    constants = [item for item in items if isinstance(item, ex.Constant)]
    kinds = {constant.type for constant in constants}
    only = kinds.pop() if len(kinds) == 1 else None
    kind = only.kind if isinstance(only, ScalarType) else element.kind
    return ex.Constant(tuple(constant.value for constant in constants), ListType(kind))


def _like_element(value: ex.Expression, element: ValueType) -> ex.Expression:
    if isinstance(value, ex.Constant) and not isinstance(value.type, ex.NullType):
        return constant_of(value, element)
    comparable(ex.ParameterRef("", element), value)
    return value


def _same_entity(operator: str, left: ex.Expression, right: ex.Expression) -> ex.Expression:
    """`$a = $b`: the same node or edge, ids being unique only within a type."""
    assert isinstance(left, ex.Whole)
    assert isinstance(right, ex.Whole)
    shared = set(left.variable.types) & set(right.variable.types)
    if operator not in ("=", "!=") or not shared or left.variable.kind != right.variable.kind:
        raise DoesNotFit(f"{left.type} and {right.type} cannot be compared")
    nullable = left.nullable or right.nullable
    ids = [ex.PropertyOf(w.variable, "id", ex.STRING, w.nullable) for w in (left, right)]
    same: ex.Expression = ex.Compare("=", ids[0], ids[1], nullable=nullable)
    if len(left.variable.types) > 1 or len(right.variable.types) > 1:
        names = [ex.TypeName(w.variable, nullable=w.nullable) for w in (left, right)]
        same_type = ex.Compare("=", names[0], names[1], nullable=nullable)
        same = ex.And((same_type, same), nullable=nullable)
    return same if operator == "=" else ex.Not(same, nullable=nullable)
