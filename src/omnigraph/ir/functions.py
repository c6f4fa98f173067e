"""The function registry: what a query may call, with how many arguments, and what it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FunctionKind(StrEnum):
    """Where a function may stand."""

    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    TEXT = "text predicate"
    RANKING = "ranking"


@dataclass(frozen=True, slots=True)
class Function:
    """One function. `maximum` None takes any number of arguments."""

    name: str
    kind: FunctionKind
    minimum: int
    maximum: int | None
    usage: str
    deterministic: bool = True


_ALL = (
    Function("count", FunctionKind.AGGREGATE, 0, 1, "count($x), count($x.p), count(distinct $x.p)"),
    Function("sum", FunctionKind.AGGREGATE, 1, 1, "sum($x.p)"),
    Function("avg", FunctionKind.AGGREGATE, 1, 1, "avg($x.p)"),
    Function("min", FunctionKind.AGGREGATE, 1, 1, "min($x.p)"),
    Function("max", FunctionKind.AGGREGATE, 1, 1, "max($x.p)"),
    Function("collect", FunctionKind.AGGREGATE, 1, 1, "collect($x.p)"),
    Function("search", FunctionKind.TEXT, 2, 2, 'search($x.text, "words")'),
    Function("fuzzy", FunctionKind.TEXT, 2, 3, 'fuzzy($x.text, "words", 1)'),
    Function("match_text", FunctionKind.TEXT, 2, 2, 'match_text($x.text, "all words")'),
    Function("nearest", FunctionKind.RANKING, 2, 2, "nearest($x.vector, $query)"),
    Function("bm25", FunctionKind.RANKING, 2, 2, "bm25($x.text, $query)"),
    Function("rrf", FunctionKind.RANKING, 1, None, "rrf(nearest(…), bm25(…), k=60)"),
    Function("now", FunctionKind.SCALAR, 0, 0, "now()", deterministic=False),
    Function("coalesce", FunctionKind.SCALAR, 1, None, "coalesce($x.p, 0)"),
    Function("lower", FunctionKind.SCALAR, 1, 1, "lower($x.p)"),
    Function("upper", FunctionKind.SCALAR, 1, 1, "upper($x.p)"),
    Function("length", FunctionKind.SCALAR, 1, 1, "length($x.p), length($path)"),
    Function("abs", FunctionKind.SCALAR, 1, 1, "abs($x.p)"),
    Function("round", FunctionKind.SCALAR, 1, 2, "round($x.p, 2)"),
    Function("date", FunctionKind.SCALAR, 1, 1, 'date("2026-04-14"), date($x.moment)'),
    Function("datetime", FunctionKind.SCALAR, 1, 1, 'datetime("2026-04-14T10:00:00Z")'),
    Function("year", FunctionKind.SCALAR, 1, 1, "year($x.day)"),
    Function("month", FunctionKind.SCALAR, 1, 1, "month($x.day)"),
    Function("day", FunctionKind.SCALAR, 1, 1, "day($x.day)"),
    Function("weekday", FunctionKind.SCALAR, 1, 1, "weekday($x.day), Monday is 1"),
    Function("hour", FunctionKind.SCALAR, 1, 1, "hour($x.moment)"),
    Function("minute", FunctionKind.SCALAR, 1, 1, "minute($x.moment)"),
    Function("second", FunctionKind.SCALAR, 1, 1, "second($x.moment)"),
    Function("type", FunctionKind.SCALAR, 1, 1, "type($x)"),
)

FUNCTIONS: dict[str, Function] = {function.name: function for function in _ALL}

DATE_PARTS = frozenset({"year", "month", "day", "weekday"})
TIME_PARTS = frozenset({"hour", "minute", "second"})
