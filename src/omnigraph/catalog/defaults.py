"""`@default`: what a row says nothing about, as against what it says is NULL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

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
