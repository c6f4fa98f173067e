"""Convert the stored values of one property type to another, and tell which do not convert.

A value converts if the new type holds exactly the same value. Texts are read as data files write
them, and values become texts in the form in which `export` writes them.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.values.arrow_types import arrow_type
from omnigraph.values.coercion import coerce_scalar
from omnigraph.values.json_values import json_value
from omnigraph.values.scalars import (
    NUMERIC_KINDS,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ConvertedValues:
    """Values of the new type; NULL where `failed`."""

    values: pa.Array
    failed: Mask


def convert(values: pa.Array, before: ValueType, after: ValueType) -> ConvertedValues:
    """Every value in its new type. Of a list that becomes one value, the first item is taken.

    A list of several items fails, but its first item is in `values`, for a change that may lose
    the others.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    match before, after:
        case ListType(item), ListType(wanted):
            return _items(values, item, wanted)
        case ListType(item), (ScalarType() | EnumType()):
            return _first(values, item, _kind(after))
        case ((ScalarType() | EnumType()), ListType(wanted)):
            inner = _scalars(values, _kind(before), wanted)
            return ConvertedValues(_as_lists(inner.values, wanted), inner.failed)
        case ((ScalarType() | EnumType()), (ScalarType() | EnumType())):
            return _scalars(values, _kind(before), _kind(after))
        case _:
            raise InvalidArgument(f"{before} cannot be converted to {after}")


def _kind(value_type: ValueType) -> ScalarKind:
    """Enums are stored as strings; another check compares the values of an enum."""
    return value_type.kind if isinstance(value_type, ScalarType) else ScalarKind.STRING


def _scalars(values: pa.Array, before: ScalarKind, after: ScalarKind) -> ConvertedValues:
    wanted = arrow_type(ScalarType(after))
    if before == after:
        return ConvertedValues(values, np.zeros(len(values), bool))
    if before in NUMERIC_KINDS and after in NUMERIC_KINDS:
        return _numbers(values, wanted)
    if before is ScalarKind.DATE and after is ScalarKind.DATETIME:
        return ConvertedValues(values.cast(wanted), np.zeros(len(values), bool))
    return _by_value(values, after, wanted)


def _numbers(values: pa.Array, wanted: pa.DataType) -> ConvertedValues:
    """A number that changes on the way there and back is not held by the new type."""
    there = values.cast(wanted, safe=False)
    back = there.cast(values.type, safe=False)
    same = pc.fill_null(pc.equal(values, back), False)
    if pa.types.is_floating(values.type):
        in_range = _in_integer_range(values, wanted)
        same = pc.and_(same, in_range)
    elif pa.types.is_integer(wanted):
        same = pc.and_(same, pc.equal(_is_negative(values), _is_negative(there)))
    failed = _mask(pc.and_(pc.invert(same), values.is_valid()))
    return ConvertedValues(_without(there, failed), failed)


def _is_negative(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.less(values, pa.scalar(0, values.type)), False)


def _in_integer_range(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Floats beyond an integer type convert to some number there and sometimes back."""
    if not pa.types.is_integer(wanted):
        return pc.fill_null(pc.is_finite(values), False)
    bits = wanted.bit_width
    signed = pa.types.is_signed_integer(wanted)
    low = -(2.0 ** (bits - 1)) if signed else 0.0
    high = 2.0 ** (bits - 1) if signed else 2.0**bits
    wide = values.cast(pa.float64())
    inside = pc.and_(pc.greater_equal(wide, low), pc.less(wide, high))
    return pc.fill_null(inside, False)


def _by_value(values: pa.Array, after: ScalarKind, wanted: pa.DataType) -> ConvertedValues:
    """Each distinct value is converted once, in Python."""
    encoded = values.dictionary_encode()
    made: list[Any] = []
    good: list[bool] = []
    for value in encoded.dictionary.to_pylist():
        try:
            made.append(_one(value, after))
            good.append(True)
        except (InvalidArgument, ValueError, OverflowError):
            made.append(None)
            good.append(False)
    found = pa.array(made, wanted).take(encoded.indices)
    fine = pa.array(good, pa.bool_()).take(encoded.indices)
    return ConvertedValues(found, _mask(pc.invert(pc.fill_null(fine, True))))


def _one(value: Any, after: ScalarKind) -> Any:
    if after is ScalarKind.STRING:
        shown = json_value(value)
        if isinstance(shown, bool):
            return "true" if shown else "false"
        return shown if isinstance(shown, str) else str(shown)
    if isinstance(value, bool) and after in NUMERIC_KINDS:
        return int(value)
    if after is ScalarKind.BOOL:
        return _as_bool(value)
    if isinstance(value, str) and after in NUMERIC_KINDS:
        is_whole = after not in (ScalarKind.F32, ScalarKind.F64)
        return coerce_scalar(int(value.strip()) if is_whole else float(value.strip()), after)
    if isinstance(value, dt.datetime) and after is ScalarKind.DATE:
        if value.time() != dt.time():
            raise ValueError("not midnight")
        return value.date()
    return coerce_scalar(value, after)


def _as_bool(value: Any) -> bool:
    known = {"true": True, "false": False, "1": True, "0": False}
    text = str(value).strip().lower()
    if isinstance(value, float):
        text = str(int(value)) if value in (0.0, 1.0) else text
    return known[text] if text in known else coerce_scalar(value, ScalarKind.BOOL)


def _items(values: pa.Array, before: ScalarKind, after: ScalarKind) -> ConvertedValues:
    inner = _scalars(values.flatten(), before, after)
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    owners = np.repeat(np.arange(len(values)), lengths)
    failed = np.zeros(len(values), bool)
    failed[owners[inner.failed]] = True
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    kind = pa.list_(pa.field("item", inner.values.type, nullable=False))
    null = _mask(values.is_null()) | failed
    made = pa.ListArray.from_arrays(pa.array(offsets), inner.values, type=kind, mask=pa.array(null))
    return ConvertedValues(made, failed)


def _first(values: pa.Array, before: ScalarKind, after: ScalarKind) -> ConvertedValues:
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(values) else lengths
    flat = values.flatten()
    place = pa.array(np.where(lengths > 0, starts, 0), mask=lengths == 0)
    inner = _scalars(flat.take(place), before, after)
    return ConvertedValues(inner.values, inner.failed | (lengths > 1))


def _as_lists(values: pa.Array, kind: ScalarKind) -> pa.Array:
    present = _mask(values.is_valid())
    offsets = np.concatenate([[0], np.cumsum(present)]).astype(np.int32)
    wanted = pa.list_(pa.field("item", arrow_type(ScalarType(kind)), nullable=False))
    return pa.ListArray.from_arrays(
        pa.array(offsets), values.drop_null(), type=wanted, mask=pa.array(~present)
    )


def _without(values: pa.Array, failed: Mask) -> pa.Array:
    if not failed.any():
        return values
    return pc.if_else(pa.array(failed), pa.scalar(None, values.type), values)


def _mask(values: pa.Array) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)
