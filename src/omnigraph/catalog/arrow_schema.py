"""Entity type -> the Arrow schema of its table, system columns included."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.catalog.columns import ID, SOURCE, TARGET
from omnigraph.catalog.model import EdgeType, EntityType
from omnigraph.values.arrow_types import arrow_field

__all__ = ["ID", "SOURCE", "TARGET", "table_schema"]


def table_schema(entity: EntityType) -> pa.Schema:
    """`id` (+ `src`, `dst`) then the properties in declaration order."""
    system = [ID, SOURCE, TARGET] if isinstance(entity, EdgeType) else [ID]
    fields = [pa.field(name, pa.string(), nullable=False) for name in system]
    fields += [arrow_field(p.name, p.type, nullable=p.nullable) for p in entity.properties]
    return pa.schema(fields)
