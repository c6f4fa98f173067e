"""Converts JSON and Python values to a property type, or says why they do not fit."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.values.plurals import counted
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_BOUNDS,
    INTEGER_KINDS,
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)
from omnigraph.values.temporal import (
    date_from_days,
    moment_from_millis,
    parse_date,
    parse_moment,
)

_INTEGER_TEXT = re.compile(r"-?\d{1,20}")
_F32_MAX = 3.4028234663852886e38
_SPELLED_BITS = 130
_PLAIN = frozenset({bool, int, float, str, dt.date, dt.datetime})


def coerce(value: object, wanted: ValueType) -> Any:
    """The value as `wanted`; raises `InvalidArgument` with the expected form.

    64-bit integers may also be given as text, because JavaScript cannot hold them as numbers.
    """
    match wanted:
        case ScalarType(kind):
            return coerce_scalar(value, kind)
        case EnumType(values):
            return _coerce_enum(value, values)
        case ListType(element):
            return [coerce_scalar(item, element) for item in _items(value, wanted)]
        case VectorType(width):
            return _coerce_vector(value, width)
        case BlobType():
            return coerce_scalar(value, ScalarKind.STRING)


def coerce_scalar(value: object, kind: ScalarKind) -> Any:
    if type(value) not in _PLAIN:
        value = _as_plain(value)
    if kind in INTEGER_KINDS:
        return _coerce_integer(value, kind)
    if kind in FLOAT_KINDS:
        return _coerce_float(value, kind)
    return _COERCE[kind](value)


def _as_plain(value: object) -> object:
    """Decimals and numpy values as plain Python values; numpy itself is not imported."""
    if isinstance(value, Decimal):
        # A decimal with more digits than any of our integers is not spelled out.
        whole = value.is_finite() and value.adjusted() < 40 and value == value.to_integral_value()
        return int(value) if whole else float(value)
    kind, item = getattr(getattr(value, "dtype", None), "kind", None), getattr(value, "item", None)
    if item is None or kind not in ("b", "i", "u", "f", "M"):
        return value
    plain = item()
    if kind == "M" and isinstance(plain, int):  # nanoseconds, which `datetime` cannot hold
        plain = value.astype("datetime64[us]").item()  # type: ignore[attr-defined]
    return plain


def describe(value: object) -> str:
    """A value as an error message shows it: short, with its JSON kind."""
    match value:
        case int() if value.bit_length() > _SPELLED_BITS:
            return f"an integer of {value.bit_length()} bits"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value[:40]}…"' if len(value) > 40 else f'"{value}"'
        case list() | tuple():
            return f"a list of {len(value)}"
        case dict():
            return "an object"
        case _:
            return str(value)[:40]


def refusal(value: object, wanted: ValueType, form: str | None = None) -> InvalidArgument:
    """The error for a value of another type: it names the type and a form that is accepted."""
    article = "an" if str(wanted)[0] in "IFe" else "a"
    return InvalidArgument(
        f"{describe(value)} is not {article} {wanted}; write {form or _accepted(wanted)}",
        wanted=str(wanted),
    )


def _accepted(wanted: ValueType) -> str:
    match wanted:
        case ScalarType(kind):
            return _FORMS[kind]
        case ListType(element):
            return f"a list such as {_LISTS.get(element, '[1, 2]')}"
        case VectorType(width):
            return f"a list of {counted(width, 'number')}"
        case EnumType(values):
            return f"one of {', '.join(values)}"
        case BlobType():
            return "base64: and the bytes"


def _coerce_integer(value: object, kind: ScalarKind) -> int:
    low, high = INTEGER_BOUNDS[kind]
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and high > 2**32 and _INTEGER_TEXT.fullmatch(value):
        number = int(value)
    if number is None:
        raise refusal(value, ScalarType(kind))
    if not low <= number <= high:
        raise refusal(value, ScalarType(kind), f"a whole number from {low} to {high}")
    return number


def _coerce_float(value: object, kind: ScalarKind) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refusal(value, ScalarType(kind))
    if isinstance(value, int) and abs(value) > 2**1000:
        raise refusal(value, ScalarType(kind), "a number of at most 300 digits")
    number = float(value)
    if not math.isfinite(number) or (kind is ScalarKind.F32 and abs(number) > _F32_MAX):
        raise refusal(value, ScalarType(kind), "a finite number such as 3.14")
    return round_to_f32(number) if kind is ScalarKind.F32 else number


def round_to_f32(value: float) -> float:
    """The nearest float32 as a Python float; a value beyond the float32 range is unchanged."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return value
    return rounded


