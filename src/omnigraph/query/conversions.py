"""Which types fit together: comparisons, and expressions where another type is expected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from omnigraph.errors import InvalidArgument
from omnigraph.ir import expressions as ex
from omnigraph.values.coercion import coerce, round_to_f32
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    NUMERIC_KINDS,
    TEMPORAL_KINDS,
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

_U32 = ScalarType(ScalarKind.U32)


class DoesNotFit(Exception):
    """An expression does not fit the expected type; the text becomes part of a diagnostic.

    `argument` is the number of the argument of a call that does not fit, when it is one of several.
    """

    def __init__(self, reason: str, argument: int | None = None) -> None:
        super().__init__(reason)
        self.argument = argument


def is_numeric(kind: ex.ExpressionType) -> bool:
    return isinstance(kind, ScalarType) and kind.kind in NUMERIC_KINDS


def is_integer(kind: ex.ExpressionType) -> bool:
    return isinstance(kind, ScalarType) and kind.kind in INTEGER_KINDS


def is_temporal(kind: ex.ExpressionType) -> bool:
    return isinstance(kind, ScalarType) and kind.kind in TEMPORAL_KINDS


def is_text(kind: ex.ExpressionType) -> bool:
    return kind == ex.STRING or isinstance(kind, EnumType)


def is_orderable(kind: ex.ExpressionType) -> bool:
    return isinstance(kind, (ScalarType, EnumType))


def common_integer(items: Iterable[ex.Expression]) -> ScalarKind | None:
    """The type that holds all these integers: I64 or, if needed, U64; None when neither does."""
    items = tuple(items)
    if all(item.type != ex.U64 for item in items):
        return ScalarKind.I64
    never_negative = all(
        item.type in (_U32, ex.U64) or (isinstance(item, ex.Constant) and item.value >= 0)
        for item in items
    )
    return ScalarKind.U64 if never_negative else None


def comparable(left: ex.Expression, right: ex.Expression) -> tuple[ex.Expression, ex.Expression]:
    """Both sides of a comparison; a constant is converted to the type of the other side."""
    if isinstance(left.type, ex.NullType) or isinstance(right.type, ex.NullType):
        raise DoesNotFit("a comparison with null never matches")
    if isinstance(left, ex.Constant) and not isinstance(right, ex.Constant):
        return as_constant_like(left, right.type), right
    if isinstance(right, ex.Constant) and not isinstance(left, ex.Constant):
        return left, as_constant_like(right, left.type)
    if not _same_family(left.type, right.type):
        raise DoesNotFit(f"{left.type} and {right.type} cannot be compared")
    return left, right


def in_common(
    given: Sequence[ex.Expression],
) -> tuple[tuple[ex.Expression, ...], ex.ExpressionType]:
    """The expressions, and the type that all of their values convert to.

    Literals take the type of the others. A `DoesNotFit` has the number of the expression.
    """
    typed = [g for g in given if not isinstance(g.type, ex.NullType)]
    if not typed:
        raise DoesNotFit("one value must not be null")
    guide = min(typed, key=_weight_as_guide)
    fitting = tuple(_like_guide(guide, g, number) for number, g in enumerate(given))
    others = [g for g in fitting if not isinstance(g.type, ex.NullType)]
    kinds = {g.type for g in others}
    if len(kinds) == 1:
        return fitting, guide.type
    if not all(map(is_numeric, kinds)):
        return fitting, ex.STRING
    if not all(map(is_integer, kinds)):
        return fitting, ex.F64
    return fitting, ScalarType(common_integer(others) or ScalarKind.I64)


def _weight_as_guide(given: ex.Expression) -> int:
    """Values of the graph before literals, the empty list last, because it fits every list."""
    if not isinstance(given, ex.Constant):
        return 0
    return 2 if given.value == () else 1


def _like_guide(guide: ex.Expression, given: ex.Expression, number: int) -> ex.Expression:
    if given is guide or isinstance(given.type, ex.NullType):
        return given
    if isinstance(given, ex.Constant) and given.value == () and isinstance(guide.type, ListType):
        return replace(given, type=guide.type)
    try:
        return comparable(guide, given)[1]
    except DoesNotFit as reason:
        raise DoesNotFit(str(reason), number) from None


def as_constant_like(constant: ex.Constant, other: ex.ExpressionType) -> ex.Constant:
    """A literal in the type of the expression that it is compared with."""
    if is_numeric(constant.type) and is_numeric(other) and isinstance(other, ScalarType):
        return _number_like(constant, other)
    if isinstance(constant.type, ListType) and isinstance(other, ListType):
        return constant_of(constant, other)
    if isinstance(other, (ScalarType, EnumType)):
        converts = other.kind in TEMPORAL_KINDS if isinstance(other, ScalarType) else True
        if converts:
            return constant_of(constant, other)
    if not _same_family(constant.type, other):
        raise DoesNotFit(f"{other} and {constant.type} cannot be compared")
    return constant


def _number_like(constant: ex.Constant, other: ScalarType) -> ex.Constant:
    if other.kind is ScalarKind.F32:
        return ex.Constant(round_to_f32(float(constant.value)), other)
    if other.kind is ScalarKind.F64:
        return ex.Constant(float(constant.value), other)
    return constant  # an integer may be compared with 2.5, or with a number too large for its type


def _same_family(left: ex.ExpressionType, right: ex.ExpressionType) -> bool:
    if left == right:
        return not isinstance(left, (VectorType, BlobType))
    return (is_numeric(left) and is_numeric(right)) or (is_text(left) and is_text(right))


def constant_of(constant: ex.Constant, wanted: ValueType) -> ex.Constant:
    """A literal converted to exactly this type."""
    raw = list(constant.value) if isinstance(constant.value, tuple) else constant.value
    try:
        value = coerce(raw, wanted)
    except InvalidArgument as error:
        raise DoesNotFit(error.message) from None
    return ex.Constant(tuple(value) if isinstance(value, list) else value, wanted)


def stored_as(value: ex.Expression, wanted: ValueType) -> ex.Expression:
    """An expression as the value of a property; a `Convert` checks it at run time if needed."""
    if isinstance(value, ex.Constant):
        is_null = value.value is None
        return ex.Constant(None, wanted, nullable=True) if is_null else constant_of(value, wanted)
    if isinstance(value, ex.Case):
        return _case_stored_as(value, wanted)
    if isinstance(value, ex.ListOf) and isinstance(wanted, ListType):
        element = ScalarType(wanted.element)
        return replace(
            value, items=tuple(stored_as(item, element) for item in value.items), type=wanted
        )
    if value.type == wanted:
        return value
    if not _converts(value.type, wanted):
        raise DoesNotFit(f"{value.type} is not {wanted}")
    return ex.Convert(value, wanted, value.nullable)


def _case_stored_as(case: ex.Case, wanted: ValueType) -> ex.Expression:
    """Each value is converted in its branch, so that a branch that is not taken does not fail."""
    branches = tuple(
        replace(branch, value=stored_as(branch.value, wanted)) for branch in case.branches
    )
    otherwise = stored_as(case.otherwise, wanted)
    return replace(case, branches=branches, otherwise=otherwise, type=wanted)


def _converts(given: ex.ExpressionType, wanted: ValueType) -> bool:
    if is_text(given) and (is_text(wanted) or isinstance(wanted, BlobType)):
        return True
    if not isinstance(given, ScalarType) or not isinstance(wanted, ScalarType):
        return False
    to_float = wanted.kind in FLOAT_KINDS and given.kind in NUMERIC_KINDS
    return to_float or (wanted.kind in INTEGER_KINDS and given.kind in INTEGER_KINDS)


def compare(operator: str, left: ex.Expression, right: ex.Expression) -> ex.Expression:
    """The comparison of two typed expressions; raises `DoesNotFit`."""
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
    if isinstance(left.type, ex.WholeType) and isinstance(right.type, ex.WholeType):
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
    """A literal list with its items in the type of the operand."""
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
    """`$a = $b`: the same node or edge. Types are compared too, because ids are unique per type."""
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
