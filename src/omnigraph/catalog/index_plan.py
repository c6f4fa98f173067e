"""The indexes that the table of an entity type wants; a pure function of the catalog."""

from __future__ import annotations

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType, Index, Key, Unique
from omnigraph.values.indexes import DEFAULT_RECALL, IndexKind, IndexSpec
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)


def wanted_indexes(entity: EntityType) -> tuple[IndexSpec, ...]:
    """System columns first, then properties named by `@key`, `@index`, `@unique`; each once.

    The key of an edge type needs no more: queries find edges by their ends.
    """
    system = (ID, SOURCE, TARGET) if isinstance(entity, EdgeType) else (ID,)
    wanted = {(name, IndexKind.SORTED): IndexSpec(name, IndexKind.SORTED) for name in system}
    types = {p.name: p.type for p in entity.properties}
    for constraint in entity.constraints:
        if isinstance(constraint, Unique):
            # Every write looks up its values here; without an index it would scan the column.
            for name in constraint.properties:
                if name in types and _is_looked_up(types[name]):
                    spec = IndexSpec(name, IndexKind.SORTED)
                    wanted.setdefault((name, IndexKind.SORTED), spec)
        if not isinstance(constraint, Index if isinstance(entity, EdgeType) else Key | Index):
            continue
        options = dict(constraint.options) if isinstance(constraint, Index) else {}
        for name in constraint.properties:
            # `@index(src)` on an edge names a system column, which always has an index.
            for kind in _kinds(types[name], options) if name in types else ():
                recall = float(options.get("recall", DEFAULT_RECALL))
                if (name, kind) not in wanted or "recall" in options:
                    wanted[name, kind] = IndexSpec(name, kind, recall)
    return tuple(wanted.values())


def _is_looked_up(value_type: ValueType) -> bool:
    """A filter can find values of this type; values of other types are compared after reading."""
    match value_type:
        case ScalarType() | EnumType():
            return True
        case _:
            return False


def _kinds(
    value_type: ValueType, options: dict[str, str | int | float | bool]
) -> tuple[IndexKind, ...]:
    match value_type:
        case ScalarType(ScalarKind.STRING):
            substring = (IndexKind.SUBSTRING,) if options.get("contains") else ()
            return (IndexKind.SORTED, IndexKind.FULL_TEXT, *substring)
        case ScalarType() | EnumType():
            return (IndexKind.SORTED,)
        case ListType():
            return (IndexKind.LIST,)
        case VectorType():
            return (IndexKind.VECTOR,)
        case BlobType():
            return ()
