"""The config file of an operator: who works, on which servers, clusters and stores, and how.

A wrong value is an error that names the file, the line and the key. Example:

operator:
  actor: alice
servers:
  prod: {url: "https://graphs.example.com"}
profiles:
  prod: {server: prod, default_graph: people}
defaults:
  store: /data/people.omni
settings:
  write:
    durability: fsync

A file that was written for the original OmniGraph is read, too. Unknown keys are warnings, except
under `settings:`, where a mistyped key would silently weaken what the user asked for. Profiles and
aliases are checked when they are used, so a wrong one does not stop other commands.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.settings.models import Settings
from omnigraph.values.known_names import did_you_mean

OutputFormat = Literal["table", "json", "jsonl", "csv", "kv", "arrow"]
CellLayout = Literal["truncate", "wrap"]

_SETTINGS = "settings"
_KEYS = {
    "operator": ("actor",),
    "defaults": (
        "store",
        "output",
        "server",
        "default_graph",
        "branch",
        "table_max_column_width",
        "table_cell_layout",
    ),
}
_KEYS_BY_NAME = {
    "servers": ("url",),
    "clusters": ("root",),
    "profiles": ("server", "cluster", "store", "default_graph", "branch"),
    "aliases": ("server", "graph", "query", "args", "params", "format"),
}
"""Sections of named entries, with the keys of an entry."""
_BINDINGS = ("server", "cluster", "store")
_SERVER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PATHS = frozenset(
    (
        "archive_directory",
        "cache_directory",
        "spill_directory",
        "temp_directory",
        "journal_dir",
        "log_file",
    )
)
_MAY_BE_ZERO = frozenset(
    (
        "answer_bytes",
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
class ProfileEntry:
    """A saved scope: exactly one of `server`, `cluster` and `store`, if it is valid."""

    name: str
    server: str | None = None
    """The name of a server, or its URL."""
    cluster: str | None = None
    """The name of a cluster, or its directory or storage root."""
    store: str | None = None
    default_graph: str | None = None
    branch: str | None = None
    error: str | None = None
    """What is wrong with the entry."""

    @property
    def binding(self) -> str | None:
        return self.server or self.cluster or self.store


@dataclass(frozen=True, slots=True)
class AliasEntry:
    """A short name for a stored query of a server."""

    name: str
    server: str = ""
    query: str = ""
    graph: str | None = None
    args: tuple[str, ...] = ()
    """The parameters that the words after the alias are, in order."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that are always the same."""
    format: OutputFormat | None = None
    error: str | None = None
    """What is wrong with the entry."""


@dataclass(frozen=True, slots=True)
class TableLook:
    """How tables of rows look."""

    max_column_width: int = 80
    """Characters of a cell; longer ones are cut or wrapped."""
    cell_layout: CellLayout = "truncate"


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """The content of a config file; a key that it leaves out has its default."""

    actor: str | None = None
    server: str | None = None
    """`defaults.server`: the name of a server, or its URL."""
    store: str | None = None
    default_graph: str | None = None
    """The graph of `defaults.server`."""
    branch: str | None = None
    """The branch of commands that name none."""
    output: OutputFormat | None = None
    """How queries print rows when the command does not say it."""
    table: TableLook = field(default_factory=TableLook)
    servers: Mapping[str, str] = field(default_factory=dict)
    """The URLs of servers, by name."""
    clusters: Mapping[str, str] = field(default_factory=dict)
    """The directories or storage roots of clusters, by name."""
    profiles: Mapping[str, ProfileEntry] = field(default_factory=dict)
    aliases: Mapping[str, AliasEntry] = field(default_factory=dict)
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
    text, body = _parse(data, file)
    return _config_of(body, ConfigPlace(file, text=text))


def _parse(data: bytes, path: Path) -> tuple[str, Any]:
    # Imported here, because most machines have no config file and the import takes as long as the
    # rest of the start.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        text = data.decode("utf-8")
        return text, YAML(typ="safe", pure=True).load(text)
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
    place = file.below("defaults")
    defaults = place.content(sections.get("defaults"))
    store = _text(defaults.get("store"), place.below("store"))
    clusters = _clusters(sections.get("clusters"), file.below("clusters"))
    profiles = file.below("profiles").content(sections.get("profiles"))
    aliases = file.below("aliases").content(sections.get("aliases"))
    return OperatorConfig(
        actor=_text(operator.get("actor"), file.below("operator").below("actor")),
        server=_text(defaults.get("server"), place.below("server")),
        store=file.seen_from_file(store) if store else None,
        default_graph=_text(defaults.get("default_graph"), place.below("default_graph")),
        branch=_text(defaults.get("branch"), place.below("branch")),
        output=place.below("output").value(defaults.get("output"), OutputFormat | None),
        table=_table_look(defaults, place),
        servers=_servers(sections.get("servers"), file.below("servers")),
        clusters=clusters,
        profiles={
            str(name): _profile(str(name), entry, file.below("profiles").below(str(name)), clusters)
            for name, entry in profiles.items()
        },
        aliases={
            str(name): _alias(str(name), entry, file.below("aliases").below(str(name)))
            for name, entry in aliases.items()
        },
        settings=settings_of(sections.get(_SETTINGS), file.below(_SETTINGS)),
        warnings=tuple(_warnings(sections, file)),
    )


def _table_look(defaults: dict[str, Any], place: ConfigPlace) -> TableLook:
    standard = TableLook()
    width = place.below("table_max_column_width")
    found = width.value(defaults.get("table_max_column_width"), int | None)
    if found is not None and found < 1:
        width.refuse(f"must be at least 1, got {found}")
    layout = place.below("table_cell_layout").value(
        defaults.get("table_cell_layout"), CellLayout | None
    )
    return TableLook(
        max_column_width=standard.max_column_width if found is None else found,
        cell_layout=standard.cell_layout if layout is None else layout,
    )


