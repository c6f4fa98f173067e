"""`@default`: what a row says nothing about, as against what it says is NULL."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.annotations import default_of
from omnigraph.catalog.model import EntityType
from omnigraph.values.coercion import coerce


def default_values(entity: EntityType) -> dict[str, Any]:
    """The typed values of the properties that have a default."""
    literals = ((p, default_of(p)) for p in entity.properties)
    return {p.name: coerce(value, p.type) for p, value in literals if value is not None}


def default_column(entity: EntityType, field: pa.Field, rows: int) -> pa.Array:
    """A column that the input does not have."""
    value = default_values(entity).get(field.name)
    return (
        pa.repeat(pa.scalar(value, field.type), rows)
        if value is not None
        else pa.nulls(rows, field.type)
    )


def fill_absent(
    entity: EntityType, table: pa.Table, lines: pa.Array
) -> tuple[pa.Table, npt.NDArray[np.bool_] | None]:
    """(the rows with their defaults, those of which the line has to be read to know).

    Arrow's JSON reader gives NULL for `null` and for nothing alike. A line that nowhere spells the
    name, and has no escape that could spell it otherwise, says nothing about the property.
    """
    unsure: npt.NDArray[np.bool_] | None = None
    for name, value in default_values(entity).items():
        column = table.column(name)
        if column.null_count == 0:
            continue
        spelled = (pc.match_substring(lines, pattern=p) for p in (f'"{name}"', "\\"))
        doubtful = pc.and_(column.is_null(), pc.or_(*spelled)).to_numpy(zero_copy_only=False)
        unsure = doubtful if unsure is None else unsure | doubtful
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, pc.fill_null(column, pa.scalar(value, field.type)))
    return table, unsure if unsure is not None and unsure.any() else None
