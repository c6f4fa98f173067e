from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.values.coercion import coerce
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)
from omnigraph.values.temporal import parse_date, parse_moment, write_moment


def scalar(name: str) -> ScalarType:
    return ScalarType(ScalarKind(name))


UTC = dt.UTC
GOOD: list[tuple[object, ValueType, Any]] = [
    ("x", scalar("String"), "x"),
    ("9223372036854775807", scalar("I64"), 2**63 - 1),
    (2**64 - 1, scalar("U64"), 2**64 - 1),
    (3, scalar("F32"), 3.0),
    (dt.date(2026, 1, 2), scalar("Date"), dt.date(2026, 1, 2)),
    (-1, scalar("Date"), dt.date(1969, 12, 31)),
    (
        "2026-01-02T03:04:05.678999-01:00",
        scalar("DateTime"),
        dt.datetime(2026, 1, 2, 4, 4, 5, 678000, UTC),
    ),
    (
        dt.datetime(2026, 1, 2, 3, 4, 5, 999999, UTC),
        scalar("DateTime"),
        dt.datetime(2026, 1, 2, 3, 4, 5, 999000, UTC),
    ),
    (
        dt.datetime(2026, 1, 2, 3, 4, 5, 999999),
        scalar("DateTime"),
        dt.datetime(2026, 1, 2, 3, 4, 5, 999000, UTC),
    ),
    (
        pd.Timestamp("1969-12-31T23:59:59.000999999+02:00"),
        scalar("DateTime"),
        dt.datetime(1969, 12, 31, 21, 59, 59, 0, UTC),
    ),
    (
        np.datetime64("2026-01-02T03:04:05.678999999"),
        scalar("DateTime"),
        dt.datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
    ),
    (np.datetime64("2026-01-02"), scalar("Date"), dt.date(2026, 1, 2)),
    (Decimal("12"), scalar("I32"), 12),
    (Decimal("0.5"), scalar("F64"), 0.5),
    (np.int16(12), scalar("U64"), 12),
    (np.float32(0.5), scalar("F64"), 0.5),
    (np.bool_(False), scalar("Bool"), False),
    ([np.int8(1), Decimal(2)], ListType(ScalarKind.I64), [1, 2]),
    ((1, 2), VectorType(2), [1.0, 2.0]),
    (["a"], ListType(ScalarKind.STRING), ["a"]),
    ("b", EnumType(("a", "b")), "b"),
    ("base64:AA==", BlobType(), "base64:AA=="),
]
BAD: list[tuple[object, ValueType]] = [
    (None, scalar("String")),
    ("3", scalar("I32")),
    ("", scalar("I64")),
    ("1e3", scalar("I64")),
    (True, scalar("I64")),
    (1.0, scalar("I64")),
    (2**63, scalar("I64")),
    (Decimal("1.5"), scalar("I64")),
    (Decimal("NaN"), scalar("I64")),
    (Decimal("1E+999999"), scalar("I64")),
    (Decimal("Infinity"), scalar("F64")),
    (np.float64(1.5), scalar("I64")),
    (np.bool_(True), scalar("I64")),
    ("9" * 5000, scalar("I64")),
    (float("nan"), scalar("F64")),
    (float("inf"), scalar("F32")),
    (10**400, scalar("F64")),
    (1e39, scalar("F32")),
    (1, scalar("Bool")),
    (dt.datetime(2026, 1, 1, tzinfo=UTC), scalar("Date")),
    ("2026-1-2", scalar("Date")),
    (10**9, scalar("Date")),
    (dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), scalar("DateTime")),
    (pd.NaT, scalar("DateTime")),
    (np.datetime64("NaT"), scalar("DateTime")),
    (np.datetime64("2026-01-01T10:00"), scalar("Date")),
    ("2026-01-01T00:00:00", scalar("DateTime")),
    ("9999-12-31T23:59:59-23:59", scalar("DateTime")),
    (10**18, scalar("DateTime")),
    ([1], VectorType(2)),
    ("ab", VectorType(2)),
    ([1, None], ListType(ScalarKind.I32)),
    ({"a": 1}, ListType(ScalarKind.STRING)),
    ("c", EnumType(("a", "b"))),
    (1, BlobType()),
]


@pytest.mark.parametrize(("given", "wanted", "expected"), GOOD, ids=str)
def test_values_that_fit(given: object, wanted: ValueType, expected: Any) -> None:
    assert coerce(given, wanted) == expected
    assert type(coerce(given, wanted)) is type(expected)


@pytest.mark.parametrize(("given", "wanted"), BAD, ids=lambda value: str(value)[:30])
def test_values_that_do_not_fit(given: object, wanted: ValueType) -> None:
    with pytest.raises(InvalidArgument) as caught:
        coerce(given, wanted)
    assert len(caught.value.message) < 200


def test_moments_read_back() -> None:
    for text in ("2026-04-14T10:00:00Z", "1969-12-31T23:59:59.001Z"):
        moment = parse_moment(text)
        assert moment is not None
        assert write_moment(moment) == text
    assert parse_moment("2026-02-30T00:00:00Z") is None
    assert parse_date("2026-02-30") is None


def test_an_integer_of_any_length_is_refused_in_few_words() -> None:
    with pytest.raises(InvalidArgument, match="an integer of 16610 bits is not") as caught:
        coerce(10**5000, scalar("I64"))
    assert len(str(caught.value)) < 200