def _servers(body: Any, place: ConfigPlace) -> dict[str, str]:
    found: dict[str, str] = {}
    variables: dict[str, str] = {}
    for name, entry in place.content(body).items():
        below = place.below(str(name))
        if not _SERVER_NAME.fullmatch(str(name)):
            below.refuse("is no name of a server: letters, digits, `_` and `-`, no digit first")
        other = variables.setdefault(token_variable(name), name)
        if other != name:
            below.refuse(
                f"and `{place.key}.{other}` share the variable {token_variable(name)}, so the "
                "token of one would go to the other: rename one of them"
            )
        found[name] = _text(below.content(entry).get("url"), below.below("url")) or ""
    return found


def token_variable(server: str) -> str:
    """The environment variable with the token of a server."""
    return f"OMNIGRAPH_TOKEN_{server.upper().replace('-', '_')}"


def _clusters(body: Any, place: ConfigPlace) -> dict[str, str]:
    found = {}
    for name, entry in place.content(body).items():
        below = place.below(str(name))
        root = _text(below.content(entry).get("root"), below.below("root"))
        found[str(name)] = place.seen_from_file(root or "")
    return found


def _profile(name: str, body: Any, place: ConfigPlace, clusters: Mapping[str, str]) -> ProfileEntry:
    """The entry, with its error instead of its content if there is one."""
    try:
        entry = place.content(body)
        given = {key: _text(entry.get(key), place.below(key)) for key in _KEYS_BY_NAME["profiles"]}
        bound = [key for key in _BINDINGS if given[key] is not None]
        if len(bound) != 1:
            named = f"has {' and '.join(bound)}" if bound else "has none"
            place.refuse(f"must have exactly one of {', '.join(_BINDINGS)}; it {named}")
        if given["store"] is not None and given["default_graph"] is not None:
            place.refuse("must not have a default_graph, because a store is one graph")
    except InvalidArgument as error:
        return ProfileEntry(name, error=error.message)
    if given["store"] is not None:
        given["store"] = place.seen_from_file(given["store"])
    if given["cluster"] is not None and given["cluster"] not in clusters:
        given["cluster"] = place.seen_from_file(given["cluster"])
    return ProfileEntry(name, **given)


def _alias(name: str, body: Any, place: ConfigPlace) -> AliasEntry:
    """The entry, with its error instead of its content if there is one."""
    try:
        entry = place.content(body)
        args = place.below("args").value(entry.get("args") or [], tuple[str, ...])
        params = place.below("params").content(entry.get("params"))
        for arg in args:
            if args.count(arg) > 1 or arg in params:
                place.refuse(f"gives the parameter {arg!r} twice")
        return AliasEntry(
            name,
            server=_required(entry, "server", place),
            query=_required(entry, "query", place),
            graph=_text(entry.get("graph"), place.below("graph")),
            args=args,
            params=params,
            format=place.below("format").value(entry.get("format"), OutputFormat | None),
        )
    except InvalidArgument as error:
        return AliasEntry(name, error=error.message)


def _required(entry: dict[str, Any], key: str, place: ConfigPlace) -> str:
    found = _text(entry.get(key), place.below(key))
    if found is None:
        place.refuse(f"has no `{key}`")
    return found


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
    names: tuple[str, ...] = ()
    """The keys from the top of the file to this one."""
    text: str = ""
    """The whole file, in which an error finds its line."""

    @property
    def key(self) -> str:
        return ".".join(self.names)

    def below(self, name: str) -> ConfigPlace:
        return ConfigPlace(self.file, (*self.names, name), self.text)

    def refuse(self, problem: str) -> NoReturn:
        what = f"`{self.key}`" if self.key else "the file"
        raise self.error(f"{what} {problem}")

    def error(self, message: str) -> InvalidArgument:
        line = _line_of(self.names, self.text)
        place = str(self.file) if line is None else f"{self.file}:{line}"
        details: dict[str, Any] = {"key": self.key} if self.key else {}
        if line is not None:
            details["line"] = line
        return InvalidArgument(f"{place}: {message}", file=str(self.file), **details)

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
                raise self.below(str(key)).error(self.unknown(key, known))
        return found

    def warnings(self, value: Any, known: Iterable[str]) -> Iterator[str]:
        """One for each key of `value` that is not known."""
        for key in value if isinstance(value, dict) else ():
            if key not in known:
                yield f"{self.file}: {self.unknown(key, known)} (ignored)"

    def unknown(self, key: Any, known: Iterable[str]) -> str:
        hint = did_you_mean(str(key), known)
        return f"unknown key `{self.below(str(key)).key}`; {hint}"

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
        return tuple(self.item(at).value(element, item) for at, element in enumerate(value))

    def item(self, at: int) -> ConfigPlace:
        """One element of a list."""
        return ConfigPlace(self.file, (*self.names[:-1], f"{self.names[-1]}[{at}]"), self.text)

    def as_text(self, value: Any) -> str:
        """A value for the settings of another tool (Spark): numbers and booleans become text."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return str(value)
        return str(self._scalar(value, str))


def _line_of(names: tuple[str, ...], text: str) -> int | None:
    """The line of the deepest of these nested keys that the YAML text has."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode

    node, line = YAML(typ="safe", pure=True).compose(text), None
    for name in names:
        if not isinstance(node, MappingNode):
            break
        wanted = name.partition("[")[0]
        for key, value in node.value:
            if key.value == wanted:
                node, line = value, key.start_mark.line + 1
                break
        else:
            break
    return line


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
