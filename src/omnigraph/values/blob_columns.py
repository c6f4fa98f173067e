"""Arrow columns of blobs, judged before they are stored."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.values.blob_values import judged_blob
from omnigraph.values.external_blobs import MARK, ExternalBases


def judged_column(
    column: pa.Array | pa.ChunkedArray, external: ExternalBases
) -> pa.Array | pa.ChunkedArray:
    """A column of texts or bytes as stored blobs; judges every external one."""
    binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    if binary and not has_external(column):
        return column.cast(pa.large_binary())
    known = {value: judged_blob(value, external) for value in set(column.to_pylist()) - {None}}
    return pa.array([known.get(value) for value in column.to_pylist()], pa.large_binary())


def has_external(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a cell of a binary column is an external blob."""
    return bool(pc.any(pc.starts_with(column, pattern=MARK.decode()), min_count=0).as_py())
