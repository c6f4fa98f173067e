"""Which stored columns of which variable a query asks for: all that a scan has to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import children
from omnigraph.values.scalars import BlobType, VectorType

_SYSTEM = {ex.VariableKind.NODE: (), ex.VariableKind.EDGE: ("src", "dst")}


@dataclass(frozen=True, slots=True)
class NeededColumns:
    """By variable; `id` is always there and not listed."""

    by_variable: Mapping[int, frozenset[str]]

    def of(self, variable: ex.Variable) -> list[str]:
        return sorted(self.by_variable.get(variable.id, ()))


def needed_columns(plan: reads.ReadOp, catalog: Catalog) -> NeededColumns:
    found: dict[int, set[str]] = {}
    _collect(plan, catalog, found)
    return NeededColumns({variable: frozenset(names) for variable, names in found.items()})


def shown_columns(kind: ex.EntityType, catalog: Catalog) -> list[str]:
    """What an entity shows of itself: everything but blobs and vectors, `id` first."""
    names = [
        p.name
        for type_name in kind.types
        for p in catalog.resolve(type_name).properties
        if not isinstance(p.type, BlobType | VectorType)
    ]
    return list(dict.fromkeys(("id", *_SYSTEM[kind.kind], *names)))


def _collect(node: Any, catalog: Catalog, found: dict[int, set[str]]) -> None:
    match node:
        case ex.PropertyOf(variable, name):
            found.setdefault(variable.id, set()).update({name} - {"id"})
        case ex.AggregateCall("count", ex.Whole()) | ex.IsNull(ex.Whole()):
            return  # asks only whether it is there, and which one it is
        case ex.Whole(variable, ex.EntityType() as kind):
            names = set(shown_columns(kind, catalog)) - {"id"}
            found.setdefault(variable.id, set()).update(names)
        case _:
            for child in children(node):
                _collect(child, catalog, found)
