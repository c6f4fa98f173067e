"""Properties that only one side of a merge knows.

A side whose table has no such column has no opinion: it agrees with the other side about every row
that the other has, and any other row has the property's default.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_values
from omnigraph.catalog.model import EntityType
from omnigraph.diff.entity_rows import AlignedRows, TableAt

Side = tuple[AlignedRows, TableAt | None]


def completed(side: Side, entity: EntityType, other: Side | None = None) -> AlignedRows:
    """The rows of a side with a value for every property of `entity`."""
    found, table = side
    if table is None or table.entity == entity:
        return found
    defaults, rows = default_values(entity), found.rows
    present = pa.array(found.present)
    for declared in entity.properties:
        if declared.name in table.columns:
            continue
        place = rows.schema.get_field_index(declared.name)
        field = rows.schema.field(place)
        value = pa.scalar(defaults.get(declared.name), field.type)
        column = pc.if_else(present, value, pa.scalar(None, field.type))
        if other is not None and other[1] is not None and declared.name in other[1].columns:
            shared = pa.array(found.present & other[0].present)
            column = pc.if_else(shared, other[0].rows.column(place), column)
        rows = rows.set_column(place, field, column)
    return replace(found, rows=rows)
