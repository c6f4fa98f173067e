"""Values that somebody wrote into a resolution."""

from __future__ import annotations

from typing import Any

from omnigraph.catalog.model import SOURCE, TARGET, EdgeType, EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.values.coercion import coerce

_ENDS = {"from": SOURCE, "to": TARGET, SOURCE: SOURCE, TARGET: TARGET}


def given_value(entity: EntityType, name: str, value: object) -> tuple[str, Any]:
    """(column, typed value) of a property given by its public name."""
    where = f"resolution of {entity.name}.{name}"
    if isinstance(entity, EdgeType) and name in _ENDS:
        if not isinstance(value, str):
            raise InvalidArgument(f"{where}: {value!r} is no id")
        return _ENDS[name], value
    declared = next((p for p in entity.properties if p.name == name), None)
    if declared is None:
        raise InvalidArgument(f"{where}: {entity.name} has no such property")
    if value is None:
        if not declared.nullable:
            raise InvalidArgument(f"{where}: it may not be null")
        return name, None
    try:
        return name, coerce(value, declared.type)
    except InvalidArgument as error:
        raise InvalidArgument(f"{where}: {error.message}") from error
