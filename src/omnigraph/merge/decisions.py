"""How conflicts are decided: a strategy for all of them, resolutions for single ones."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from omnigraph.catalog.model import SOURCE, TARGET, EdgeType, EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.merge.conflicts import Conflict
from omnigraph.values.blob_values import judged_blob
from omnigraph.values.coercion import coerce
from omnigraph.values.external_blobs import NONE_ALLOWED, ExternalBases
from omnigraph.values.scalars import BlobType

_ENDS = {"from": SOURCE, "to": TARGET, SOURCE: SOURCE, TARGET: TARGET}


STRATEGIES = ("fail", "ours", "theirs")


class Side(StrEnum):
    """Where an entity or a property is taken from."""

    BASE = "base"
    OURS = "ours"
    THEIRS = "theirs"
    DELETE = "delete"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Take:
    """A decision; with `Side.VALUE`, `value` is the property's value or a dict of properties."""

    side: Side
    value: Any = None
    external: ExternalBases = NONE_ALLOWED
    """The external blobs that `value` may name."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """One entry of a resolutions file; without an `entity_id` it is about the schema."""

    type_name: str
    entity_id: str
    property: str | None
    take: Take

    def fits(self, conflict: Conflict) -> bool:
        return (self.type_name, self.entity_id) == (conflict.type_name, conflict.entity_id) and (
            self.property is None or self.property == conflict.property
        )

    def __str__(self) -> str:
        name = f".{self.property}" if self.property else ""
        entity = f" {self.entity_id!r}" if self.entity_id else ""
        return f"{self.type_name}{entity}{name}"


class Decisions:
    """Decides conflicts, and records which resolutions decided one."""

    def __init__(self, strategy: str = "fail", resolutions: Iterable[Resolution] = ()) -> None:
        if strategy not in STRATEGIES:
            raise InvalidArgument(f"strategy {strategy!r} is not one of {', '.join(STRATEGIES)}")
        self._strategy = None if strategy == "fail" else Take(Side(strategy))
        self._resolutions = tuple(resolutions)
        self._by_entity: dict[tuple[str, str], list[int]] = {}
        for number, resolution in enumerate(self._resolutions):
            key = (resolution.type_name, resolution.entity_id)
            self._by_entity.setdefault(key, []).append(number)
        self._used: set[int] = set()

    @property
    def uniform(self) -> Side | None:
        """One winner for every conflict, so that conflicts need not be visited one by one."""
        by_row = any(entity_id for _, entity_id in self._by_entity)
        return self._strategy.side if self._strategy and not by_row else None

    def decide(self, conflict: Conflict) -> Take | None:
        for number in self._by_entity.get((conflict.type_name, conflict.entity_id), ()):
            if self._resolutions[number].fits(conflict):
                chosen = self._resolutions[number]
                self._used.update(n for n, r in enumerate(self._resolutions) if r == chosen)
                return chosen.take
        return self._strategy

    @property
    def used(self) -> frozenset[int]:
        """Numbers of the resolutions that decided a conflict; workers report theirs."""
        return frozenset(self._used)

    def note_used(self, numbers: Iterable[int]) -> None:
        self._used.update(numbers)

    def refuse_hidden(self, shown: Collection[str] | None) -> None:
        """Refuse resolutions of types that are not `shown` (None: all are) as if unused.

        This comes before the merge, so the answer does not depend on hidden entities.
        """
        if shown is not None:
            _refuse([r for r in self._resolutions if r.type_name not in shown])

    def refuse_unused(self) -> None:
        _refuse([r for number, r in enumerate(self._resolutions) if number not in self._used])


def _refuse(unused: list[Resolution]) -> None:
    if unused:
        names = [str(resolution) for resolution in unused]
        raise InvalidArgument(
            f"no conflict for the resolution of {', '.join(names[:10])}: "
            "a resolution must name a conflict that a preview of the merge lists",
            resolutions=names,
        )


def read_resolutions(given: object, external: ExternalBases = NONE_ALLOWED) -> list[Resolution]:
    """A list of entries, or the path of a JSON or YAML file that holds one.

    `external` says which external blobs their values may name.
    """
    if given is None:
        return []
    if isinstance(given, str | os.PathLike):
        given = _read_file(Path(given))
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise InvalidArgument("resolutions must be a list of entries")
    found = [_resolution(number, entry) for number, entry in enumerate(given, 1)]
    return [replace(each, take=replace(each.take, external=external)) for each in found]


def _read_file(path: Path) -> object:
    try:
        # JSON is valid YAML 1.2, and this reader refuses duplicate keys in both.
        return YAML(typ="safe").load(path.read_text())
    except OSError as error:
        raise InvalidArgument(f"resolutions file {path}: {error.strerror}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"resolutions file {path} cannot be read: {error}") from error


def _resolution(number: int, entry: object) -> Resolution:
    where = f"resolution {number}"
    if not isinstance(entry, Mapping):
        raise InvalidArgument(f"{where} is not an object: {entry!r}")
    unknown = set(entry) - {"type_name", "entity_id", "property", "take", "value"}
    if unknown:
        raise InvalidArgument(f"{where} has an unknown field {sorted(map(str, unknown))[0]!r}")
    type_name, entity_id, name = (entry.get(f) for f in ("type_name", "entity_id", "property"))
    if not isinstance(type_name, str):
        raise InvalidArgument(
            f"{where} needs a type_name, and an entity_id unless it decides about "
            "the schema; both are strings"
        )
    if name is not None and not isinstance(name, str):
        raise InvalidArgument(f"{where}: property must be a string")
    if "entity_id" not in entry:
        take = _take(where, entry)
        if take.side not in (Side.OURS, Side.THEIRS):
            raise InvalidArgument(
                f"{where} has no entity_id, so it decides about the schema: take must be ours or "
                "theirs"
            )
        return Resolution(type_name, "", name, take)
    if not isinstance(entity_id, str) or not entity_id:
        raise InvalidArgument(f"{where}: entity_id must be a string that is not empty")
    return Resolution(type_name, entity_id, name, _take(where, entry))


def _take(where: str, entry: Mapping[str, Any]) -> Take:
    if ("take" in entry) == ("value" in entry):
        raise InvalidArgument(f"{where} needs either take or value")
    if "value" in entry:
        return Take(Side.VALUE, entry["value"])
    allowed = [side.value for side in Side if side is not Side.VALUE]
    if entry["take"] not in allowed:
        raise InvalidArgument(f"{where}: take {entry['take']!r} is not one of {', '.join(allowed)}")
    return Take(Side(entry["take"]))


def given_value(
    entity: EntityType, name: str, value: object, external: ExternalBases
) -> tuple[str, Any]:
    """(column, typed value) of a property that a resolution names."""
    where = f"resolution of {entity.name}.{name}"
    if isinstance(entity, EdgeType) and name in _ENDS:
        if not isinstance(value, str):
            raise InvalidArgument(f"{where}: {value!r} is not an id")
        return _ENDS[name], value
    declared = next((p for p in entity.properties if p.name == name), None)
    if declared is None:
        raise InvalidArgument(f"{where}: {entity.name} has no such property")
    if value is None:
        if not declared.nullable:
            raise InvalidArgument(f"{where}: it may not be null")
        return name, None
    try:
        if isinstance(declared.type, BlobType):
            return name, judged_blob(value, external)
        return name, coerce(value, declared.type)
    except InvalidArgument as error:
        raise InvalidArgument(f"{where}: {error.message}") from error
