"""How the rows of a load change the stored entities: one mode for all types, or one for each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.values.identifiers import TableKey
from omnigraph.values.known_names import did_you_mean


class LoadMode(StrEnum):
    """How the input changes the stored entities."""

    APPEND = "append"
    """Every entity is new; an id that exists is a `KeyConflict`."""
    MERGE = "merge"
    """Insert or replace by id. Of several lines with one id, the last wins."""
    PATCH = "patch"
    """Insert or change by id: only what a row has changes, and what it leaves out stays."""
    OVERWRITE = "overwrite"
    """The types that occur in the input hold exactly the input afterwards."""
    MIRROR = "mirror"
    """As merge, and entities that the input does not have are removed.

    A scope limits what is removed: entities outside of it stay. Rejected rows keep their stored
    entities.
    """

    @staticmethod
    def parse(text: str) -> LoadMode:
        known = {mode.value: mode for mode in LoadMode}
        if text not in known:
            raise InvalidArgument(f"no load mode {text!r}; there is: {', '.join(known)}")
        return known[text]


MATCHING = frozenset({LoadMode.MERGE, LoadMode.PATCH, LoadMode.MIRROR})
"""Modes in which an edge without an id may mean a stored edge."""
SHRINKING = frozenset({LoadMode.OVERWRITE, LoadMode.MIRROR})
"""Modes that remove entities which the input does not have."""


@dataclass(frozen=True, slots=True)
class LoadModes:
    """The mode of every type of a load."""

    default: LoadMode = LoadMode.APPEND
    by_type: Mapping[str, LoadMode] = field(default_factory=dict)
    """Type -> mode. If it is not empty, the input may have no other types."""
    scopes: Mapping[str, str] = field(default_factory=dict)
    """Type -> condition of the query language: what a mirror may remove."""

    @staticmethod
    def parse(mode: str | Mapping[str, str], scope: str | Mapping[str, str] | None) -> LoadModes:
        """From the arguments of `Graph.load`."""
        if isinstance(mode, str):
            modes = LoadModes(LoadMode.parse(mode))
        else:
            modes = LoadModes(
                by_type={str(name): LoadMode.parse(text) for name, text in mode.items()}
            )
            if not modes.by_type:
                raise InvalidArgument("mode is a text, or has at least one type", option="mode")
        if scope is None:
            return modes
        if isinstance(scope, str):
            if len(modes.by_type) != 1:
                raise InvalidArgument(
                    "scope is one condition only if mode names one type; give a dict by type",
                    option="scope",
                )
            scope = dict.fromkeys(modes.by_type, scope)
        for name in scope:
            if modes.of_type(name) is not LoadMode.MIRROR:
                raise InvalidArgument(
                    f"scope of {name}: only mode mirror has a scope", option="scope", type=name
                )
        return LoadModes(modes.default, modes.by_type, dict(scope))

    @property
    def text(self) -> str:
        """The one mode of all types, or `mixed`."""
        found = {*self.by_type.values()} or {self.default}
        return next(iter(found)).value if len(found) == 1 else "mixed"

    def of_type(self, name: str) -> LoadMode:
        return self.by_type.get(name, self.default)

    def of(self, key: TableKey) -> LoadMode:
        return self.of_type(key.type_name)

    def with_mode(
        self, keys: Collection[TableKey], modes: Collection[LoadMode]
    ) -> frozenset[TableKey]:
        """Those of `keys` that have one of these modes."""
        return frozenset(key for key in keys if self.of(key) in modes)

    def may_be(self, mode: LoadMode) -> bool:
        """Whether some type has this mode."""
        return mode in (self.by_type.values() if self.by_type else (self.default,))

    def check(self, catalog: Catalog, named: Collection[str | None]) -> None:
        """Refuse unknown types, and sources whose type has no mode. `named` are their types."""
        for name in self.by_type:
            try:
                catalog.resolve(name)
            except NotFound as error:
                raise InvalidArgument(f"mode: {error.message}", option="mode", type=name) from None
        if not self.by_type:
            return
        for given in named:
            if given is None:
                raise InvalidArgument(
                    "with a mode for each type the input is a dict by type, because rows that name "
                    "their own types could be of any",
                    option="mode",
                )
            if given not in self.by_type:
                raise InvalidArgument(
                    f"mode has no entry for {given}; {did_you_mean(given, self.by_type)}",
                    option="mode",
                    type=given,
                )
