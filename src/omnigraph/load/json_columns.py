"""Columns as Arrow's JSON reader gives them -> typed columns, a whole block at once.

Arrow reads some values differently from `parsed_rows`, which defines the result. Each converter
therefore returns a mask of doubtful rows, and the parser reads those again one by one. Numbers are
read as doubles and rounded afterwards, as Python does, because Arrow rounds decimal texts to
float32 differently.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.values.arrow_types import arrow_type
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)
from omnigraph.values.temporal import FIRST_DAY, FIRST_MILLI, LAST_DAY, LAST_MILLI
from omnigraph.writes.row_compare import Mask

_F32_MAX = 3.4028234663852886e38
_LARGEST_INTEGER = 2.0**1000
_DAY = r"^\d{4}-\d{2}-\d{2}$"
_MOMENT = (
    r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?"
    r"(Z|[+-](0\d|1\d|2[0-3]):[0-5]\d)$"
)
_PLAIN = frozenset(
    {
        ScalarKind.STRING,
        ScalarKind.BOOL,
        ScalarKind.I32,
        ScalarKind.I64,
        ScalarKind.U32,
        ScalarKind.U64,
        ScalarKind.F64,
    }
)


def parse_type(kind: ValueType) -> pa.DataType:
    """What to ask Arrow's JSON reader for."""
    match kind:
        case VectorType():
            return pa.list_(pa.float64())
        case ListType(element):
            return pa.list_(_scalar_parse_type(element))
        case ScalarType(scalar):
            return _scalar_parse_type(scalar)
        case EnumType() | BlobType():
            return pa.string()


