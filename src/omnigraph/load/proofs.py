"""Proofs from columns in memory that a rule holds: far cheaper than a join.

True means certain. False means only that it is not proven: the joins of `bulk_checks` then find out
what is wrong, if anything, and say it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.values.row_hashes import row_hashes


def no_row_twice(rows: pa.Table) -> bool:
    """No two rows are equal; rows with a NULL equal none."""
    if any(column.null_count for column in rows.columns):
        rows = rows.drop_null()
    hashes = row_hashes(rows.columns)
    if hashes is None:
        return False
    hashes.sort()
    return not bool(np.any(hashes[1:] == hashes[:-1]))


def all_among(columns: Sequence[pa.ChunkedArray], known: Sequence[pa.ChunkedArray]) -> bool:
    """Every text of `columns` is one of `known`."""
    wanted = pa.chunked_array([c for column in columns for c in column.chunks], pa.string())
    there = pa.chunked_array([c for column in known for c in column.chunks], pa.string())
    if len(there) == 0:
        return len(wanted) == 0
    return bool(pc.all(pc.is_in(wanted, value_set=there.combine_chunks()), min_count=0).as_py())
