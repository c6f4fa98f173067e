"""Checks expressions against scope and catalog: syntax in, typed expression or diagnostic out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from omnigraph.catalog.model import ENDPOINT_COLUMNS
from omnigraph.ir import expressions as ex
from omnigraph.query import ast, codes
from omnigraph.query.conversions import (
    DoesNotFit,
    common_integer,
    compare,
    in_common,
    is_integer,
    is_numeric,
    is_text,
)
from omnigraph.query.format import format_expression
from omnigraph.query.scope import Scope, property_names, property_of
from omnigraph.syntax.source_text import Name
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.scalars import (
    INTEGER_BOUNDS,
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    VectorType,
)

_FOREIGN_WORDS = {
    "where": "a filter is written in the match block without `where`",
    "like": "write `contains`, `starts_with` or `match_text($x.p, …)`",
    "between": "write `$x.p >= 1 and $x.p <= 3`",
    "exists": "write `exists { $x knows $y }`; a value is tested by `$x.p is not null`",
    "case": "write `case when … then … else … end`",
}

# Resolves a bare word: a column in `order`, a property of the row in a mutation.
NameResolver = Callable[[ast.NameExpr], ex.Expression | None]
CallChecker = Callable[["ExpressionChecker", ast.CallExpr], ex.Expression | None]
# Checks the block of an `exists`; there is none where no rows of a match block are tested.
ExistsChecker = Callable[[ast.ExistsExpr], ex.Expression | None]


class ExpressionChecker:
    """Checks the expressions of one block; None means that an error has been reported."""

    def __init__(
        self,
        scope: Scope,
        check_call: CallChecker,
        resolve_name: NameResolver | None = None,
        unknown_variable: str = codes.UNBOUND,
        check_exists: ExistsChecker | None = None,
    ) -> None:
        self.scope = scope
        self.found = scope.found
        self._check_call = check_call
        self._resolve_name = resolve_name
        self._unknown_variable = unknown_variable
        self._check_exists = check_exists

    def check(self, expression: ast.Expr) -> ex.Expression | None:
        """The typed expression; a blob is allowed only in `is null`."""
        checked = self.check_any(expression)
        if checked is not None and isinstance(checked.type, BlobType):
            self.found.error(
                codes.BLOB_VALUE,
                f"{format_expression(expression)} is a blob and cannot be used as a value",
                expression.span,
                "read it with `omnigraph blob get`; `is null` works here",
            )
            return None
        return checked

    def check_any(self, expression: ast.Expr) -> ex.Expression | None:
        check: Callable[[Any], ex.Expression | None] = getattr(self, _METHODS[type(expression)])
        return check(expression)

    def check_predicate(self, expression: ast.Expr) -> ex.Expression | None:
        """The typed expression of a condition."""
        checked = self.check(expression)
        if checked is None or checked.type == ex.BOOL:
            return checked
        if isinstance(checked.type, ex.NullType):
            return ex.Constant(None, ex.BOOL, nullable=True)
        self.found.error(
            codes.OPERAND_TYPES,
            f"{format_expression(expression)} is {checked.type}, a condition is needed",
            expression.span,
        )
        return None

    # --- leaves

    def literal(self, literal: ast.LiteralExpr) -> ex.Expression | None:
        match literal.value:
            case None:
                return ex.Constant(None, ex.NullType(), nullable=True)
            case bool():
                return ex.Constant(literal.value, ex.BOOL)
            case int():
                return self._integer(literal, literal.value)
            case float():
                return ex.Constant(literal.value, ex.F64)
            case str():
                return ex.Constant(literal.value, ex.STRING)

    def _integer(self, literal: ast.LiteralExpr, value: int) -> ex.Expression | None:
        for kind in (ScalarKind.I64, ScalarKind.U64):
            low, high = INTEGER_BOUNDS[kind]
            if low <= value <= high:
                return ex.Constant(value, ScalarType(kind))
        self.found.error(codes.OPERAND_TYPES, f"{value} fits no integer type", literal.span)
        return None

    def variable_ref(self, ref: ast.VariableExpr) -> ex.Expression | None:
        parameter = self.scope.parameters.get(ref.name)
        if parameter is not None:
            return parameter
        variable = self.scope.find(ref.name)
        if variable is None:
            self._unknown(Name(ref.name, ref.span))
            return None
        if variable.kind is ex.VariableKind.PATH:
            return ex.Whole(variable, ex.PathType(), variable.nullable)
        kind = ex.WholeType(variable.kind, variable.types)
        return ex.Whole(variable, kind, variable.nullable)

    def _unknown(self, name: Name) -> None:
        if name.text in self.scope.failed:
            return
        if self._unknown_variable == codes.MUTATION_VARIABLE:
            message = f"${name.text} is not a parameter of this query"
        else:
            message = f"${name.text} is not bound"
        if name.text == "_":
            message = "$_ matches anything and binds nothing"
        names = sorted(f"${known}" for known in self.scope.visible_names())
        block = self.scope.local.get(name.text)
        help_text = (
            did_you_mean(f"${name.text}", names)
            if block is None
            else f"only the block of `{block}` knows ${name.text}: move its use inside, or bind it "
            "outside, as `optional { … }` does"
        )
        self.found.error(self._unknown_variable, message, name.span, help_text)

    def name_ref(self, ref: ast.NameExpr) -> ex.Expression | None:
        if self._resolve_name is not None:
            return self._resolve_name(ref)
        usual = f"a property is read as `$x.{ref.name}`, a string is written in double quotes"
        self.found.error(
            codes.UNBOUND,
            f"'{ref.name}' is a bare word",
            ref.span,
            _FOREIGN_WORDS.get(ref.name, usual),
        )
        return None

    def property_ref(self, ref: ast.PropertyExpr) -> ex.Expression | None:
        variable = self.scope.find(ref.variable.text)
        if variable is None:
            if ref.variable.text in self.scope.failed:
                return None
            if ref.variable.text in self.scope.parameters:
                self.found.error(
                    codes.UNBOUND,
                    f"${ref.variable.text} is a parameter and has no properties",
                    ref.span,
                )
            else:
                self._unknown(ref.variable)
            return None
        name = ref.property.text
        if variable.kind is ex.VariableKind.PATH:
            self.found.error(
                codes.EDGE_BINDING,
                f"${variable.name} is a path and has no property '{name}'",
                ref.span,
                f"`length(${variable.name})` is its number of hops",
            )
            return None
        if name == "id":
            return ex.PropertyOf(variable, "id", ex.STRING, variable.nullable)
        if variable.kind is ex.VariableKind.EDGE and name in ENDPOINT_COLUMNS:
            return ex.PropertyOf(variable, ENDPOINT_COLUMNS[name], ex.STRING, variable.nullable)
        return self._stored(variable, ref)

    def _stored(self, variable: ex.Variable, ref: ast.PropertyExpr) -> ex.Expression | None:
        name = ref.property.text
        found = [
            property_of(self.scope.catalog, variable.kind, type_name, name)
            for type_name in variable.types
        ]
        missing = [t for t, p in zip(variable.types, found, strict=True) if p is None]
        declared = [p for p in found if p is not None]
        if missing or not declared:
            self.found.error(
                codes.UNBOUND,
                f"{' and '.join(missing) or 'nothing'} has no property '{name}'",
                ref.property.span,
                did_you_mean(
                    name, property_names(self.scope.catalog, variable.kind, variable.types)
                ),
            )
            return None
        types = {p.type for p in declared}
        if len(types) > 1:
            spelled = " and ".join(sorted(str(t) for t in types))
            self.found.error(
                codes.UNBOUND, f"'{name}' is {spelled} in different types", ref.property.span
            )
            return None
        nullable = variable.nullable or any(p.nullable for p in declared)
        return ex.PropertyOf(variable, name, declared[0].type, nullable)

    def list_expression(self, written: ast.ListExpr) -> ex.Expression | None:
        items = [self.check(item) for item in written.items]
        checked = [item for item in items if item is not None]
        if len(checked) != len(items):
            return None
        element = _common_element(checked)
        if element is None or any(isinstance(i.type, ex.NullType) for i in checked):
            self.found.error(
                codes.OPERAND_TYPES, "a list holds scalars of one type, and no null", written.span
            )
            return None
        if all(isinstance(item, ex.Constant) for item in checked):
            values = tuple(i.value for i in checked if isinstance(i, ex.Constant))
            if element is ScalarKind.F64:
                values = tuple(float(value) for value in values)
            return ex.Constant(values, ListType(element))
        return ex.ListOf(tuple(checked), ListType(element), any(i.nullable for i in checked))

    def call(self, call: ast.CallExpr) -> ex.Expression | None:
        return self._check_call(self, call)

    def exists(self, written: ast.ExistsExpr) -> ex.Expression | None:
        if self._check_exists is not None:
            return self._check_exists(written)
        in_mutation = self._unknown_variable == codes.MUTATION_VARIABLE
        self.found.error(
            codes.SHAPE,
            "`exists { … }` is a condition of a match block and cannot stand here",
            written.span,
            "test it with a query first; `match { $x: T  exists { … } } delete $x` deletes by a "
            "pattern"
            if in_mutation
            else "write it in `match { … }`; for a column, bind the variable in `optional { … }` "
            "and return `$x is not null`",
        )
        return None

    # --- operators

    def connective(self, written: ast.ConnectiveExpr) -> ex.Expression | None:
        operands = [self.check_predicate(operand) for operand in written.operands]
        checked = tuple(operand for operand in operands if operand is not None)
        if len(checked) != len(operands):
            return None
        node = ex.And if written.operator == "and" else ex.Or
        return node(checked, nullable=any(operand.nullable for operand in checked))

    def negation(self, written: ast.NotExpr) -> ex.Expression | None:
        operand = self.check_predicate(written.operand)
        return None if operand is None else ex.Not(operand, nullable=operand.nullable)

    def case_when(self, written: ast.CaseExpr) -> ex.Expression | None:
        conditions = [self.check_predicate(branch.condition) for branch in written.branches]
        places = [branch.value for branch in written.branches]
        places += [] if written.otherwise is None else [written.otherwise]
        values = [self.check(value) for value in places]
        tests = [condition for condition in conditions if condition is not None]
        checked = [value for value in values if value is not None]
        if len(tests) < len(conditions) or len(checked) < len(values):
            return None
        try:
            return _case(tests, checked)
        except DoesNotFit as reason:
            place = written if reason.argument is None else places[reason.argument]
            self.found.error(codes.OPERAND_TYPES, f"case: {reason}", place.span)
            return None

    def null_test(self, written: ast.NullTestExpr) -> ex.Expression | None:
        operand = self.check_any(written.operand)
        return None if operand is None else ex.IsNull(operand, written.negated)

    def negative(self, written: ast.NegativeExpr) -> ex.Expression | None:
        operand = self.check(written.operand)
        if operand is None:
            return None
        if not is_numeric(operand.type):
            self._operands(written, f"{operand.type} cannot be negated")
            return None
        kind = ex.I64 if is_integer(operand.type) else ex.F64
        return ex.Negative(operand, kind, operand.nullable)

    def arithmetic(self, written: ast.ArithmeticExpr) -> ex.Expression | None:
        left, right = self.check(written.left), self.check(written.right)
        if left is None or right is None:
            return None
        kind = _arithmetic_type(written.operator, left.type, right.type)
        if kind is None:
            self._operands(written, f"{left.type} {written.operator} {right.type} is not defined")
            return None
        return ex.Arithmetic(written.operator, left, right, kind, left.nullable or right.nullable)

    def comparison(self, written: ast.ComparisonExpr) -> ex.Expression | None:
        left, right = self.check(written.left), self.check(written.right)
        if left is None or right is None:
            return None
        try:
            return compare(written.operator, left, right)
        except DoesNotFit as reason:
            self._operands(written, str(reason))
            return None

    def _operands(self, written: ast.Expr, reason: str) -> None:
        help_text = None
        if "null never" in reason:
            help_text = "write `is null` or `is not null`"
        elif "DateTime" in reason and "Date " in f"{reason} ":
            help_text = "`date($x.moment)` is the day of a moment"
        self.found.error(
            codes.OPERAND_TYPES,
            f"{format_expression(written)}: {reason}",
            written.span,
            help_text,
        )


_METHODS: dict[type, str] = {
    ast.LiteralExpr: "literal",
    ast.VariableExpr: "variable_ref",
    ast.PropertyExpr: "property_ref",
    ast.NameExpr: "name_ref",
    ast.ListExpr: "list_expression",
    ast.CallExpr: "call",
    ast.NegativeExpr: "negative",
    ast.ArithmeticExpr: "arithmetic",
    ast.ComparisonExpr: "comparison",
    ast.NullTestExpr: "null_test",
    ast.NotExpr: "negation",
    ast.ConnectiveExpr: "connective",
    ast.CaseExpr: "case_when",
    ast.ExistsExpr: "exists",
}


def _case(conditions: list[ex.Expression], values: list[ex.Expression]) -> ex.Expression:
    """`values` has one value more than there are conditions when an `else` is written."""
    for number, value in enumerate(values):
        if isinstance(value.type, (ex.WholeType, ex.PathType, VectorType)):
            raise DoesNotFit(f"a value is a scalar or a list, not {value.type}", number)
    fitting, kind = _values_of_case(values)
    typed = [
        ex.Constant(None, kind, nullable=True) if isinstance(value.type, ex.NullType) else value
        for value in fitting
    ]
    otherwise = (
        typed[-1] if len(typed) > len(conditions) else ex.Constant(None, kind, nullable=True)
    )
    branches = tuple(
        ex.CaseWhen(condition, value) for condition, value in zip(conditions, typed, strict=False)
    )
    nullable = otherwise.nullable or any(branch.value.nullable for branch in branches)
    return ex.Case(branches, otherwise, kind, nullable)


def _values_of_case(
    values: list[ex.Expression],
) -> tuple[Sequence[ex.Expression], ex.ExpressionType]:
    """The values and their common type. An enum beside other texts is a text."""
    kinds = {value.type for value in values if not isinstance(value.type, ex.NullType)}
    if kinds and all(map(is_text, kinds)):
        return values, next(iter(kinds)) if len(kinds) == 1 else ex.STRING
    try:
        return in_common(values)
    except DoesNotFit as reason:
        if reason.argument is None:
            raise
        raise DoesNotFit(f"the values have no common type, {reason}", reason.argument) from None


def _arithmetic_type(
    operator: str, left: ex.ExpressionType, right: ex.ExpressionType
) -> ex.ExpressionType | None:
    if operator == "+" and is_text(left) and is_text(right):
        return ex.STRING
    if not is_numeric(left) or not is_numeric(right):
        return None
    if not is_integer(left) or not is_integer(right):
        return ex.F64
    return ex.U64 if ex.U64 in (left, right) else ex.I64


def _element_kind(kind: ex.ExpressionType) -> ScalarKind | None:
    if isinstance(kind, ScalarType):
        return kind.kind
    return ScalarKind.STRING if isinstance(kind, EnumType) else None


def _common_element(items: list[ex.Expression]) -> ScalarKind | None:
    kinds = {_element_kind(item.type) for item in items}
    if not kinds:
        return ScalarKind.STRING  # an empty list contains nothing, so its type does not matter
    if len(kinds) == 1:
        return next(iter(kinds))
    scalars = [kind for kind in kinds if kind is not None]
    if len(scalars) != len(kinds) or not all(is_numeric(ScalarType(kind)) for kind in scalars):
        return None
    integers = all(is_integer(ScalarType(kind)) for kind in scalars)
    return common_integer(items) if integers else ScalarKind.F64
