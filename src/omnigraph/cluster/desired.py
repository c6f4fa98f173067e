"""The desired state: the config with all files read, parsed, type-checked and hashed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.cluster.config_reader import CLUSTER_SCOPE, RESOURCE_ID, read_config_directory
from omnigraph.cluster.declarations import (
    ERROR,
    WARNING,
    ClusterConfig,
    ClusterDiagnostic,
    GraphDeclaration,
    QueryEntry,
    has_errors,
)
from omnigraph.cluster.resources import (
    ResourceEntry,
    dependencies_of,
    digest_of,
    graph_address,
    kind_of,
    query_address,
    retention_address,
    schema_address,
    sha256,
    with_graph_digests,
)
from omnigraph.errors import LanguageError, OmnigraphError, ParseError, PolicyInvalid
from omnigraph.policy.bundle import Bundle, BundleKind, read_bundle
from omnigraph.query import ast
from omnigraph.query.parser import parse_queries
from omnigraph.query.typecheck import check_query
from omnigraph.schema.build import catalog_from_text
from omnigraph.syntax.diagnostics import Diagnostics, Severity, diagnostic_to_json
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.scalars import BlobType


@dataclass(frozen=True, slots=True)
class DesiredCluster:
    """What the config asks for. It is applied only if it has no error."""

    config: ClusterConfig
    config_digest: str
    entries: Mapping[str, ResourceEntry]
    files: Mapping[str, str]
    """By address: the file of a schema, query or policy."""
    payloads: Mapping[str, bytes]
    """By address: the text of a query or policy."""
    schemas: Mapping[str, SourceText]
    """By graph."""

    @property
    def digests(self) -> dict[str, str]:
        return {address: entry.digest for address, entry in self.entries.items()}

    @property
    def dependencies(self) -> list[tuple[str, str]]:
        return dependencies_of(self.entries)

    def resources(self) -> list[dict[str, Any]]:
        return [
            {
                "address": address,
                "kind": kind_of(address),
                "digest": entry.digest,
                **({"path": self.files[address]} if address in self.files else {}),
            }
            for address, entry in self.entries.items()
        ]


@dataclass(frozen=True, slots=True)
class ReadCluster:
    """The desired state of a directory with its diagnostics; None when an error is among them."""

    desired: DesiredCluster | None
    config: ClusterConfig | None
    diagnostics: tuple[ClusterDiagnostic, ...]


def read_cluster(directory: str | os.PathLike[str], environment: Mapping[str, str]) -> ReadCluster:
    """Read, parse and type-check everything that a directory declares; opens no graph."""
    found = read_config_directory(directory, environment)
    if found.config is None:
        return ReadCluster(None, None, found.diagnostics)
    resolving = _Resolving(found.config)
    desired = resolving.resolve()
    diagnostics = (*found.diagnostics, *resolving.diagnostics)
    return ReadCluster(None if has_errors(diagnostics) else desired, found.config, diagnostics)


@dataclass
class _Resolving:
    """One pass over the files of a config."""

    config: ClusterConfig
    diagnostics: list[ClusterDiagnostic] = field(default_factory=list)
    entries: dict[str, ResourceEntry] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    payloads: dict[str, bytes] = field(default_factory=dict)
    schemas: dict[str, SourceText] = field(default_factory=dict)
    _catalogs: dict[str, Catalog] = field(default_factory=dict)
    """By the text of the schema, because graphs often share one."""
    _rules: dict[str, dict[str, str]] = field(default_factory=dict)
    """By scope: the ids of the rules that bind it, and their files."""

    def resolve(self) -> DesiredCluster:
        for provider in self.config.providers.values():
            profile = provider.profile()
            entry = ResourceEntry(digest_of(profile), embedding_profile=profile)
            self.entries[provider.address] = entry
        for graph in self.config.graphs.values():
            self._graph(graph)
        for policy in self.config.policies.values():
            self._policy(f"policy.{policy.name}", policy.file, policy.applies_to)
        entries = with_graph_digests(dict(sorted(self.entries.items())))
        digests = {address: entry.digest for address, entry in entries.items()}
        semantics = {"config": self.config.semantics, "resources": digests}
        return DesiredCluster(
            self.config, digest_of(semantics), entries, self.files, self.payloads, self.schemas
        )

    def _path(self, relative: str) -> Path:
        return Path(self.config.directory) / Path(relative).expanduser()

    def _add(
        self, code: str, path: str, message: str, file: Path | str, severity: str = ERROR
    ) -> None:
        self.diagnostics.append(
            ClusterDiagnostic(code, message, path, severity, str(file), None, None)
        )

    def _read(self, relative: str, path: str, code: str) -> SourceText | None:
        file = self._path(relative)
        try:
            return SourceText(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            reason = "no such file" if isinstance(error, FileNotFoundError) else str(error)
            self._add(code, path, f"cannot read {relative}: {reason}", file)
            return None

    def _graph(self, graph: GraphDeclaration) -> None:
        provider = graph.provider
        blobs = graph.blob_policy
        self.entries[graph_address(graph.graph_id)] = ResourceEntry(
            "",
            embedding_provider=None if provider is None else f"provider.embedding.{provider}",
            external_blob_policy=None if blobs is None else tuple(blobs),
        )
        catalog = self._schema(graph)
        if catalog is not None and blobs is None and _has_blobs(catalog):
            self._add(
                "external_blob_ingress_default_deny",
                f"graphs.{graph.graph_id}",
                "has Blob properties and no `external_blobs`: blobs by address are refused",
                self.config.file,
                WARNING,
            )
        self._queries(graph, catalog)
        if graph.retention is not None:
            entry = ResourceEntry(digest_of(graph.retention), retention=graph.retention)
            self.entries[retention_address(graph.graph_id)] = entry
        for relative in graph.seed.files if graph.seed is not None else ():
            if not any(self._path(relative).parent.glob(self._path(relative).name)):
                at = f"graphs.{graph.graph_id}.data.seed"
                file = self._path(relative)
                self._add("seed_file_missing", at, f"no file matches {relative}", file)

    def _schema(self, graph: GraphDeclaration) -> Catalog | None:
        path = f"graphs.{graph.graph_id}.schema"
        source = self._read(graph.schema, path, "schema_file_missing")
        if source is None:
            return None
        address = schema_address(graph.graph_id)
        self.entries[address] = ResourceEntry(sha256(source.text.encode()))
        self.files[address] = source.file
        self.schemas[graph.graph_id] = source
        if source.text in self._catalogs:
            return self._catalogs[source.text]
        try:
            catalog = catalog_from_text(source.text, source.file)
        except LanguageError as error:
            code = "schema_parse_error" if isinstance(error, ParseError) else "schema_catalog_error"
            self._language(code, path, error)
            return None
        except OmnigraphError as error:
            self._add("schema_catalog_error", path, error.message, source.file)
            return None
        self._catalogs[source.text] = catalog
        return catalog

    def _language(self, code: str, path: str, error: LanguageError) -> None:
        for each in error.diagnostics:
            self.diagnostics.append(
                ClusterDiagnostic(
                    code,
                    f"{each['code']}: {each['message']}",
                    path,
                    file=each["file"],
                    line=each["line"],
                    column=each["column"],
                )
            )

    def _queries(self, graph: GraphDeclaration, catalog: Catalog | None) -> None:
        parsed: dict[str, tuple[SourceText, tuple[ast.Query, ...]] | None] = {}
        for entry in graph.queries:
            for relative in self._query_files(graph, entry):
                if relative not in parsed:
                    parsed[relative] = self._parsed(graph, relative)
                found = parsed[relative]
                if found is not None:
                    self._register(graph, entry, *found, catalog)
        if catalog is None and graph.queries:
            path = f"graphs.{graph.graph_id}.queries"
            message = "the queries are not type-checked, because the schema has errors"
            self._add("query_typecheck_skipped", path, message, self.config.file, WARNING)

    def _query_files(self, graph: GraphDeclaration, entry: QueryEntry) -> Iterator[str]:
        folder = self._path(entry.file)
        if not folder.is_dir():
            yield entry.file
            return
        path = f"graphs.{graph.graph_id}.queries"
        if entry.name is not None:
            self._add("query_file_missing", path, f"{entry.file} is a directory", folder)
            return
        try:
            names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".gq"))
        except OSError as error:
            self._add("query_dir_unreadable", path, f"cannot list {entry.file}: {error}", folder)
            return
        if not names:
            self._add("query_dir_empty", path, f"{entry.file} has no .gq file", folder, WARNING)
        yield from (str(Path(entry.file) / name) for name in names)

    def _parsed(
        self, graph: GraphDeclaration, relative: str
    ) -> tuple[SourceText, tuple[ast.Query, ...]] | None:
        path = f"graphs.{graph.graph_id}.queries"
        source = self._read(relative, path, "query_file_missing")
        if source is None:
            return None
        try:
            return source, parse_queries(source).queries
        except LanguageError as error:
            self._language("query_parse_error", path, error)
            return None

    def _register(
        self,
        graph: GraphDeclaration,
        entry: QueryEntry,
        source: SourceText,
        queries: tuple[ast.Query, ...],
        catalog: Catalog | None,
    ) -> None:
        path = f"graphs.{graph.graph_id}.queries"
        chosen = [q for q in queries if entry.name is None or q.name.text == entry.name]
        if not chosen and entry.name is not None:
            names = ", ".join(q.name.text for q in queries) or "none"
            message = f"{entry.file} declares no query {entry.name!r}; it declares {names}"
            self._add("query_key_mismatch", f"{path}.{entry.name}", message, source.file)
        if entry.tool_name is not None and len(chosen) > 1:
            message = "`tool_name` names one query, and this file has several: use the map form"
            self._add("invalid_cluster_yaml", path, message, source.file)
        for query in chosen:
            name = query.name.text
            address = query_address(graph.graph_id, name)
            if address in self.entries:
                message = f"query {name!r} is declared twice, also in {self.files[address]}"
                self._add("duplicate_query_name", path, message, source.file)
                continue
            if not RESOURCE_ID.fullmatch(name):
                message = f"{name!r} is no name of a stored query"
                self._add("invalid_resource_id", path, message, source.file)
            data = source.text.encode()
            self.entries[address] = ResourceEntry(
                sha256(data), expose=None if entry.expose else False, tool_name=entry.tool_name
            )
            self.files[address] = source.file
            self.payloads[address] = data
            if catalog is not None:
                self._typecheck(query, catalog, source, address)

    def _typecheck(
        self, query: ast.Query, catalog: Catalog, source: SourceText, address: str
    ) -> None:
        findings = Diagnostics()
        check_query(query, catalog, findings)
        for finding in findings:
            if finding.severity is Severity.ERROR:
                told = diagnostic_to_json(finding, source)
                self.diagnostics.append(
                    ClusterDiagnostic(
                        "query_typecheck_error",
                        f"{told['code']}: {told['message']}",
                        address,
                        file=source.file,
                        line=told["line"],
                        column=told["column"],
                    )
                )

    def _policy(self, address: str, relative: str, applies_to: tuple[str, ...]) -> None:
        path = f"policies.{address.partition('.')[2]}"
        source = self._read(relative, f"{path}.file", "policy_file_missing")
        if source is None:
            return
        data = source.text.encode()
        self.entries[address] = ResourceEntry(sha256(data), applies_to=applies_to)
        self.files[address] = source.file
        self.payloads[address] = data
        kind = BundleKind.SERVER if applies_to == (CLUSTER_SCOPE,) else BundleKind.GRAPH
        try:
            bundle = read_bundle(source.text, source.file, kind)
        except PolicyInvalid as error:
            for each in error.diagnostics:
                place = (source.file, each["line"], each["column"])
                self.diagnostics.append(
                    ClusterDiagnostic("policy_invalid", each["message"], path, ERROR, *place)
                )
            return
        self._bundle_rules(path, bundle, applies_to)

    def _bundle_rules(self, path: str, bundle: Bundle, applies_to: tuple[str, ...]) -> None:
        """Several bundles of one scope are merged, so the ids of their rules must differ."""
        for scope in applies_to:
            taken = self._rules.setdefault(scope, {})
            for rule in bundle.rules:
                other = taken.setdefault(rule.id, bundle.file)
                if other == bundle.file:
                    continue
                message = f"rule {rule.id!r} also binds {scope} in {other}: rename one of them"
                place = (bundle.file, rule.line, rule.column)
                self.diagnostics.append(
                    ClusterDiagnostic("duplicate_policy_binding", message, path, ERROR, *place)
                )


def _has_blobs(catalog: Catalog) -> bool:
    properties = (p for t in catalog.entity_types() for p in t.properties)
    return any(isinstance(each.type, BlobType) for each in properties)
