"""Read and check `cluster.yaml`: every mistake of the file, each with its line and column."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from omnigraph.cluster.declarations import (
    CONFIG_FILE,
    CONFIG_FILES,
    ERROR,
    WARNING,
    ApprovalRule,
    BlobBase,
    ClusterConfig,
    ClusterDiagnostic,
    GraphDeclaration,
    PolicyDeclaration,
    ProviderDeclaration,
    QueryEntry,
    SeedData,
    has_errors,
)
from omnigraph.errors import InvalidArgument
from omnigraph.maintain.garbage import Retention
from omnigraph.syntax.strict_yaml import DUPLICATE_KEY, FileFindings, read_yaml
from omnigraph.values.external_blobs import base_problem, overlap
from omnigraph.values.identifiers import GRAPH_ID, RESERVED_GRAPH_IDS
from omnigraph.values.known_names import did_you_mean

RESOURCE_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
CLUSTER_SCOPE = "cluster"

_INVALID = "invalid_cluster_yaml"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FUTURE = ("apply", "env_file", "pipelines", "embeddings", "ui", "aliases", "bindings")
_KEYS = (
    "version",
    "metadata",
    "storage",
    "state",
    "providers",
    "graphs",
    "policies",
    "approvals",
)
_GRAPH_KEYS = (
    "schema",
    "queries",
    "embedding_provider",
    "external_blobs",
    "schema_migration",
    "data",
    "retention",
)
_PROVIDER_KINDS = ("openai-compatible", "openai", "gemini", "mock")
_SCOPES = ("server_safe", "embedded_only")
_MODES = ("append", "merge", "patch", "overwrite")
_PROVIDER = "provider.embedding."

_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """A config and its diagnostics. With an error in the file there is no config."""

    config: ClusterConfig | None
    diagnostics: tuple[ClusterDiagnostic, ...]


def find_config(directory: Path) -> Path | None:
    """The config file of a directory, or None when it has none."""
    return next((file for name in CONFIG_FILES if (file := directory / name).is_file()), None)


def read_config_directory(
    directory: str | os.PathLike[str], environment: Mapping[str, str]
) -> ReadConfig:
    """Read the config of a directory; mistakes come back as diagnostics."""
    folder = Path(directory).expanduser().absolute()
    if not folder.is_dir():
        message = f"no directory at {folder}: name the directory of {CONFIG_FILE} with --config"
        return _failed("config_dir_not_found", message, str(folder))
    file = find_config(folder)
    if file is None:
        message = f"{folder} has no {CONFIG_FILE}"
        return _failed("cluster_config_read_error", message, str(folder / CONFIG_FILE))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return _failed("cluster_config_read_error", f"cannot be read: {error}", str(file))
    return read_config_text(text, file, environment)


def _failed(code: str, message: str, file: str) -> ReadConfig:
    return ReadConfig(None, (ClusterDiagnostic(code, message, file=file),))


def read_config_text(text: str, file: Path, environment: Mapping[str, str]) -> ReadConfig:
    findings = FileFindings()
    # Tabs are legal between the tokens of JSON and nowhere in YAML.
    root = read_yaml(text.replace("\t", " "), findings)
    if root is None:
        first = findings[0]
        code = "duplicate_yaml_key" if first.code == DUPLICATE_KEY else _INVALID
        place = (str(file), first.line, first.column)
        return ReadConfig(None, (ClusterDiagnostic(code, first.message, "", ERROR, *place),))
    reading = _ConfigReading(file, root.value, environment)
    config = reading.config()
    usable = None if has_errors(reading.diagnostics) else config
    ordered = sorted(reading.diagnostics, key=lambda each: (each.line or 0, each.column or 0))
    return ReadConfig(usable, tuple(ordered))


@dataclass
class _ConfigReading:
    """The file that is read, and the mistakes that were found so far."""

    file: Path
    root: Any
    """The mapping of the file, which knows the places of its keys."""
    environment: Mapping[str, str]
    diagnostics: list[ClusterDiagnostic] = field(default_factory=list)

    def add(self, code: str, path: _Path, message: str, severity: str = ERROR) -> None:
        place = (str(self.file), *_place(self.root, path))
        self.diagnostics.append(ClusterDiagnostic(code, message, _key(path), severity, *place))

    def config(self) -> ClusterConfig:
        body = _plain(self.root)
        if not isinstance(body, dict):
            self.add(_INVALID, (), "the file must hold `key: value` pairs")
            body = {}
        for key in body:
            if key in _FUTURE:
                self.add("future_phase_field", (key,), f"`{key}` is reserved: remove it")
        top = self.mapping(body, (), (*_KEYS, *_FUTURE))
        if top.get("version") != 1 or isinstance(top.get("version"), bool):
            shown = top.get("version", "nothing")
            message = f"`version` must be 1, got {shown}"
            self.add("unsupported_cluster_config_version", ("version",), message)
        providers = self._providers(top.get("providers"))
        graphs = self._graphs(top.get("graphs"), providers)
        return ClusterConfig(
            directory=str(self.file.parent),
            file=str(self.file),
            storage=self._storage(top),
            semantics=body,
            name=self._name(top.get("metadata")),
            lock=self._state(top.get("state")),
            providers=providers,
            graphs=graphs,
            policies=self._policies(top.get("policies"), graphs),
            approvals=self._approvals(top.get("approvals")),
        )

    # Shapes of values. Each reports what is wrong and returns a usable value.

    def mapping(self, value: Any, path: _Path, known: Iterable[str] | None) -> dict[str, Any]:
        """The known keys of a mapping; no value is an empty one, None allows any key."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.add(_INVALID, path, "must hold `key: value` pairs")
            return {}
        names = None if known is None else tuple(known)
        found = {}
        for key, item in value.items():
            if names is not None and key not in names:
                hint = did_you_mean(key, [name for name in names if name not in _FUTURE])
                self.add(_INVALID, (*path, key), f"unknown key `{key}`; {hint}")
            else:
                found[key] = item
        return found

    def text_of(self, value: Any, path: _Path, code: str = _INVALID) -> str:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            self.add(code, path, "must be a text that is not empty")
            return ""
        return value

    def flag(self, value: Any, path: _Path, default: bool) -> bool:
        if value is None:
            return default
        if not isinstance(value, bool):
            self.add(_INVALID, path, "must be true or false")
            return default
        return value

    def choice(self, value: Any, path: _Path, known: tuple[str, ...], code: str = _INVALID) -> str:
        if value not in known:
            self.add(code, path, f"must be one of {', '.join(known)}, got {value!r}")
            return known[0]
        return str(value)

    def names(self, value: Any, path: _Path, pattern: re.Pattern[str], rule: str) -> dict[str, Any]:
        """A mapping by id; wrong ids are reported and left out."""
        found = self.mapping(value, path, None)
        for name in [name for name in found if not pattern.fullmatch(name)]:
            self.add("invalid_resource_id", (*path, name), f"{name!r} is no id: {rule}")
            del found[name]
        return found

    def expanded(self, text: str, path: _Path, code: str) -> str:
        """The text with `${NAME}` replaced."""

        def replacement(match: re.Match[str]) -> str:
            value = self.environment.get(match[1])
            if not value:
                self.add(code, path, f"needs the variable {match[1]}, which is not set")
            return value or ""

        return _VARIABLE.sub(replacement, text)

    # The keys of the file.

    def _name(self, value: Any) -> str | None:
        metadata = self.mapping(value, ("metadata",), ("name",))
        if "name" not in metadata:
            return None
        name = metadata["name"]
        if not isinstance(name, str) or not name.strip():
            self.add("empty_metadata_name", ("metadata", "name"), "must be a text, or left out")
            return None
        return name

    def _state(self, value: Any) -> bool:
        state = self.mapping(value, ("state",), ("backend", "lock"))
        if state.get("backend", "cluster") != "cluster":
            message = f"must be `cluster`, got {state['backend']!r}"
            self.add("unsupported_state_backend", ("state", "backend"), message)
        lock = self.flag(state.get("lock"), ("state", "lock"), True)
        if not lock:
            message = "two commands at once are not kept apart: only the ledger's swap protects it"
            self.add("state_lock_disabled", ("state", "lock"), message, WARNING)
        return lock

    def _storage(self, top: Mapping[str, Any]) -> str:
        if "storage" not in top:
            return str(self.file.parent)
        code, path = "invalid_storage_root", ("storage",)
        text = self.text_of(top["storage"], path, code)
        if not text:
            return str(self.file.parent)
        found = self.expanded(text, path, code)
        if "://" not in found:
            return str(self.file.parent / Path(found).expanduser())
        parts = urlsplit(found)
        if parts.scheme not in ("s3", "file"):
            self.add(code, path, "must be a directory, file:///path or s3://bucket/prefix")
        if parts.scheme == "s3" and not parts.netloc:
            self.add(code, path, "names no bucket: write s3://bucket/prefix")
        return found.rstrip("/")

    def _approvals(self, value: Any) -> ApprovalRule:
        path = ("approvals",)
        found = self.mapping(value, path, ("required", "distinct"))
        required = found.get("required", 1)
        if isinstance(required, bool) or not isinstance(required, int) or not 1 <= required <= 100:
            self.add(_INVALID, (*path, "required"), "must be a whole number from 1 to 100")
            required = 1
        return ApprovalRule(required, self.flag(found.get("distinct"), (*path, "distinct"), False))

    def _providers(self, value: Any) -> dict[str, ProviderDeclaration]:
        kinds = self.mapping(value, ("providers",), ("embedding",))
        path: _Path = ("providers", "embedding")
        rule = "a letter or `_`, then letters, digits, `_` and `-`"
        named = self.names(kinds.get("embedding"), path, RESOURCE_ID, rule)
        return {name: self._provider(name, named[name], (*path, name)) for name in named}

    def _provider(self, name: str, value: Any, path: _Path) -> ProviderDeclaration:
        wrong = "invalid_embedding_provider"
        keys = ("kind", "provider", "base_url", "model", "api_key")
        body = self.mapping(value, path, keys)
        if "kind" in body and "provider" in body:
            self.add(wrong, (*path, "provider"), "is another name of `kind`: give one of them")
        given = body.get("kind", body.get("provider", _PROVIDER_KINDS[0]))
        at = "kind" if "kind" in body else "provider"
        kind = self.choice(given, (*path, at), _PROVIDER_KINDS, wrong)
        texts = {
            key: self.text_of(body[key], (*path, key), wrong)
            for key in ("base_url", "model")
            if key in body
        }
        return ProviderDeclaration(
            name=name,
            kind=kind,  # type: ignore[arg-type]
            base_url=texts.get("base_url"),
            model=texts.get("model"),
            api_key_env=self._api_key(body.get("api_key"), kind, path),
        )

    def _api_key(self, value: Any, kind: str, path: _Path) -> str | None:
        if value is None:
            if kind != "mock":
                message = "needs `api_key: ${NAME}`, the variable that holds the key"
                self.add("embedding_api_key_required", path, message)
            return None
        match = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            # The value may be the key itself, so the message does not repeat it.
            message = "must be `${NAME}`, the variable that holds the key, and not the key itself"
            self.add("embedding_api_key_inline", (*path, "api_key"), message)
            return None
        return match[1]

    def _graphs(
        self, value: Any, providers: Mapping[str, ProviderDeclaration]
    ) -> dict[str, GraphDeclaration]:
        rule = "a letter or digit, then letters, digits and `-`, 64 at most"
        named = self.names(value, ("graphs",), GRAPH_ID, rule)
        for taken in sorted(RESERVED_GRAPH_IDS & named.keys()):
            message = f"{taken!r} is the name of a route of servers: choose another id"
            self.add("invalid_resource_id", ("graphs", taken), message)
        return {
            graph_id: self._graph(graph_id, body, ("graphs", graph_id), providers)
            for graph_id, body in named.items()
        }

    def _graph(
        self,
        graph_id: str,
        value: Any,
        path: _Path,
        providers: Mapping[str, ProviderDeclaration],
    ) -> GraphDeclaration:
        body = self.mapping(value, path, _GRAPH_KEYS)
        if "schema" not in body:
            self.add(_INVALID, path, "needs the key `schema`, the path of a .pg file")
        migration_path = (*path, "schema_migration")
        migration = self.mapping(
            body.get("schema_migration"), migration_path, ("allow_data_loss", "backfill")
        )
        loss = self.choice(
            migration.get("allow_data_loss", "approval"),
            (*migration_path, "allow_data_loss"),
            ("approval", "never"),
        )
        return GraphDeclaration(
            graph_id=graph_id,
            schema=self.text_of(body["schema"], (*path, "schema")) if "schema" in body else "",
            queries=tuple(self._queries(body.get("queries"), (*path, "queries"))),
            provider=self._provider_name(
                body.get("embedding_provider"), (*path, "embedding_provider"), providers
            ),
            blobs=self._blobs(body.get("external_blobs"), (*path, "external_blobs")),
            allow_data_loss=loss,  # type: ignore[arg-type]
            backfill=self.mapping(migration.get("backfill"), (*migration_path, "backfill"), None),
            seed=self._seed(body.get("data"), (*path, "data")),
            retention=self._retention(body.get("retention"), (*path, "retention")),
        )

    def _retention(self, value: Any, path: _Path) -> dict[str, float] | None:
        """What `cleanup` keeps readable, with the names and values of its options."""
        if value is None:
            return None
        body = self.mapping(value, path, ("keep", "older_than"))
        try:
            found = Retention.of(body.get("keep"), body.get("older_than"))
        except InvalidArgument as error:
            self.add(_INVALID, path, error.message)
            return None
        if found.keeps_all:
            self.add(_INVALID, path, "needs `keep`, `older_than` or both")
        rules: dict[str, float] = {}
        if found.keep is not None:
            rules["keep"] = found.keep
        if found.older_than_micros is not None:
            rules["older_than_seconds"] = found.older_than_micros / 1_000_000
        return rules

    def _seed(self, value: Any, path: _Path) -> SeedData | None:
        body = self.mapping(value, path, ("seed", "mode"))
        if not body:
            return None
        given = body.get("seed")
        items = given if isinstance(given, list) else [given]
        files = tuple(self.text_of(item, (*path, "seed", at)) for at, item in enumerate(items))
        return SeedData(files, self.choice(body.get("mode", "append"), (*path, "mode"), _MODES))

    def _queries(self, value: Any, path: _Path) -> Iterator[QueryEntry]:
        match value:
            case None:
                return
            case str():
                yield QueryEntry(self.text_of(value, path), path=path)
            case list():
                for at, item in enumerate(value):
                    yield self._query(None, item, (*path, at))
            case dict():
                rule = "a letter or `_`, then letters, digits, `_` and `-`"
                for name, item in self.names(value, path, RESOURCE_ID, rule).items():
                    yield self._query(name, item, (*path, name))
            case _:
                message = "must be a path, a list of paths, or `name: {file: path}` entries"
                self.add(_INVALID, path, message)

    def _query(self, name: str | None, value: Any, path: _Path) -> QueryEntry:
        if isinstance(value, str):
            return QueryEntry(self.text_of(value, path), name, path=path)
        body = self.mapping(value, path, ("file", "expose", "tool_name"))
        if "file" not in body:
            self.add(_INVALID, path, "needs the key `file`")
        tool = body.get("tool_name")
        return QueryEntry(
            file=self.text_of(body["file"], (*path, "file")) if "file" in body else "",
            name=name,
            expose=self.flag(body.get("expose"), (*path, "expose"), True),
            tool_name=None if tool is None else self.text_of(tool, (*path, "tool_name")),
            path=path,
        )

    def _provider_name(
        self, value: Any, path: _Path, providers: Mapping[str, ProviderDeclaration]
    ) -> str | None:
        if value is None:
            return None
        text = self.text_of(value, path)
        name = text.removeprefix(_PROVIDER)
        if "." in name:
            message = f"{text!r} is no embedding provider: write its name, or {_PROVIDER}<name>"
            self.add("wrong_kind_reference", path, message)
        elif text and name not in providers:
            message = f"no embedding provider {name!r}; {did_you_mean(name, providers)}"
            self.add("dangling_embedding_provider_reference", path, message)
        return name

    def _blobs(self, value: Any, path: _Path) -> tuple[BlobBase, ...]:
        if value is None:
            return ()
        body = self.mapping(value, path, ("allow",))
        items = body.get("allow")
        if not isinstance(items, list):
            message = "`allow` must be a list of `{base, scope}`"
            self.add("invalid_external_blob_policy", path, message)
            return ()
        found = [self._blob(item, (*path, "allow", at)) for at, item in enumerate(items)]
        for at, each in enumerate(found):
            if any(overlap(each.base, other.base) for other in found[:at]):
                message = f"{each.base!r} overlaps another base: leave one of them out"
                self.add("invalid_external_blob_policy", (*path, "allow", at), message)
        return tuple(found)

    def _blob(self, value: Any, path: _Path) -> BlobBase:
        wrong = "invalid_external_blob_policy"
        body = self.mapping(value, path, ("base", "scope"))
        scope = self.choice(body.get("scope"), (*path, "scope"), _SCOPES, wrong)
        code = "invalid_external_blob_base"
        text = self.text_of(body.get("base"), (*path, "base"), code)
        base = self.expanded(text, (*path, "base"), code)
        problem = base_problem(base) if base else None
        if problem is not None:
            self.add(code, (*path, "base"), problem)
        if base.startswith("file://") and scope == "server_safe":
            message = "a folder of one machine is never server_safe: write embedded_only"
            self.add(wrong, (*path, "scope"), message)
        return BlobBase(base, scope)  # type: ignore[arg-type]

    def _policies(
        self, value: Any, graphs: Mapping[str, GraphDeclaration]
    ) -> dict[str, PolicyDeclaration]:
        rule = "a letter or `_`, then letters, digits, `_` and `-`"
        named = self.names(value, ("policies",), RESOURCE_ID, rule)
        return {
            name: self._policy(name, body, ("policies", name), graphs)
            for name, body in named.items()
        }

    def _policy(
        self, name: str, value: Any, path: _Path, graphs: Mapping[str, GraphDeclaration]
    ) -> PolicyDeclaration:
        body = self.mapping(value, path, ("file", "applies_to"))
        if "file" not in body:
            self.add(_INVALID, path, "needs the key `file`")
        at = (*path, "applies_to")
        targets = body.get("applies_to")
        if not isinstance(targets, list) or not targets:
            message = "needs `applies_to`, a list of graphs or [cluster]"
            self.add("policy_missing_applies_to", at if "applies_to" in body else path, message)
            targets = []
        bound = [self._target(item, (*at, number), graphs) for number, item in enumerate(targets)]
        found = sorted({each for each in bound if each})
        if CLUSTER_SCOPE in found and len(found) > 1:
            message = "binds the cluster and graphs: write two policies"
            self.add("policy_mixed_binding_kinds", at, message)
        file = self.text_of(body["file"], (*path, "file")) if "file" in body else ""
        return PolicyDeclaration(name, file, tuple(found))

    def _target(self, value: Any, path: _Path, graphs: Mapping[str, GraphDeclaration]) -> str:
        text = self.text_of(value, path)
        graph_id = text.removeprefix("graph.")
        if text in (CLUSTER_SCOPE, ""):
            return text
        if "." in graph_id:
            message = f"{text!r} is neither a graph nor `cluster`"
            self.add("wrong_kind_reference", path, message)
        elif graph_id not in graphs:
            message = f"no graph {graph_id!r}; {did_you_mean(graph_id, graphs)}"
            self.add("dangling_graph_reference", path, message)
        return f"graph.{graph_id}"


def _plain(value: Any) -> Any:
    """The value without the marks of the YAML reader. A date is the text that was written."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case bool() | None:
            return value
        case int() | float():
            return int(value) if isinstance(value, int) else float(value)
        case _:
            return str(value)


def _place(root: Any, path: _Path) -> tuple[int, int]:
    """Line and column of a path, or of the nearest part around it that the file has."""
    line, column, value = 0, 0, root
    for part in path:
        try:
            line, column = value.lc.item(part) if isinstance(part, int) else value.lc.key(part)
            value = value[part]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    return line + 1, column + 1


def _key(path: _Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
