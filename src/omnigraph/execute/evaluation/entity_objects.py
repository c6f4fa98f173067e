"""Whole entities and paths as values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.execute.views.entity_view import MISSING, EntityView, TableView
from omnigraph.execute.views.frame import Frame
from omnigraph.ir.expressions import Variable

_EDGE_NAMES = {"src": "from", "dst": "to"}


def entity_objects(frame: Frame, variable: Variable) -> pa.Array:
    """`id` and every property but blobs and vectors; a path as the list of its ids."""
    if variable.id in frame.paths:
        return frame.paths[variable.id].ids
    binding = frame.bindings[variable.id]
    distinct, rows = np.unique(binding.positions, return_inverse=True)
    objects = _objects(binding.view, distinct)
    return objects.take(pa.array(rows))


def _objects(view: EntityView, positions: Any) -> pa.Array:
    tables = view.tables
    names = list(dict.fromkeys(n for t in tables for n in t.plain_columns))
    missing = pa.array(positions, mask=positions == MISSING)
    arrays = [_column(view, tables, name).take(missing) for name in names]
    labels = [_EDGE_NAMES.get(name, name) for name in names]
    mask = pa.array(positions == MISSING)
    return pa.StructArray.from_arrays(arrays, labels, mask=mask)


def _column(view: EntityView, tables: tuple[TableView, ...], name: str) -> pa.Array:
    if len(tables) == 1:
        return view.column(name)
    kind = next(t.column(name).type for t in tables if name in t.plain_columns)
    return pa.concat_arrays(
        [t.column(name) if name in t.plain_columns else pa.nulls(t.count, kind) for t in tables]
    )
