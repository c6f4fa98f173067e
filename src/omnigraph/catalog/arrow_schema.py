"""The Arrow schema of an entity type's table, and the values of its `@default` annotations."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph.catalog.model import (
    ID,
    SOURCE,
    TARGET,
    EdgeType,
    EntityType,
    GeneratedDefault,
    default_of,
)
from omnigraph.values.arrow_types import arrow_field
from omnigraph.values.coercion import coerce


def table_schema(entity: EntityType) -> pa.Schema:
    """`id` (for edges also `src` and `dst`), then the properties in the order of declaration."""
    system = [ID, SOURCE, TARGET] if isinstance(entity, EdgeType) else [ID]
    fields = [pa.field(name, pa.string(), nullable=False) for name in system]
    fields += [arrow_field(p.name, p.type, nullable=p.nullable) for p in entity.properties]
    return pa.schema(fields)


def default_values(entity: EntityType) -> dict[str, Any]:
    """The typed values of the properties that have a literal as their default."""
    literals = ((p, default_of(p)) for p in entity.properties)
    return {
        p.name: coerce(value, p.type)
        for p, value in literals
        if value is not None and not isinstance(value, GeneratedDefault)
    }


def default_column(entity: EntityType, field: pa.Field, rows: int) -> pa.Array:
    """The column of a property that the input leaves out: its default, else NULL.

    A NULL that the input contains stays NULL; a default replaces only what is left out.
    """
    value = default_values(entity).get(field.name)
    return (
        pa.repeat(pa.scalar(value, field.type), rows)
        if value is not None
        else pa.nulls(rows, field.type)
    )