def _coerce_string(value: object) -> str:
    if not isinstance(value, str):
        raise refusal(value, ScalarType(ScalarKind.STRING))
    return value


def _coerce_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise refusal(value, ScalarType(ScalarKind.BOOL))
    return value


def _coerce_date(value: object) -> dt.date:
    found: dt.date | None = None
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        found = value
    elif isinstance(value, str):
        found = parse_date(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        found = date_from_days(value)
    if found is None:
        raise refusal(value, ScalarType(ScalarKind.DATE))
    return found


def _coerce_moment(value: object) -> dt.datetime:
    found: dt.datetime | None = None
    if isinstance(value, dt.datetime):
        found = _cut_moment(value)
    elif isinstance(value, str):
        found = parse_moment(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        found = moment_from_millis(value)
    if found is None:
        raise refusal(value, ScalarType(ScalarKind.DATETIME))
    return found


def _cut_moment(value: dt.datetime) -> dt.datetime | None:
    """The moment in UTC, cut to milliseconds. A moment without a zone is in UTC, as in results."""
    try:
        utc = value.astimezone(dt.UTC) if value.tzinfo else value
        # Built again, because a pandas Timestamp has nanoseconds, and NaT is a `datetime` too.
        return dt.datetime(*utc.timetuple()[:6], utc.microsecond // 1000 * 1000, dt.UTC)
    except (OverflowError, ValueError):
        return None


def _coerce_enum(value: object, values: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in values:
        raise InvalidArgument(
            f"{describe(value)} is not one of {', '.join(values)}", wanted=", ".join(values)
        )
    return value


def _coerce_vector(value: object, width: int) -> list[float]:
    items = _items(value, VectorType(width))
    if len(items) != width:
        raise refusal(list(items), VectorType(width))
    return [coerce_scalar(item, ScalarKind.F32) for item in items]


def _items(value: object, wanted: ListType | VectorType) -> Sequence[object]:
    if isinstance(value, (str, bytes, dict)) or not isinstance(value, Sequence):
        as_list = getattr(value, "tolist", None)  # numpy arrays, without importing numpy
        value = as_list() if callable(as_list) else value
    if not isinstance(value, (list, tuple)):
        raise refusal(value, wanted)
    if any(item is None for item in value):
        raise InvalidArgument(
            f"a list with a null in it is not a {wanted}; leave the null out", wanted=str(wanted)
        )
    return value


_FORMS = {
    **dict.fromkeys(INTEGER_KINDS, "a whole number such as 42"),
    **dict.fromkeys(FLOAT_KINDS, "a number such as 3.14"),
    ScalarKind.STRING: 'text such as "Ada"',
    ScalarKind.BOOL: "true or false",
    ScalarKind.DATE: 'a date such as "2026-04-14", or epoch days',
    ScalarKind.DATETIME: (
        'a moment with its offset such as "2026-04-14T10:00:00Z", or epoch milliseconds'
    ),
}
_LISTS = {
    ScalarKind.STRING: '["a", "b"]',
    ScalarKind.BOOL: "[true, false]",
    ScalarKind.DATE: '["2026-04-14"]',
    ScalarKind.DATETIME: '["2026-04-14T10:00:00Z"]',
}
_COERCE: dict[ScalarKind, Callable[[object], Any]] = {
    ScalarKind.STRING: _coerce_string,
    ScalarKind.BOOL: _coerce_bool,
    ScalarKind.DATE: _coerce_date,
    ScalarKind.DATETIME: _coerce_moment,
}
