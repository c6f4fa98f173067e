"""Small array helpers shared by expressions: spreading, lists, membership."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.ir import expressions as ex
from omnigraph.values.arrow_types import arrow_type


def as_arrow_type(kind: ex.ExpressionType) -> pa.DataType:
    match kind:
        case ex.EntityType():
            return pa.string()
        case ex.PathType():
            return pa.list_(pa.string())
        case ex.NullType():
            return pa.null()
        case _:
            return arrow_type(kind)


def spread(value: Any, length: int) -> pa.Array:
    """One value per row."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, length)
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def contains(holder: Any, wanted: Any) -> Any:
    """List membership, or exact substring."""
    if pa.types.is_list(holder.type):
        if isinstance(holder, pa.Scalar):
            return membership(wanted, holder)
        return any_equal(holder, spread(wanted, len(holder)))
    if isinstance(wanted, pa.Scalar):
        if not wanted.is_valid:
            return pa.scalar(None, pa.bool_())
        return pc.match_substring(holder, pattern=wanted.as_py())
    pairs = zip(spread(holder, len(wanted)).to_pylist(), wanted.to_pylist(), strict=True)
    return pa.array([None if h is None or w is None else w in h for h, w in pairs], pa.bool_())


def membership(wanted: Any, collection: pa.Scalar) -> Any:
    """`wanted in [ … ]`; unknown when either side is NULL."""
    if not collection.is_valid:
        return pa.scalar(None, pa.bool_())
    found = pc.is_in(wanted, value_set=collection.values.cast(wanted.type))
    return pc.if_else(pc.is_valid(wanted), found, pa.scalar(None, pa.bool_()))


def any_equal(lists: pa.Array, wanted: pa.Array) -> pa.Array:
    """Row by row: does the list hold the value?"""
    parents = pc.list_parent_indices(lists)
    items, rows = pc.list_flatten(lists), parents.to_numpy()
    equal = pc.fill_null(pc.equal(items, wanted.take(parents)), False)
    found = np.zeros(len(lists), bool)
    found[rows[equal.to_numpy(zero_copy_only=False)]] = True
    unknown = pc.or_(lists.is_null(), wanted.is_null()).to_numpy(zero_copy_only=False)
    if items.null_count:
        # An unknown member might be the value: not found is then not known.
        unknown[rows[items.is_null().to_numpy(zero_copy_only=False)]] = True
        unknown &= ~found
    return pa.array(found, mask=unknown)
