"""The text of the option `filter` becomes conditions for storage. Runs without Spark."""

from __future__ import annotations

import datetime as dt

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.schema.build import catalog_from_text
from omnigraph.spark.source.filter_text import parse_filter
from omnigraph.values.conditions import Condition

ENTITY = catalog_from_text(
    "node N { k: String @key  i: I64?  u: U64?  a: I32?  t: String?  ok: Bool?  d: Date? "
    "m: DateTime?  e: enum(x, y)? }"
).nodes[0]
MOMENT = dt.datetime(2026, 1, 31, 8, 0, 0, 123000, dt.UTC)


@pytest.mark.parametrize(
    ("column", "value"),
    [("u", 2**63 - 1), ("u", 2**64 - 1), ("i", -(2**63)), ("i", 2**53 + 1), ("a", -(2**31))],
)
def test_integers_up_to_the_limits_are_conditions(column: str, value: int) -> None:
    assert parse_filter(f"{column} = {value}", ENTITY) == (Condition(column, "=", (value,)),)


@pytest.mark.parametrize(
    ("column", "value"), [("u", 2**64), ("u", -1), ("i", 2**63), ("i", -(2**63) - 1), ("a", 2**31)]
)
def test_integers_beyond_the_limits_are_refused(column: str, value: int) -> None:
    with pytest.raises(InvalidArgument, match=column):
        parse_filter(f"{column} = {value}", ENTITY)


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("t <> 'it''s'", [Condition("t", "!=", ("it's",))]),
        ("t == ''", [Condition("t", "=", ("",))]),
        ("`t` in ('a', 'b')", [Condition("t", "in", ("a", "b"))]),
        ("ok = TRUE and e != 'x'", [Condition("ok", "=", (True,)), Condition("e", "!=", ("x",))]),
        ("t IS NULL AND a is not null", [Condition("t", "is null"), Condition("a", "is not null")]),
        ("d < '9999-12-31'", [Condition("d", "<", (dt.date(9999, 12, 31),))]),
        ("m >= '2026-01-31T10:00:00.123+02:00'", [Condition("m", ">=", (MOMENT,))]),
    ],
)
def test_texts(text: str, conditions: list[Condition]) -> None:
    assert parse_filter(text, ENTITY) == tuple(conditions)
