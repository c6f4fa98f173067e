"""The config file: the actor, the graph for commands that name none, and the settings.

A wrong value is an error that names the file and the key. Example:

operator:
  actor: alice
defaults:
  store: /data/people.omni
settings:
  write:
    durability: fsync

A file that was written for the original OmniGraph is read, too. Keys of features that this version
does not have are accepted. Other unknown keys are warnings, except under `settings:`, where a
mistyped key would silently weaken what the user asked for.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.settings.models import Settings
from omnigraph.values.known_names import did_you_mean

OutputFormat = Literal["table", "json", "jsonl", "csv", "kv", "arrow"]

_SETTINGS = "settings"
_KEYS = {
    "operator": ("actor",),
    "defaults": (
        "store",
        "output",
        "server",
        "default_graph",
        "table_max_column_width",
        "table_cell_layout",
    ),
}
_KEYS_BY_NAME = {
    "servers": ("url",),
    "clusters": ("root",),
    "profiles": ("server", "cluster", "store", "default_graph"),
    "aliases": ("server", "graph", "query", "args", "params", "format"),
}
"""Sections of named entries, with the keys of an entry. No feature of this version uses them."""
_PATHS = frozenset(
    ("cache_directory", "spill_directory", "temp_directory", "journal_dir", "log_file")
)
_MAY_BE_ZERO = frozenset(
    (
        "backoff_seconds",
        "cache_bytes",
        "cache_file_bytes",
        "deleted_share",
        "idempotency_days",
        "inline_ids",
        "kept_manifest_versions",
        "minimum_age_seconds",
        "orphan_tag_days",
        "reprepare_limit",
        "spark_from_bytes",
        "spark_merge_from_rows",
        "spill_bytes",
        "unindexed_rows",
        "wait_limit_seconds",
    )
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """The content of a config file; a key that it leaves out has its default."""

    actor: str | None = None
    store: str | None = None
    output: OutputFormat | None = None
    """How queries print rows when the command does not say it."""
    has_server: bool = False
    """Whether `defaults.server` names a server, which this version cannot reach."""
    settings: Settings = field(default_factory=Settings)
    warnings: tuple[str, ...] = ()
    """One for each key that is unknown and therefore ignored."""


def read_config(path: str | os.PathLike[str]) -> OperatorConfig:
    """Read and check a config file; raises `NotFound` when the file does not exist."""
    file = Path(path)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"no config file at {file}", file=str(file)) from None
    except OSError as error:
        raise InvalidArgument(f"cannot read {file}: {error.strerror}", file=str(file)) from None
    return _config_of(_parse(data, file), ConfigPlace(file))


def _parse(data: bytes, path: Path) -> Any:
    # Imported here, because most machines have no config file and the import takes as long as the
    # rest of the start.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path}: the text is not UTF-8", file=str(path)) from None
    except (YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        problem = getattr(error, "problem", None) or "this is not YAML"
        raise InvalidArgument(f"{place}: {problem}", file=str(path)) from None


def _config_of(body: Any, file: ConfigPlace) -> OperatorConfig:
    sections = file.content(body)
    operator = file.below("operator").content(sections.get("operator"))
    defaults = file.below("defaults").content(sections.get("defaults"))
    store = _text(defaults.get("store"), file.below("defaults").below("store"))
    return OperatorConfig(
        actor=_text(operator.get("actor"), file.below("operator").below("actor")),
        store=file.seen_from_file(store) if store else None,
        output=file.below("defaults")
        .below("output")
        .value(defaults.get("output"), OutputFormat | None),
        has_server=bool(defaults.get("server")),
        settings=settings_of(sections.get(_SETTINGS), file.below(_SETTINGS)),
        warnings=tuple(_warnings(sections, file)),
    )


def _warnings(sections: dict[str, Any], file: ConfigPlace) -> Iterator[str]:
    """Unknown keys of the file, of its sections, and of the entries of a section."""
    yield from file.warnings(sections, (*_KEYS, *_KEYS_BY_NAME, _SETTINGS))
    for section, keys in _KEYS.items():
        yield from file.below(section).warnings(sections.get(section), keys)
    for section, keys in _KEYS_BY_NAME.items():
        entries = sections.get(section)
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            yield from file.below(section).below(str(name)).warnings(entry, keys)


def _text(value: Any, place: ConfigPlace) -> str | None:
    if value == "":
        place.refuse("is empty")
    text: str | None = place.value(value, str | None)
    return text


def settings_of(body: Any, place: ConfigPlace) -> Settings:
    """The `settings:` part. Its keys are the field names of `Settings` and of its parts."""
    parts = get_type_hints(Settings)
    given = place.mapping(body, parts)
    return Settings(
        **{name: _part_of(given[name], parts[name], place.below(name)) for name in given}
    )


def _part_of(body: Any, part: type, place: ConfigPlace) -> Any:
    types = get_type_hints(part)
    given = place.mapping(body, [field.name for field in fields(part)])
    return part(
        **{name: _field_of(name, given[name], types[name], place.below(name)) for name in given}
    )


def _field_of(name: str, value: Any, wanted: Any, place: ConfigPlace) -> Any:
    if name == "api_key_env" and isinstance(value, str) and not _VARIABLE.fullmatch(value):
        # The value may be the API key itself, so the message does not repeat it.
        place.refuse("must be the name of an environment variable, not the API key itself")
    found = place.value(value, wanted)
    if isinstance(found, int | float) and not isinstance(found, bool):
        _check_size(name, found, place)
    if name in _PATHS and found is not None:
        return place.seen_from_file(found)
    if name == "blob_bases":
        return tuple(place.seen_from_file(base) for base in found)
    return found


def _check_size(name: str, number: float, place: ConfigPlace) -> None:
    least = 0 if name in _MAY_BE_ZERO else 1 if isinstance(number, int) else None
    if least is None and number <= 0:
        place.refuse(f"must be more than 0, got {number}")
    if least is not None and number < least:
        place.refuse(f"must be at least {least}, got {number}")


@dataclass(frozen=True, slots=True)
class ConfigPlace:
    """One key of a config file, or the whole file: the place that an error names."""

    file: Path
    key: str = ""

    def below(self, name: str) -> ConfigPlace:
        return ConfigPlace(self.file, f"{self.key}.{name}" if self.key else name)

    def refuse(self, problem: str) -> NoReturn:
        what = f"`{self.key}`" if self.key else "the file"
        details = {"key": self.key} if self.key else {}
        raise InvalidArgument(f"{self.file}: {what} {problem}", file=str(self.file), **details)

    def content(self, value: Any) -> dict[str, Any]:
        """`value` as a mapping with any keys; no value is an empty one."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.refuse("must hold `key: value` lines")
        return value

    def mapping(self, value: Any, known: Iterable[str]) -> dict[str, Any]:
        """`value` as a mapping that has only `known` keys."""
        found = self.content(value)
        for key in found:
            if key not in known:
                message = self.unknown(key, known)
                raise InvalidArgument(message, file=str(self.file), key=self.below(str(key)).key)
        return found

    def warnings(self, value: Any, known: Iterable[str]) -> Iterator[str]:
        """One for each key of `value` that is not known."""
        for key in value if isinstance(value, dict) else ():
            if key not in known:
                yield f"{self.unknown(key, known)} (ignored)"

    def unknown(self, key: Any, known: Iterable[str]) -> str:
        hint = did_you_mean(str(key), known)
        return f"{self.file}: unknown key `{self.below(str(key)).key}`; {hint}"

    def value(self, value: Any, wanted: Any) -> Any:
        """`value` as the type of a setting: `bool`, `int | None`, `Literal[…]`, `tuple[str, …]`."""
        options = get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
        if value is None and NoneType in options:
            return None
        wanted = next(option for option in options if option is not NoneType)
        match get_origin(wanted):
            case found if found is Literal:
                return self._choice(value, get_args(wanted))
            case found if found is tuple:
                return self._several(value, get_args(wanted)[0])
        return self._scalar(value, wanted)

    def seen_from_file(self, path: str) -> str:
        """A path of the file: relative to the file's directory, `~` is the home directory."""
        if not path or "://" in path:
            return path
        return str(self.file.absolute().parent / os.path.expanduser(path))  # noqa: PTH111 - never raises

    def _scalar(self, value: Any, wanted: Any) -> Any:
        if wanted is float and type(value) is int:
            value = float(value)
        if type(value) is not wanted or (wanted is str and "\0" in value):
            self.refuse(f"must be {_NAMES[wanted]}, got {_shown(value)}")
        if wanted is float and not math.isfinite(value):
            self.refuse(f"must be a finite number, got {value!r}")
        return value

    def _choice(self, value: Any, known: tuple[str, ...]) -> str:
        if not isinstance(value, str) or value not in known:
            self.refuse(f"must be one of {', '.join(known)}, got {_shown(value)}")
        return value

    def _several(self, value: Any, item: Any) -> tuple[Any, ...]:
        if get_origin(item) is tuple:
            return tuple(
                (str(name), self.below(str(name)).as_text(setting))
                for name, setting in self.content(value).items()
            )
        if not isinstance(value, list):
            self.refuse(f"must be a list, got {_shown(value)}")
        return tuple(
            ConfigPlace(self.file, f"{self.key}[{at}]").value(element, item)
            for at, element in enumerate(value)
        )

    def as_text(self, value: Any) -> str:
        """A value for the settings of another tool (Spark): numbers and booleans become text."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return str(value)
        return str(self._scalar(value, str))


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
