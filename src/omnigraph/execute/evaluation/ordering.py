"""Sort rows by keys, then by ties, so that the order is total; or find only the first rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execute.evaluation.arrow_functions import filled
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.topology.kernels import RowNumbers
from omnigraph.execute.views.frame import Frame
from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import OrderBy, SortKey

Sortable = Any
"""A numpy array of numbers; their type depends on the key."""


def sort_frame(op: OrderBy, frame: Frame, evaluator: Evaluator, wanted: int | None) -> Frame:
    """All rows in order, or the first `wanted`."""
    if frame.length == 0:
        return frame
    if not op.keys and _already_sorted(op, frame):
        return (
            frame
            if wanted is None
            else frame.take(np.arange(min(wanted, frame.length)), ordered=True)
        )
    candidates = np.arange(frame.length)
    if wanted is not None and wanted < frame.length // 4 and op.keys:
        candidates = _candidates(op.keys[0], frame, evaluator, wanted)
        frame = frame.take(candidates, ordered=True)
    columns: list[Sortable] = []
    for key in op.keys:
        columns += _key_columns(key, frame, evaluator)
    for tie in op.ties:
        columns += _tie_columns(tie, frame, evaluator)
    order = np.lexsort(columns[::-1]) if columns else np.arange(frame.length)
    return frame.take(order[:wanted] if wanted is not None else order)


def sort_columns(values: pa.Array, key: SortKey) -> list[Sortable]:
    """Arrays whose ascending order is the order of the key: one for NULLs, one for values."""
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return _in_order(_codes(values), missing, key)


def _key_columns(key: SortKey, frame: Frame, evaluator: Evaluator) -> list[Sortable]:
    """`sort_columns` of a key. Scores are numbers already, with NaN where there is none."""
    if not isinstance(key.value, ex.ScoreRef):
        return sort_columns(evaluator.array(key.value, frame), key)
    scores = frame.scores[key.value.slot]
    missing = np.isnan(scores)
    return _in_order(scores, missing if missing.any() else None, key)


def _in_order(codes: Sortable, missing: Sortable | None, key: SortKey) -> list[Sortable]:
    columns: list[Sortable] = []
    if missing is not None:
        last = key.descending or key.nulls_last
        columns.append(missing if last else ~missing)
        codes = np.where(missing, codes.dtype.type(0), codes)
    columns.append(_reversed(codes) if key.descending else codes)
    return columns


def _codes(values: pa.Array) -> Sortable:
    """Numbers in the order of the values."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return filled(values, 0).to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(kind):
        return filled(values, False).to_numpy(zero_copy_only=False).astype(np.int8)
    if pa.types.is_date32(kind):
        return filled(values.cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
    if pa.types.is_timestamp(kind):
        return filled(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if pa.types.is_string(kind):
        return filled(pc.rank(values, tiebreaker="dense"), 0).to_numpy(zero_copy_only=False)
    return _python_codes(values)


def _python_codes(values: pa.Array) -> Sortable:
    """Ranks of lists and objects, found in Python."""
    keys = [_comparable(value) for value in values.to_pylist()]
    ranks = {key: rank for rank, key in enumerate(sorted({k for k in keys if k is not None}))}
    return np.array([ranks.get(key, 0) if key is not None else 0 for key in keys], np.int64)


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        # Entities are ordered by id.
        return (str(value.get("id")),)
    if isinstance(value, list):
        return tuple(value)
    return value


def _reversed(codes: Sortable) -> Sortable:
    if np.issubdtype(codes.dtype, np.unsignedinteger):
        return np.iinfo(codes.dtype).max - codes
    if np.issubdtype(codes.dtype, np.signedinteger):
        return ~codes  # -x - 1: no overflow at the smallest integer
    return -codes


def _tie_columns(tie: ex.Expression, frame: Frame, evaluator: Evaluator) -> list[Sortable]:
    if isinstance(tie, ex.PropertyOf) and tie.property == "id":
        return [frame.bindings[tie.variable.id].sort_values()]
    return sort_columns(evaluator.array(tie, frame), SortKey(tie))


def _already_sorted(op: OrderBy, frame: Frame) -> bool:
    wanted = []
    for tie in op.ties:
        if not (isinstance(tie, ex.PropertyOf) and tie.property == "id"):
            return False
        wanted.append(tie.variable.id)
    return bool(wanted) and tuple(wanted) == frame.sorted_by[: len(wanted)]


def _candidates(key: SortKey, frame: Frame, evaluator: Evaluator, wanted: int) -> RowNumbers:
    """Rows that can be among the first `wanted`, judging by the first key."""
    columns = _key_columns(key, frame, evaluator)
    if wanted == 0:
        return np.arange(0)
    values = columns[-1]
    if len(columns) == 2:
        in_front = ~columns[0].astype(bool)
        if int(in_front.sum()) < wanted:
            return np.arange(frame.length)
        values = np.where(in_front, values, values.max())
        threshold = np.partition(values[in_front], wanted - 1)[wanted - 1]
        return np.flatnonzero(in_front & (values <= threshold))
    threshold = np.partition(values, wanted - 1)[wanted - 1]
    return np.flatnonzero(values <= threshold)
