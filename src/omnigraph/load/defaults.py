"""`@default` in NDJSON, where Arrow does not tell an absent property from a null one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_values
from omnigraph.catalog.model import EntityType


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
