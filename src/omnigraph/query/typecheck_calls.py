"""The functions of the language, and checks of calls: scalar, text predicate, aggregate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.ir import expressions as ex
from omnigraph.query import ast, codes
from omnigraph.query.conversions import (
    DoesNotFit,
    constant_of,
    in_common,
    is_integer,
    is_numeric,
    is_orderable,
    is_temporal,
    is_text,
)
from omnigraph.query.typecheck_expressions import ExpressionChecker
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.regular_expressions import pattern_problem
from omnigraph.values.scalars import EnumType, ListType, ScalarKind, ScalarType, ValueType
from omnigraph.values.text_terms import MAX_EDITS


class FunctionKind(StrEnum):
    """What a function is; it decides where a call is allowed."""

    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    TEXT = "text predicate"
    RANKING = "ranking"


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """One function; `maximum` None: any number of arguments."""

    name: str
    kind: FunctionKind
    minimum: int
    maximum: int | None
    usage: str
    deterministic: bool = True


_ALL = (
    FunctionSignature(
        "count", FunctionKind.AGGREGATE, 0, 1, "count($x), count($x.p), count(distinct $x.p)"
    ),
    FunctionSignature("sum", FunctionKind.AGGREGATE, 1, 1, "sum($x.p)"),
    FunctionSignature("avg", FunctionKind.AGGREGATE, 1, 1, "avg($x.p)"),
    FunctionSignature("min", FunctionKind.AGGREGATE, 1, 1, "min($x.p)"),
    FunctionSignature("max", FunctionKind.AGGREGATE, 1, 1, "max($x.p)"),
    FunctionSignature("collect", FunctionKind.AGGREGATE, 1, 1, "collect($x.p)"),
    FunctionSignature("search", FunctionKind.TEXT, 2, 2, 'search($x.text, "words")'),
    FunctionSignature("fuzzy", FunctionKind.TEXT, 2, 3, 'fuzzy($x.text, "words", 1)'),
    FunctionSignature("match_text", FunctionKind.TEXT, 2, 2, 'match_text($x.text, "all words")'),
    FunctionSignature("nearest", FunctionKind.RANKING, 2, 2, "nearest($x.vector, $query)"),
    FunctionSignature("bm25", FunctionKind.RANKING, 2, 2, "bm25($x.text, $query)"),
    FunctionSignature("rrf", FunctionKind.RANKING, 1, None, "rrf(nearest(…), bm25(…), k=60)"),
    FunctionSignature("now", FunctionKind.SCALAR, 0, 0, "now()", deterministic=False),
    FunctionSignature("coalesce", FunctionKind.SCALAR, 1, None, "coalesce($x.p, 0)"),
    FunctionSignature("lower", FunctionKind.SCALAR, 1, 1, "lower($x.p)"),
    FunctionSignature("upper", FunctionKind.SCALAR, 1, 1, "upper($x.p)"),
    FunctionSignature("substring", FunctionKind.SCALAR, 2, 3, "substring($x.p, 1, 3)"),
    FunctionSignature("replace", FunctionKind.SCALAR, 3, 3, 'replace($x.p, "old", "new")'),
    FunctionSignature("split", FunctionKind.SCALAR, 2, 2, 'split($x.p, ",")'),
    FunctionSignature("trim", FunctionKind.SCALAR, 1, 2, 'trim($x.p), trim($x.p, "/")'),
    FunctionSignature("regex_match", FunctionKind.SCALAR, 2, 2, 'regex_match($x.p, "^a+$")'),
    FunctionSignature("length", FunctionKind.SCALAR, 1, 1, "length($x.p), length($path)"),
    FunctionSignature("abs", FunctionKind.SCALAR, 1, 1, "abs($x.p)"),
    FunctionSignature("round", FunctionKind.SCALAR, 1, 2, "round($x.p, 2)"),
    FunctionSignature("date", FunctionKind.SCALAR, 1, 1, 'date("2026-04-14"), date($x.moment)'),
    FunctionSignature("datetime", FunctionKind.SCALAR, 1, 1, 'datetime("2026-04-14T10:00:00Z")'),
    FunctionSignature("year", FunctionKind.SCALAR, 1, 1, "year($x.day)"),
    FunctionSignature("month", FunctionKind.SCALAR, 1, 1, "month($x.day)"),
    FunctionSignature("day", FunctionKind.SCALAR, 1, 1, "day($x.day)"),
    FunctionSignature("weekday", FunctionKind.SCALAR, 1, 1, "weekday($x.day), Monday is 1"),
    FunctionSignature("hour", FunctionKind.SCALAR, 1, 1, "hour($x.moment)"),
    FunctionSignature("minute", FunctionKind.SCALAR, 1, 1, "minute($x.moment)"),
    FunctionSignature("second", FunctionKind.SCALAR, 1, 1, "second($x.moment)"),
    FunctionSignature("type", FunctionKind.SCALAR, 1, 1, "type($x)"),
)

FUNCTIONS: dict[str, FunctionSignature] = {function.name: function for function in _ALL}

DATE_PARTS = frozenset({"year", "month", "day", "weekday"})
TIME_PARTS = frozenset({"hour", "minute", "second"})


def check_filter_call(checker: ExpressionChecker, call: ast.CallExpr) -> ex.Expression | None:
    """A call in a filter, where aggregates and rankings are not allowed."""
    function = known_function(checker, call)
    if function is FunctionKind.AGGREGATE:
        checker.found.error(
            codes.SHAPE,
            f"{call.function} has no groups to work on here",
            call.span,
            "filter aggregates with `where` after `return`",
        )
        return None
    if function is FunctionKind.RANKING:
        checker.found.error(
            RANKING_CODES[call.function],
            f"{call.function} ranks rows, it is not a condition",
            call.span,
            "use it in `order { … }` or return it as a column",
        )
        return None
    return None if function is None else check_plain_call(checker, call, function)


def check_plain_call(
    checker: ExpressionChecker, call: ast.CallExpr, kind: FunctionKind
) -> ex.Expression | None:
    if kind is FunctionKind.TEXT:
        return _text_match(checker, call)
    arguments = [checker.check(argument) for argument in call.arguments]
    checked = [argument for argument in arguments if argument is not None]
    if len(checked) != len(arguments):
        return None
    try:
        return _SCALARS[call.function](call.function, checked)
    except DoesNotFit as reason:
        checker.found.error(
            codes.OPERAND_TYPES,
            f"{call.function}: {reason}",
            call.span if reason.argument is None else call.arguments[reason.argument].span,
            f"write `{FUNCTIONS[call.function].usage}`",
        )
        return None


RANKING_CODES = {
    "nearest": codes.HOPS_OR_NEAREST,
    "bm25": codes.BM25_ARGUMENTS,
    "rrf": codes.RRF_LIMIT,
}
_ARGUMENT_CODES = {
    **RANKING_CODES,
    "search": codes.TEXT_ARGUMENTS,
    "fuzzy": codes.TEXT_ARGUMENTS,
    "match_text": codes.TEXT_ARGUMENTS,
}


_FOREIGN_FUNCTIONS = {
    "exists": "write `exists { $x knows $y }`; a value is tested by `$x.p is not null`",
}


def known_function(checker: ExpressionChecker, call: ast.CallExpr) -> FunctionKind | None:
    """The kind of the called function; None when it is unknown or its arguments are wrong."""
    function = FUNCTIONS.get(call.function)
    if function is None:
        checker.found.error(
            codes.SYNTAX,
            f"there is no function '{call.function}'",
            call.span,
            _FOREIGN_FUNCTIONS.get(call.function) or did_you_mean(call.function, FUNCTIONS),
        )
        return None
    number = len(call.arguments)
    wrong = number < function.minimum or (
        function.maximum is not None and number > function.maximum
    )
    is_count = call.function == "count"
    modified = call.distinct and function.kind is not FunctionKind.AGGREGATE
    if wrong or modified or (call.star and not is_count) or (call.options and number == 0):
        default = codes.AGGREGATE_OPERAND if call.star or call.distinct else codes.OPERAND_TYPES
        if function.kind is FunctionKind.AGGREGATE:
            default = codes.AGGREGATE_OPERAND
        checker.found.error(
            _ARGUMENT_CODES.get(call.function, default),
            f"wrong arguments for {call.function}",
            call.span,
            f"write `{function.usage}`",
        )
        return None
    if call.options and call.function != "rrf":
        checker.found.error(
            _ARGUMENT_CODES.get(call.function, codes.OPERAND_TYPES),
            f"{call.function} has no option '{call.options[0][0]}'",
            call.span,
        )
        return None
    return function.kind


# --- text predicates -----------------------------------------------------------------------


def text_field(
    checker: ExpressionChecker, call: ast.CallExpr, code: str
) -> tuple[ex.PropertyOf | ex.RowProperty, ex.Expression] | None:
    """The String property and the query text of a text predicate or `bm25`."""
    field, query = checker.check(call.arguments[0]), checker.check(call.arguments[1])
    if field is None or query is None:
        return None
    if not isinstance(field, ex.PropertyOf | ex.RowProperty) or field.type != ex.STRING:
        checker.found.error(
            code,
            f"{call.function} searches a String property",
            call.arguments[0].span,
            f"write `{FUNCTIONS[call.function].usage}`",
        )
        return None
    if not is_text(query.type) or not isinstance(query, (ex.Constant, ex.ParameterRef)):
        checker.found.error(
            code, f"{call.function} searches for a string or a parameter", call.arguments[1].span
        )
        return None
    return field, query


def _text_match(checker: ExpressionChecker, call: ast.CallExpr) -> ex.Expression | None:
    found = text_field(checker, call, codes.TEXT_ARGUMENTS)
    if found is None:
        return None
    field, query = found
    edits: ex.Expression | None = None
    if len(call.arguments) == 3:
        edits = _edits(checker, call.arguments[2])
        if edits is None:
            return None
    nullable = field.nullable or query.nullable
    return ex.TextMatch(call.function, field, query, edits, nullable=nullable)


def _edits(checker: ExpressionChecker, given: ast.Expr) -> ex.Expression | None:
    value = checker.check(given)
    if value is None:
        return None
    fits = isinstance(value, (ex.Constant, ex.ParameterRef)) and is_integer(value.type)
    if not fits or (isinstance(value, ex.Constant) and value.value not in range(MAX_EDITS + 1)):
        rule = f"edits are 0 to {MAX_EDITS}, as a literal or an integer parameter"
        checker.found.error(codes.TEXT_ARGUMENTS, rule, given.span)
        return None
    return value


# --- aggregates ----------------------------------------------------------------------------


def check_aggregate(checker: ExpressionChecker, call: ast.CallExpr) -> ex.Expression | None:
    if call.function == "count" and not call.arguments:
        if call.star:
            return ex.AggregateCall("count", None, False, ex.I64)
        _wrong_operand(checker, call, "an operand is needed: `count($x)` or `count(*)`")
        return None
    operand = checker.check(call.arguments[0])
    if operand is None:
        return None
    kind = _AGGREGATE_TYPES[call.function](operand.type)
    if kind is None:
        _wrong_operand(checker, call, f"it cannot work on {operand.type}")
        return None
    nullable = call.function not in ("count", "collect")
    return ex.AggregateCall(call.function, operand, call.distinct, kind, nullable)


def _wrong_operand(checker: ExpressionChecker, call: ast.CallExpr, reason: str) -> None:
    checker.found.error(
        codes.AGGREGATE_OPERAND,
        f"{call.function}: {reason}",
        call.span,
        f"write `{FUNCTIONS[call.function].usage}`",
    )


def _sum_type(kind: ex.ExpressionType) -> ex.ExpressionType | None:
    if not is_numeric(kind):
        return None
    return ex.I64 if is_integer(kind) else ex.F64


def _collect_type(kind: ex.ExpressionType) -> ex.ExpressionType | None:
    if isinstance(kind, ScalarType):
        return ListType(kind.kind)
    return ListType(ScalarKind.STRING) if isinstance(kind, EnumType) else None


_AGGREGATE_TYPES: dict[str, Callable[[ex.ExpressionType], ex.ExpressionType | None]] = {
    "count": lambda kind: None if isinstance(kind, ex.NullType) else ex.I64,
    "sum": _sum_type,
    "avg": lambda kind: ex.F64 if is_numeric(kind) else None,
    "min": lambda kind: kind if is_orderable(kind) else None,
    "max": lambda kind: kind if is_orderable(kind) else None,
    "collect": _collect_type,
}


# --- scalar functions ----------------------------------------------------------------------


def _need(fits: bool, what: str, given: ex.Expression, argument: int | None = None) -> None:
    if not fits:
        raise DoesNotFit(f"{what} is needed, not {given.type}", argument)


def _string_function(name: str, given: list[ex.Expression]) -> ex.Expression:
    return _of_texts(name, given, ex.STRING)


def _of_texts(name: str, given: list[ex.Expression], kind: ex.ExpressionType) -> ex.Expression:
    for number, text in enumerate(given):
        _need(is_text(text.type), "a String", text, number if len(given) > 1 else None)
    return ex.Function(name, tuple(given), kind, any(text.nullable for text in given))


def _substring(name: str, given: list[ex.Expression]) -> ex.Expression:
    _need(is_text(given[0].type), "a String", given[0], 0)
    for number, bound in enumerate(given[1:], 1):
        _need(is_integer(bound.type), "a whole number", bound, number)
        least = 1 if number == 1 else 0
        if isinstance(bound, ex.Constant) and bound.value < least:
            rule = "the first character is 1" if least else "a length is 0 or more"
            raise DoesNotFit(f"{rule}, not {bound.value}", number)
    nullable = any(argument.nullable for argument in given)
    return ex.Function(name, tuple(given), ex.STRING, nullable)


def _split(name: str, given: list[ex.Expression]) -> ex.Expression:
    return _of_texts(name, given, ListType(ScalarKind.STRING))


def _regex_match(name: str, given: list[ex.Expression]) -> ex.Expression:
    call = _of_texts(name, given, ex.BOOL)
    match given[1]:
        case ex.Constant(pattern):
            problem = pattern_problem(pattern)
            if problem is not None:
                raise DoesNotFit(f"this is not a regular expression: {problem}", 1)
        case ex.ParameterRef():
            pass  # its value is checked when it is bound
        case _:
            raise DoesNotFit("the pattern is a literal or a parameter", 1)
    return call


def _length(name: str, given: list[ex.Expression]) -> ex.Expression:
    kind = given[0].type
    _need(
        is_text(kind) or isinstance(kind, (ListType, ex.PathType)),
        "a String, list or path",
        given[0],
    )
    return ex.Function(name, tuple(given), ex.I64, given[0].nullable)


def _number_function(name: str, given: list[ex.Expression]) -> ex.Expression:
    _need(is_numeric(given[0].type), "a number", given[0])
    if len(given) > 1:
        _need(is_integer(given[1].type), "a whole number of digits", given[1])
    nullable = any(argument.nullable for argument in given)
    kind = ex.I64 if is_integer(given[0].type) else ex.F64
    return ex.Function(name, tuple(given), kind, nullable)


def _now(name: str, given: list[ex.Expression]) -> ex.Expression:
    return ex.Function(name, tuple(given), ex.DATETIME)


def _temporal(name: str, given: list[ex.Expression]) -> ex.Expression:
    wanted: ValueType = ex.DATE if name == "date" else ex.DATETIME
    value = given[0]
    if isinstance(value, ex.Constant) and not is_temporal(value.type):
        return constant_of(value, wanted)
    fits = is_temporal(value.type) or value.type == ex.STRING
    _need(fits, "a string or a moment" if name == "date" else "a string or a date", value)
    return ex.Function(name, (value,), wanted, value.nullable)


def _date_part(name: str, given: list[ex.Expression]) -> ex.Expression:
    value = given[0]
    if name in TIME_PARTS:
        _need(value.type == ex.DATETIME, "a DateTime", value)
    else:
        _need(is_temporal(value.type), "a Date or DateTime", value)
    return ex.Function(name, (value,), ex.I64, value.nullable)


def _coalesce(name: str, given: list[ex.Expression]) -> ex.Expression:
    arguments, kind = in_common(given)
    return ex.Function(name, arguments, kind, all(argument.nullable for argument in arguments))


def _type_name(_name: str, given: list[ex.Expression]) -> ex.Expression:
    value = given[0]
    if not isinstance(value, ex.Whole) or isinstance(value.type, ex.PathType):
        raise DoesNotFit("a node or edge variable is needed")
    return ex.TypeName(value.variable, nullable=value.nullable)


_SCALARS: dict[str, Callable[[str, list[ex.Expression]], ex.Expression]] = {
    "lower": _string_function,
    "upper": _string_function,
    "substring": _substring,
    "replace": _string_function,
    "split": _split,
    "trim": _string_function,
    "regex_match": _regex_match,
    "length": _length,
    "abs": _number_function,
    "round": _number_function,
    "now": _now,
    "date": _temporal,
    "datetime": _temporal,
    "coalesce": _coalesce,
    "type": _type_name,
    **dict.fromkeys(DATE_PARTS | TIME_PARTS, _date_part),
}
