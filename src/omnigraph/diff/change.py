"""One changed entity as users see it, pages of changes, and filters on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument
from omnigraph.values.identifiers import EntityKind
from omnigraph.values.json_values import json_value

Image = dict[str, Any]
"""A whole entity: `id`, for edges `from` and `to`, and every property."""


_CHANGE_BYTES = 128
_SCALAR_BYTES = 12


class ChangeOp(StrEnum):
    """What happened to an entity."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class ChangedType:
    """A type by its name and by its id, which stays the same when the type is renamed."""

    id: str
    name: str

    def to_dict(self) -> dict[str, str]:
        return {"id": self.id, "name": self.name}


@dataclass(frozen=True, slots=True)
class Change:
    """An entity before and after; None where it does not exist."""

    kind: str
    type: ChangedType
    id: str
    op: str
    before: Image | None = None
    after: Image | None = None

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "kind": self.kind,
            "type": self.type.to_dict(),
            "id": self.id,
            "op": self.op,
        }
        if self.before is not None:
            found["before"] = json_value(self.before)
        if self.after is not None:
            found["after"] = json_value(self.after)
        return found

    @property
    def size(self) -> int:
        """About how many bytes its JSON has."""
        images = (image for image in (self.before, self.after) if image is not None)
        return _CHANGE_BYTES + sum(_value_bytes(image) for image in images)

    @property
    def changed_properties(self) -> tuple[str, ...]:
        """Properties whose value differs, for an update."""
        if self.before is None or self.after is None:
            return ()
        names = list(dict.fromkeys([*self.before, *self.after]))
        return tuple(n for n in names if self.before.get(n) != self.after.get(n))


class ChangePage(list[Change]):
    """Changes in a stable order; `next_cursor` continues where `limit` ended the page."""

    def __init__(self, changes: Iterable[Change] = (), next_cursor: str | None = None) -> None:
        super().__init__(changes)
        self.next_cursor = next_cursor

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"changes": [change.to_dict() for change in self]}
        if self.next_cursor is not None:
            found["next_cursor"] = self.next_cursor
        return found


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes to return; None means all."""

    types: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    ops: tuple[str, ...] | None = None

    @staticmethod
    def of(
        types: Sequence[str] | None, kinds: Sequence[str] | None, ops: Sequence[str] | None
    ) -> ChangeFilter:
        return ChangeFilter(
            _names("types", types, None),
            _names("kinds", kinds, [kind.value for kind in EntityKind]),
            _names("ops", ops, [op.value for op in ChangeOp]),
        )

    def check_types(self, *catalogs: Catalog) -> None:
        """Refuse a type that no side has: it is misspelled, not unchanged."""
        for name in self.types or ():
            if not any(name in c.node_types or name in c.edge_types for c in catalogs):
                catalogs[-1].resolve(name)

    def wants_table(self, kind: str, names: Iterable[str]) -> bool:
        return (self.kinds is None or kind in self.kinds) and (
            self.types is None or any(name in self.types for name in names)
        )

    def wants_op(self, op: str) -> bool:
        return self.ops is None or op in self.ops


def _value_bytes(value: Any) -> int:
    match value:
        case str() | bytes():
            return 2 + len(value) * 4 // 3
        case list():
            return 2 + sum(map(_value_bytes, value))
        case dict():
            return 2 + sum(len(name) + 4 + _value_bytes(item) for name, item in value.items())
        case _:
            return _SCALAR_BYTES


def _names(
    what: str, given: Sequence[str] | None, allowed: Sequence[str] | None
) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given)
    wrong = [name for name in names if allowed is not None and name not in allowed]
    if wrong:
        raise InvalidArgument(f"{what}: {wrong[0]!r} is not one of {', '.join(allowed or ())}")
    return tuple(sorted(names))
