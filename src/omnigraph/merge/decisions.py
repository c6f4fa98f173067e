"""Who wins: a strategy for everything, resolutions for single conflicts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from omnigraph.catalog.model import SOURCE, TARGET, EdgeType, EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.merge.conflicts import Conflict
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


class Side(StrEnum):
    """Whose state an entity or property takes."""

    BASE = "base"
    OURS = "ours"
    THEIRS = "theirs"
    DELETE = "delete"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Take:
    """A decision; `value` for Side.VALUE: of the property, or properties by name."""

    side: Side
    value: Any = None


@dataclass(frozen=True, slots=True)
class Resolution:
    """One entry of a resolutions file."""

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
        return f"{self.type_name} {self.entity_id!r}{name}"


STRATEGIES = ("fail", "ours", "theirs")


class Decisions:
    """Decides conflicts and remembers which resolutions had something to resolve."""

    def __init__(self, strategy: str = "fail", resolutions: Iterable[Resolution] = ()) -> None:
        if strategy not in STRATEGIES:
            raise InvalidArgument(f"strategy {strategy!r} is none of {', '.join(STRATEGIES)}")
        self._strategy = None if strategy == "fail" else Take(Side(strategy))
        self._resolutions = tuple(resolutions)
        self._by_entity: dict[tuple[str, str], list[int]] = {}
        for number, resolution in enumerate(self._resolutions):
            key = (resolution.type_name, resolution.entity_id)
            self._by_entity.setdefault(key, []).append(number)
        self._used: set[int] = set()

    @property
    def uniform(self) -> Side | None:
        """One winner for everything, so that conflicts need not be looked at singly."""
        return self._strategy.side if self._strategy and not self._by_entity else None

    def decide(self, conflict: Conflict) -> Take | None:
        for number in self._by_entity.get((conflict.type_name, conflict.entity_id), ()):
            if self._resolutions[number].fits(conflict):
                self._used.add(number)
                return self._resolutions[number].take
        return self._strategy

    @property
    def used(self) -> frozenset[int]:
        """Numbers of the resolutions that decided something; a copy elsewhere reports its own."""
        return frozenset(self._used)

    def note_used(self, numbers: Iterable[int]) -> None:
        self._used.update(numbers)

    def refuse_unused(self) -> None:
        unused = [r for number, r in enumerate(self._resolutions) if number not in self._used]
        if unused:
            names = [str(resolution) for resolution in unused]
            raise InvalidArgument(
                f"no conflict for the resolution of {', '.join(names[:10])}: "
                "look at a preview, then name its conflicts",
                resolutions=names,
            )


def read_resolutions(given: object) -> list[Resolution]:
    """A list of entries, or the path of a JSON or YAML file that holds one."""
    if given is None:
        return []
    if isinstance(given, str | os.PathLike):
        given = _read_file(Path(given))
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise InvalidArgument("resolutions are a list of entries")
    return [_resolution(number, entry) for number, entry in enumerate(given, 1)]


def _read_file(path: Path) -> object:
    try:
        # YAML 1.2 holds JSON, and this reader refuses duplicate keys in both.
        return YAML(typ="safe").load(path.read_text())
    except OSError as error:
        raise InvalidArgument(f"resolutions file {path}: {error.strerror}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"resolutions file {path} cannot be read: {error}") from error


def _resolution(number: int, entry: object) -> Resolution:
    where = f"resolution {number}"
    if not isinstance(entry, Mapping):
        raise InvalidArgument(f"{where} is no object: {entry!r}")
    unknown = set(entry) - {"type_name", "entity_id", "property", "take", "value"}
    if unknown:
        raise InvalidArgument(f"{where}: {sorted(map(str, unknown))[0]!r} is not known here")
    names = [entry.get("type_name"), entry.get("entity_id"), entry.get("property")]
    if not (isinstance(names[0], str) and isinstance(names[1], str)):
        raise InvalidArgument(f"{where} needs the texts type_name and entity_id")
    if names[2] is not None and not isinstance(names[2], str):
        raise InvalidArgument(f"{where}: property is a name")
    return Resolution(names[0], names[1], names[2], _take(where, entry))


def _take(where: str, entry: Mapping[str, Any]) -> Take:
    if ("take" in entry) == ("value" in entry):
        raise InvalidArgument(f"{where} needs either take or value")
    if "value" in entry:
        return Take(Side.VALUE, entry["value"])
    allowed = [side.value for side in Side if side is not Side.VALUE]
    if entry["take"] not in allowed:
        raise InvalidArgument(f"{where}: take {entry['take']!r} is none of {', '.join(allowed)}")
    return Take(Side(entry["take"]))
