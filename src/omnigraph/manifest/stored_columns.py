"""Compare the columns of a table with the schema of the commit that pins it, by property id.

They differ only if a schema object or the files of a table were changed by another program, or were
restored from different moments. A table is compared once, when it is opened anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import EntityType, Property
from omnigraph.errors import SchemaDrift
from omnigraph.lance_store.staging.columns import PROPERTY_ID
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot

_KEY = PROPERTY_ID.encode()


@dataclass(frozen=True, slots=True)
class ColumnDifference:
    """One property whose stored column is not what the schema says."""

    graph_branch: str
    type_name: str
    property_name: str
    expected: str
    found: str
    column: str | None = None
    """The column that has the values, if only its name or its nullability differs."""

    @property
    def is_safe(self) -> bool:
        """`repair` can name the column as the schema does, and no value changes."""
        return self.column is not None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.type_name}.{self.property_name}: expected {self.expected}, found {self.found}"
        )


def require_columns(store: Store, snapshot: Snapshot, pin: TablePin) -> Dataset:
    """The dataset of a pin; raises `SchemaDrift` if its columns are not those of the schema."""
    dataset = store.open(pin.at)
    whole = (snapshot.schema_id, pin.key, pin.at)
    known = (*whole, None if snapshot.scope is None else snapshot.scope.key)
    # All columns of the schema include those that a scope shows.
    if not store.is_checked(known) and not store.is_checked((*whole, None)):
        for difference in column_differences(snapshot, pin, dataset):
            raise SchemaDrift(
                f"{difference}. The files or the schema were changed outside of OmniGraph: "
                + (
                    "`omnigraph repair` puts this right"
                    if difference.is_safe
                    else "restore the files of this table, or a backup"
                ),
                type=difference.type_name,
                property=difference.property_name,
                expected=difference.expected,
                found=difference.found,
                schema=snapshot.schema_id,
            )
        store.remember_checked(known)
    return dataset


def same_columns(store: Store, schema_id: str | None, before: TablePin, after: TablePin) -> None:
    """A commit of this process edited rows of a checked table: its columns need no other check."""
    if store.is_checked((schema_id, before.key, before.at, None)):
        store.remember_checked((schema_id, after.key, after.at, None))


def column_differences(
    snapshot: Snapshot, pin: TablePin, dataset: Dataset
) -> Iterator[ColumnDifference]:
    """Every property whose column is missing, or has another name, type or nullability."""
    entity: EntityType = snapshot.catalog.entity_type(pin.key)
    wanted, stored = table_schema(entity), dataset.schema
    by_name = {field.name: field for field in stored}
    by_identity = {
        field.metadata[_KEY].decode(): field
        for field in stored
        if field.metadata and _KEY in field.metadata
    }
    branch = snapshot.graph_branch
    properties = {p.name: p for p in entity.properties}
    for field in wanted:
        declared = properties.get(field.name)
        found = _column(declared, field.name, by_name, by_identity)
        expected = _words(field)
        if found is None:
            other = by_name.get(field.name)
            what = "no column" if other is None else f"the column of property {_identity(other)}"
            yield ColumnDifference(branch, entity.name, field.name, expected, what)
            continue
        same_type = _same_type(found.type, field.type)
        # A required property may be stored as nullable, because deleted rows may hold NULLs.
        too_strict = field.nullable and not found.nullable
        if not same_type or too_strict or found.name != field.name:
            column = found.name if same_type else None
            yield ColumnDifference(branch, entity.name, field.name, expected, _words(found), column)


def _column(
    declared: Property | None,
    name: str,
    by_name: dict[str, pa.Field],
    by_identity: dict[str, pa.Field],
) -> pa.Field | None:
    """The stored column of a property: by its identity, else the column of its name without one."""
    if declared is not None:
        for identity in (declared.identity, *declared.also):
            if identity in by_identity:
                return by_identity[identity]
    found = by_name.get(name)
    has_other = found is not None and found.metadata and _KEY in found.metadata
    return None if has_other and declared is not None and declared.identity else found


def _identity(field: pa.Field) -> str:
    return field.metadata[_KEY].decode() if field.metadata else "unknown"


def _same_type(stored: pa.DataType, wanted: pa.DataType) -> bool:
    if isinstance(stored, pa.ExtensionType) or isinstance(wanted, pa.ExtensionType):
        return True  # a blob, whose type Lance spells in its own way
    if pa.types.is_struct(stored) or pa.types.is_large_binary(wanted):
        return True
    if pa.types.is_list(stored) and pa.types.is_list(wanted):
        return bool(stored.value_type == wanted.value_type)
    if pa.types.is_fixed_size_list(stored) and pa.types.is_fixed_size_list(wanted):
        return bool(stored.value_type == wanted.value_type and stored.list_size == wanted.list_size)
    return bool(stored == wanted)


def _words(field: pa.Field) -> str:
    return f"column {field.name!r} of {field.type}{'' if field.nullable else ', required'}"
