"""Every comparison that storage may judge, against a plain evaluation in Python.

A predicate goes the whole way: expression -> conditions -> Lance's SQL -> rows of a real dataset,
by a scan, by an index, and by an index that covers a part of the rows. The executor judges the same
predicate. What storage must not judge is listed as well.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.ir import expressions as ex
from omnigraph.ir.storage_conditions import conditions_of, may_have_condition
from omnigraph.lance_store.reads.filters import any_of, have_literals, lance_filter
from omnigraph.mutate.row_search import over_rows
from omnigraph.values.arrow_types import arrow_type
from omnigraph.values.conditions import LONGEST_LIST, Condition
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TEXTS = [
    "",
    "a",
    "A",
    "it's",
    "''",
    "x') OR ('1'='1",
    '"',
    "`",
    "\\",
    "\\'",
    "%_",
    "-- ?$1{}",
    "a\nb\tc",
    "\0",
    "é",
    "e\u0301",
    "ß",
    "\ufffd",
    "\U0001d518",
    "\U0010ffff",
]
DAYS = [
    dt.date(1, 1, 1),
    dt.date(1582, 10, 4),
    dt.date(1969, 12, 31),
    dt.date(1970, 1, 1),
    dt.date(2024, 2, 29),
    dt.date(9999, 12, 31),
]
# Nanoseconds of 64 bits, which Lance reads a literal into first, end in 1677 and in 2262.
MOMENTS = [
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1677, 9, 21, 0, 12, 43, 145000, dt.UTC),
    dt.datetime(1677, 9, 21, 0, 12, 43, 146000, dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999000, dt.UTC),
    dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 2, 29, 1, 2, 3, 4000, dt.UTC),
    dt.datetime(2262, 4, 11, 23, 47, 16, 854000, dt.UTC),
    dt.datetime(2262, 4, 11, 23, 47, 16, 855000, dt.UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999000, dt.UTC),
]
EXACT: dict[str, tuple[ValueType, list[Any]]] = {
    "String": (ScalarType(ScalarKind.STRING), TEXTS),
    "enum": (EnumType(("done", "in-work", "it's")), ["done", "in-work", "it's", "none"]),
    "Bool": (ScalarType(ScalarKind.BOOL), [False, True]),
    "I32": (ScalarType(ScalarKind.I32), [-(2**31), 1 - 2**31, -1, 0, 1, 2**24 + 1, 2**31 - 1]),
    "U32": (ScalarType(ScalarKind.U32), [0, 1, 2**24 + 1, 2**31, 2**32 - 1]),
    "I64": (
        ScalarType(ScalarKind.I64),
        [
            *(-(2**63), 1 - 2**63, -(2**53) - 1, -(2**53), -1, 0, 1),
            *(2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1),
        ],
    ),
    "U64": (
        ScalarType(ScalarKind.U64),
        [0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1],
    ),
    "Date": (ScalarType(ScalarKind.DATE), DAYS),
    "DateTime": (ScalarType(ScalarKind.DATETIME), MOMENTS),
}
F32_VALUES = [-0.0, 0.0, 1e-45, 0.10000000149011612, 16777216.0, 3.4028234663852886e38]
F64_VALUES = [-0.0, 0.0, 5e-324, 0.1, 1 / 3, float(2**53), 1e22, 1.7976931348623157e308]
NOT_FINITE = [math.nan, math.inf, -math.inf]
FLOATS: dict[str, tuple[ValueType, list[Any]]] = {
    "F32": (ScalarType(ScalarKind.F32), F32_VALUES + NOT_FINITE),
    "F64": (ScalarType(ScalarKind.F64), F64_VALUES + NOT_FINITE),
}
VARIABLE = ex.Variable(0, "n", ex.VariableKind.NODE, ("N",))


def columns(kind: ex.ExpressionType) -> list[ex.PropertyOf | ex.RowProperty]:
    """As a query and as a mutation name it."""
    return [ex.PropertyOf(VARIABLE, "v", kind), ex.RowProperty("v", kind)]


def given(value: Any, kind: ex.ExpressionType) -> list[tuple[ex.Expression, Evaluator]]:
    """As a constant and as a parameter, with the evaluator that knows the latter."""
    return [
        (ex.Constant(value, kind), Evaluator({}, 0)),
        (ex.ParameterRef("p", kind), Evaluator({"p": value}, 0)),
    ]


def comparisons(
    kind: ex.ExpressionType, value: Any, other: ex.ExpressionType | None = None
) -> Iterator[tuple[str, bool, ex.Expression, Evaluator]]:
    """(operator, whether the value stands before it, predicate, evaluator), in every way."""
    for sign, column, (constant, evaluator) in product(
        OPERATORS, columns(kind), given(value, other or kind)
    ):
        yield sign, False, ex.Compare(sign, column, constant), evaluator
        yield sign, True, ex.Compare(sign, constant, column), evaluator


class Stored:
    """One column with every edge value of its type and a NULL, in two fragments."""

    def __init__(self, folder: Path, kind: ValueType, values: list[Any], index: str) -> None:
        self.values = [*values, None]
        self.table = pa.table(
            {"row": range(len(self.values)), "v": pa.array(self.values, arrow_type(kind))}
        )
        half = len(values) // 2
        self.dataset = lance.write_dataset(self.table.slice(0, half), folder / "t.lance")
        if index == "half an index":
            self.dataset.create_scalar_index("v", "BTREE")
        self.dataset = lance.write_dataset(
            self.table.slice(half), folder / "t.lance", mode="append"
        )
        if index == "index":
            self.dataset.create_scalar_index("v", "BTREE")
        self.found: dict[tuple[Condition, ...], set[int]] = {}

    def by_storage(self, conditions: tuple[Condition, ...]) -> set[int]:
        """Rows that storage finds; each filter is asked once."""
        if conditions not in self.found:
            text = lance_filter(conditions)
            rows = self.dataset.scanner(columns=["row"], filter=text).to_table()
            self.found[conditions] = {*rows["row"].to_pylist()}
        return self.found[conditions]

    def by_executor(self, predicate: ex.Expression, evaluator: Evaluator) -> set[int]:
        found = over_rows(as_row_properties(predicate)).true_rows(self.table, evaluator)
        return {*found["row"].to_pylist()}

    def by_python(self, holds: Callable[[Any], bool]) -> set[int]:
        return {n for n, value in enumerate(self.values) if value is not None and holds(value)}


def as_row_properties(predicate: Any) -> Any:
    """The evaluator judges tables by row properties; queries name entities instead."""
    names = [f for f in ("left", "right", "operand") if hasattr(predicate, f)]
    changed = {
        name: ex.RowProperty(found.property, found.type)
        for name in names
        if isinstance(found := getattr(predicate, name), ex.PropertyOf)
    }
    return replace(predicate, **changed) if changed else predicate


@pytest.fixture(params=["scan", "index", "half an index"])
def index(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def in_order(value: Any) -> Any:
    """Texts are ordered by their UTF-8 bytes."""
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("name", EXACT)
def test_comparisons(tmp_path: Path, name: str, index: str) -> None:
    kind, values = EXACT[name]
    stored = Stored(tmp_path, kind, values, index)
    for value in values:
        for sign, flipped, predicate, evaluator in comparisons(kind, value):
            conditions = conditions_of([predicate], evaluator.plain)
            assert len(conditions) == 1, predicate
            holds = OPERATORS[sign]

            def expected(
                found: Any, holds: Any = holds, value: Any = value, flipped: bool = flipped
            ) -> bool:
                pair = (in_order(found), in_order(value))
                return bool(holds(*reversed(pair)) if flipped else holds(*pair))

            rows = stored.by_python(expected)
            assert stored.by_storage(conditions) == rows, (predicate, conditions)
            assert stored.by_executor(predicate, evaluator) == rows, predicate


@pytest.mark.parametrize("name", EXACT)
def test_lists(tmp_path: Path, name: str, index: str) -> None:
    kind, values = EXACT[name]
    element = kind.kind if isinstance(kind, ScalarType) else ScalarKind.STRING
    stored = Stored(tmp_path, kind, values, index)
    lists = [[], values, values[:1], values[-1:], values[::2], values[:1] * 2]
    for listed, column in product(lists, columns(kind)):
        for collection, evaluator in given(tuple(listed), ListType(element)):
            predicate = ex.InList(column, collection)
            conditions = conditions_of([predicate], evaluator.plain)
            assert len(conditions) == 1
            rows = stored.by_python(lambda value, listed=listed: value in listed)
            assert stored.by_storage(conditions) == rows, conditions
            assert stored.by_executor(predicate, evaluator) == rows


@pytest.mark.parametrize("name", [*EXACT, *FLOATS])
def test_null(tmp_path: Path, name: str, index: str) -> None:
    kind, values = (EXACT | FLOATS)[name]
    stored = Stored(tmp_path, kind, values, index)
    for negated, column in product((False, True), columns(kind)):
        predicate = ex.IsNull(column, negated)
        conditions = conditions_of([predicate], Evaluator({}, 0).plain)
        rows = {n for n, value in enumerate(stored.values) if (value is None) != negated}
        assert stored.by_storage(conditions) == rows
        assert stored.by_executor(predicate, Evaluator({}, 0)) == rows


@pytest.mark.parametrize("name", EXACT)
def test_nothing_compares_with_null(tmp_path: Path, name: str) -> None:
    kind, values = EXACT[name]
    stored = Stored(tmp_path, kind, values, "scan")
    element = kind.kind if isinstance(kind, ScalarType) else ScalarKind.STRING
    predicates = [(p, e) for _, _, p, e in comparisons(kind, None)]
    predicates += [
        (ex.InList(column, collection), evaluator)
        for column, (collection, evaluator) in product(
            columns(kind), given(None, ListType(element))
        )
    ]
    for predicate, evaluator in predicates:
        conditions = conditions_of([predicate], evaluator.plain)
        assert conditions == (Condition("v", "in"),)
        assert stored.by_storage(conditions) == set()
        assert stored.by_executor(predicate, evaluator) == set()
    untyped = ex.Compare("=", ex.RowProperty("v", kind), ex.Constant(None, ex.NullType()))
    assert conditions_of([untyped], Evaluator({}, 0).plain) == (Condition("v", "in"),)


def test_conjuncts_are_conditions_one_by_one(tmp_path: Path) -> None:
    """A part that storage cannot judge is left out, and never the rows that it would accept."""
    kind, values = EXACT["I64"]
    stored = Stored(tmp_path, kind, values, "scan")
    column = ex.RowProperty("v", kind)
    low = ex.Compare(">", column, ex.Constant(-1, kind))
    high = ex.Compare("<", column, ex.Constant(2**53 + 1, kind))
    odd = ex.Compare("=", ex.Arithmetic("%", column, ex.Constant(2, kind), kind), column)
    plain = Evaluator({}, 0).plain
    conditions = conditions_of([ex.And((low, ex.And((odd, high))))], plain)
    assert conditions == (Condition("v", ">", (-1,)), Condition("v", "<", (2**53 + 1,)))
    assert conditions == conditions_of([low, odd, high], plain)
    assert stored.by_storage(conditions) == stored.by_python(lambda v: -1 < v < 2**53 + 1)
    assert lance_filter(conditions_of([odd], plain)) is None


INT, TEXT, BOOL = (ScalarType(k) for k in (ScalarKind.I64, ScalarKind.STRING, ScalarKind.BOOL))
I32, U32, U64 = (ScalarType(k) for k in (ScalarKind.I32, ScalarKind.U32, ScalarKind.U64))
F32, F64 = (ScalarType(k) for k in (ScalarKind.F32, ScalarKind.F64))
DATE, DATETIME = (ScalarType(k) for k in (ScalarKind.DATE, ScalarKind.DATETIME))
NOT_JUDGED: list[tuple[ex.ExpressionType, ex.ExpressionType, Any]] = [
    *((F64, F64, value) for value in [*F64_VALUES, *NOT_FINITE]),
    *((F32, F32, value) for value in [*F32_VALUES, *NOT_FINITE]),
    *((kind, INT, 1) for kind in (F32, F64)),
    *((kind, F64, 1.0) for kind in (I32, U32, INT, U64)),
    *((INT, F64, value) for value in (float(2**53), math.nan, math.inf)),
    *((I32, INT, value) for value in (-(2**31) - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))),
    *((U32, INT, value) for value in (-1, 2**32, 2**63 - 1)),
    *((INT, U64, value) for value in (2**63, 2**64 - 1)),
    *((U64, INT, value) for value in (-1, -(2**63))),
    (INT, BOOL, True),
    (BOOL, INT, 1),
    (TEXT, INT, 1),
    (INT, TEXT, "1"),
    (DATE, DATETIME, MOMENTS[5]),
    (DATETIME, DATE, DAYS[4]),
    (DATETIME, DATETIME, dt.datetime(2024, 2, 29, 1, 2, 3, 4000)),
    (DATETIME, DATETIME, dt.datetime(2024, 2, 29, 1, 2, 3, 4567, dt.UTC)),
    (ListType(ScalarKind.I64), ListType(ScalarKind.I64), (1,)),
    (VectorType(2), VectorType(2), (1.0, 2.0)),
    (BlobType(), TEXT, "base64:AA=="),
]


@pytest.mark.parametrize(("kind", "other", "value"), NOT_JUDGED)
def test_what_storage_does_not_judge(
    kind: ex.ExpressionType, other: ex.ExpressionType, value: Any
) -> None:
    for _, _, predicate, evaluator in comparisons(kind, value, other):
        assert conditions_of([predicate], evaluator.plain) == (), predicate
    if isinstance(other, ScalarType):
        for column, (listed, evaluator) in product(
            columns(kind), given((value,), ListType(other.kind))
        ):
            assert conditions_of([ex.InList(column, listed)], evaluator.plain) == ()


def test_other_predicates_are_not_judged() -> None:
    column = ex.RowProperty("v", TEXT)
    constant = ex.Constant("a", TEXT)
    equal = ex.Compare("=", column, constant)
    others: list[ex.Expression] = [
        ex.Compare("contains", column, constant),
        ex.Compare("starts_with", column, constant),
        ex.Compare("=", column, column),
        ex.Compare("=", constant, constant),
        ex.Compare("=", ex.Function("lower", (column,), TEXT), constant),
        ex.Or((equal, equal)),
        ex.Not(equal),
        ex.InList(constant, ex.RowProperty("v", ListType(ScalarKind.STRING))),
        ex.IsNull(ex.RowProperty("v", ListType(ScalarKind.STRING))),
        ex.IsNull(constant),
        ex.TextMatch("search", column, constant),
        ex.RowProperty("v", BOOL),
        ex.Constant(True, BOOL),
    ]
    for predicate in others:
        assert not may_have_condition(predicate)
        assert conditions_of([predicate], Evaluator({}, 0).plain) == ()
    assert may_have_condition(equal)


def test_one_inexact_value_leaves_the_list_to_the_executor() -> None:
    listed = ex.Constant((1, 2**40), ListType(ScalarKind.I64))
    predicate = ex.InList(ex.RowProperty("v", I32), listed)
    assert conditions_of([predicate], Evaluator({}, 0).plain) == ()


def test_long_lists_are_left_to_the_executor() -> None:
    numbers = tuple(range(LONGEST_LIST + 1))
    predicate = ex.InList(ex.RowProperty("v", INT), ex.ParameterRef("p", ListType(ScalarKind.I64)))
    longest, longer = numbers[:-1], numbers
    assert conditions_of([predicate], lambda _: longest) == (Condition("v", "in", longest),)
    assert conditions_of([predicate], lambda _: longer) == ()
    assert conditions_of([predicate], lambda _: longer, None) == (Condition("v", "in", longer),)


@pytest.mark.parametrize("name", [*EXACT, *FLOATS])
def test_lookups_find_every_value_that_has_a_literal(tmp_path: Path, name: str, index: str) -> None:
    """Lookups also ask for floats: they judge what comes back, and NaN equals nothing."""
    kind, values = (EXACT | FLOATS)[name]
    stored = Stored(tmp_path, kind, values, index)
    for value in values:
        array = pa.array([value], arrow_type(kind))
        if value in NOT_FINITE or value != value:
            assert not have_literals(array)
            continue
        assert have_literals(array)
        rows = stored.dataset.scanner(columns=["row"], filter=any_of("v", array)).to_table()
        assert {*rows["row"].to_pylist()} == stored.by_python(lambda v, value=value: v == value)


def test_what_has_no_literal() -> None:
    assert not have_literals(pa.array([["a"]]))
    assert not have_literals(pa.array([b"a"]))