def read_json(lines: pa.Buffer | bytes, schema: pa.Schema) -> pa.Table | None:
    """JSON lines as a table; None if Arrow finds a line that does not fit the schema."""
    try:
        return pj.read_json(
            pa.BufferReader(lines),
            pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def typed_column(kind: ValueType, raw: pa.Array) -> tuple[pa.Array, Mask | None]:
    """(the column, a mask of doubtful rows); doubtful rows are null in the column."""
    match kind:
        case VectorType(width):
            return _vector(raw, width)
        case ListType(element):
            return _list(raw, element, arrow_type(kind))
        case ScalarType(scalar):
            return _SCALARS.get(scalar, _as_is)(raw)
        case EnumType():
            return _as_is(raw)
        case BlobType():
            # Python decodes blobs, so the row is read one by one.
            return pa.nulls(len(raw), pa.large_binary()), _mask(raw.is_valid())


def _scalar_parse_type(kind: ScalarKind) -> pa.DataType:
    if kind in (ScalarKind.DATE, ScalarKind.DATETIME):
        return pa.string()
    if kind is ScalarKind.F32:
        return pa.float64()
    return arrow_type(ScalarType(kind))


def either(a: Mask | None, b: Mask | None) -> Mask | None:
    """Rows of one mask or the other; None is the mask of no row."""
    return a if b is None else b if a is None else a | b


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column without chunks; a column of one chunk is not copied."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _mask(condition: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(condition, False).to_numpy(zero_copy_only=False), dtype=bool)


def _any(bad: Mask) -> Mask | None:
    return bad if bad.any() else None


def _as_is(raw: pa.Array) -> tuple[pa.Array, Mask | None]:
    return raw, None


def _f64(raw: pa.Array) -> tuple[pa.Array, Mask | None]:
    return raw, _any(_strange_doubles(_doubles(raw)))


def _f32(raw: pa.Array) -> tuple[pa.Array, Mask | None]:
    values = _doubles(raw)
    bad = _strange_doubles(values) | (np.abs(values) > _F32_MAX)
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    return pa.array(rounded, mask=bad | _mask(raw.is_null())), _any(bad)


def _doubles(raw: pa.Array) -> npt.NDArray[np.float64]:
    return np.asarray(pc.fill_null(raw, 0.0).to_numpy(zero_copy_only=False), dtype=np.float64)


def _strange_doubles(values: npt.NDArray[np.float64]) -> Mask:
    """Doubtful numbers: not finite, beyond any integer of JSON, or `-0`, maybe the integer 0."""
    strange: Mask = ~np.isfinite(values) | (np.abs(values) > _LARGEST_INTEGER)
    strange |= (values == 0) & np.signbit(values)
    return strange


def _date(raw: pa.Array) -> tuple[pa.Array, Mask | None]:
    days = _cast(raw, pa.date32())  # takes texts of the shape of `_DAY` only
    if days is not None and _is_between(days.view(pa.int32()), FIRST_DAY, LAST_DAY):
        return days, None
    shaped = pc.match_substring_regex(raw, pattern=_DAY)
    days, bad = _parse_text(raw, _mask(shaped), pa.date32(), pa.int32())
    numbers = _integers(days)
    bad |= _mask(days.is_valid()) & ((numbers < FIRST_DAY) | (numbers > LAST_DAY))
    return _without(days.view(pa.date32()), bad), _any(bad)


def _moment(raw: pa.Array) -> tuple[pa.Array, Mask | None]:
    micros = pa.timestamp("us", "UTC")
    moments = _cast(raw, micros) if _names_seconds_in_utc(raw) else None
    if moments is None:
        shaped = pc.match_substring_regex(raw, pattern=_MOMENT)
        moments, bad = _parse_text(raw, _mask(shaped), micros, pa.int64())
    else:
        moments, bad = moments.view(pa.int64()), np.zeros(len(raw), bool)
    numbers = _integers(moments) // 1000
    valid = _mask(moments.is_valid())
    bad |= valid & ((numbers < FIRST_MILLI) | (numbers > LAST_MILLI))
    column = pa.array(numbers, mask=~valid | bad).view(pa.timestamp("ms"))
    return column, _any(bad)


def _names_seconds_in_utc(raw: pa.Array) -> bool:
    """Every text has the shape of `_MOMENT` and ends with `Z`, if Arrow reads it as microseconds.

    This takes a tenth of the time of the pattern. A text without seconds is shorter.
    """
    if not pc.all(pc.ends_with(raw, pattern="Z"), min_count=0).as_py():
        return False
    return _is_between(pc.binary_length(raw), len("2026-04-14T10:20:30Z"), None)


def _cast(raw: pa.Array, target: pa.DataType) -> pa.Array | None:
    """The texts as values; None if Arrow does not read one of them."""
    try:
        return raw.cast(target)
    except pa.ArrowInvalid:
        return None


def _is_between(numbers: pa.Array, low: int, high: int | None) -> bool:
    extremes = pc.min_max(numbers).as_py()
    least, most = extremes["min"], extremes["max"]
    return least is None or (least >= low and (high is None or most <= high))


def _parse_text(
    raw: pa.Array, shaped: Mask, target: pa.DataType, stored: pa.DataType
) -> tuple[pa.Array, Mask]:
    """(the texts as integers, a mask of texts that Arrow does not read)."""
    given = _mask(raw.is_valid())
    readable = _without(raw, given & ~shaped)
    try:
        return readable.cast(target).view(stored), given & ~shaped
    except pa.ArrowInvalid:
        # A day that is in no calendar is rare, so all rows of this block are doubtful then.
        return pa.nulls(len(raw), stored), given


def _integers(column: pa.Array) -> npt.NDArray[np.int64]:
    filled = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return np.asarray(filled, dtype=np.int64)


def _without(column: pa.Array, bad: Mask) -> pa.Array:
    if not bad.any():
        return column
    return pc.if_else(pa.array(bad), pa.scalar(None, column.type), column)


def _list(raw: pa.Array, element: ScalarKind, target: pa.DataType) -> tuple[pa.Array, Mask | None]:
    if element not in _PLAIN:
        return pa.nulls(len(raw), target), _any(_mask(raw.is_valid()))
    items = raw.flatten()
    bad_items = _mask(items.is_null())
    if element is ScalarKind.F64:
        bad_items |= _strange_doubles(_doubles(items))
    bad = np.zeros(len(raw), dtype=bool)
    if bad_items.any():
        bad[pc.list_parent_indices(raw).to_numpy(zero_copy_only=False)[bad_items]] = True
        raw = _without(raw, bad)
        # A row that became null keeps its items in the buffer; rebuilt, the items have no null.
        raw = pa.array(raw.to_pylist(), raw.type)
    return raw.cast(target), _any(bad)


def _vector(raw: pa.Array, width: int) -> tuple[pa.Array, Mask | None]:
    given = _mask(raw.is_valid())
    fits = given & _mask(pc.equal(pc.list_value_length(raw), width))
    full = raw if fits.all() else raw.filter(pa.array(fits))
    values = full.flatten()
    numbers = np.asarray(pc.fill_null(values, np.nan).to_numpy(zero_copy_only=False))
    strange = (_strange_doubles(numbers) | (np.abs(numbers) > _F32_MAX)).reshape(-1, width)
    fits[np.flatnonzero(fits)[strange.any(axis=1)]] = False
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = numbers.astype(np.float32).reshape(-1, width)[~strange.any(axis=1)]
    bad = given & ~fits
    if fits.all():
        return pa.FixedSizeListArray.from_arrays(pa.array(rounded.reshape(-1)), width), None
    filled = np.zeros((len(raw), width), dtype=np.float32)
    filled[fits] = rounded
    column = pa.FixedSizeListArray.from_arrays(
        pa.array(filled.reshape(-1)), width, mask=pa.array(~fits)
    )
    return column, _any(bad)


_SCALARS: dict[ScalarKind, Callable[[pa.Array], tuple[pa.Array, Mask | None]]] = {
    ScalarKind.F32: _f32,
    ScalarKind.F64: _f64,
    ScalarKind.DATE: _date,
    ScalarKind.DATETIME: _moment,
}
