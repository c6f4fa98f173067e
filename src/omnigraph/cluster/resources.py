"""Addresses, digests and ledger entries of resources; pure.

A digest is the SHA-256 of a file's bytes, or of canonical JSON for what has no file. The digest of
a graph is made of the digests of its parts, so an entry that was edited by hand does not fit it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

GRAPH = "graph"
SCHEMA = "schema"
QUERY = "query"
POLICY = "policy"
RETENTION = "retention"
PROVIDER = "embedding_provider"

_PROVIDER_PREFIX = "provider.embedding."


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """The digest of a value that JSON can write; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return sha256(text.encode())


def graph_address(graph_id: str) -> str:
    return f"graph.{graph_id}"


def schema_address(graph_id: str) -> str:
    return f"schema.{graph_id}"


def retention_address(graph_id: str) -> str:
    return f"retention.{graph_id}"


def query_address(graph_id: str, name: str) -> str:
    return f"query.{graph_id}.{name}"


def kind_of(address: str) -> str:
    return PROVIDER if address.startswith(_PROVIDER_PREFIX) else address.partition(".")[0]


def graph_of(address: str) -> str | None:
    """The graph that a part of a graph belongs to; None for policies and providers."""
    kind, _, rest = address.partition(".")
    return rest.partition(".")[0] if kind in (GRAPH, SCHEMA, QUERY, RETENTION) else None


def name_of(address: str) -> str:
    """The last part of an address: the id of a graph, the name of a query, policy or provider."""
    return address.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class ResourceEntry:
    """A resource as the ledger records it. Fields that a kind does not have are None."""

    digest: str
    applies_to: tuple[str, ...] | None = None
    embedding_provider: str | None = None
    embedding_profile: Mapping[str, str] | None = None
    external_blob_policy: tuple[Mapping[str, str], ...] | None = None
    expose: bool | None = None
    """Of a query: False hides it from tools."""
    tool_name: str | None = None
    retention: Mapping[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "digest": self.digest,
            "applies_to": None if self.applies_to is None else list(self.applies_to),
            "embedding_provider": self.embedding_provider,
            "embedding_profile": self.embedding_profile,
            "external_blob_policy": (
                None if self.external_blob_policy is None else list(self.external_blob_policy)
            ),
            "expose": self.expose,
            "tool_name": self.tool_name,
            "retention": self.retention,
        }
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> ResourceEntry:
        """Raises `ValueError` for a body that is no entry."""
        unknown = body.keys() - set(cls.__dataclass_fields__)
        if unknown or not isinstance(body.get("digest"), str):
            raise ValueError(f"unknown keys {sorted(unknown)}" if unknown else "no digest")
        targets, blobs = body.get("applies_to"), body.get("external_blob_policy")
        return cls(
            **{
                **body,
                "applies_to": None if targets is None else tuple(targets),
                "external_blob_policy": None if blobs is None else tuple(blobs),
            }
        )


def graph_digest(graph_id: str, entry: ResourceEntry, entries: Mapping[str, ResourceEntry]) -> str:
    """The digest of a graph: of its parts; those that have their default do not count."""
    schema = entries.get(schema_address(graph_id))
    prefix = f"query.{graph_id}."
    queries = {
        name_of(address): found.to_dict()
        for address, found in entries.items()
        if address.startswith(prefix)
    }
    provider = entry.embedding_provider
    known = None if provider is None else entries.get(provider)
    parts: dict[str, Any] = {
        "schema": None if schema is None else schema.digest,
        "queries": queries,
        "provider": [provider, None if known is None else known.digest],
    }
    if entry.external_blob_policy is not None:
        parts["external_blobs"] = list(entry.external_blob_policy)
    retention = entries.get(retention_address(graph_id))
    if retention is not None:
        parts["retention"] = retention.digest
    return digest_of(parts)


def with_graph_digests(entries: Mapping[str, ResourceEntry]) -> dict[str, ResourceEntry]:
    """The entries with the digests of all graphs made anew from their parts."""
    return {
        address: (
            replace(entry, digest=graph_digest(name_of(address), entry, entries))
            if kind_of(address) == GRAPH
            else entry
        )
        for address, entry in entries.items()
    }


def catalog_key(address: str, digest: str) -> str:
    """Where the text of a query or policy is kept, relative to the catalog."""
    if kind_of(address) == POLICY:
        return f"policy/{name_of(address)}/{digest}.yaml"
    return f"query/{graph_of(address)}/{name_of(address)}/{digest}.gq"


def has_payload(address: str) -> bool:
    return kind_of(address) in (QUERY, POLICY)


def dependencies_of(entries: Mapping[str, ResourceEntry]) -> list[tuple[str, str]]:
    """Pairs (from, to): a resource, and one that it needs."""
    found: list[tuple[str, str]] = []
    for address, entry in entries.items():
        graph_id = graph_of(address)
        match kind_of(address):
            case "schema" | "retention":
                found.append((address, graph_address(str(graph_id))))
            case "query":
                found.append((address, graph_address(str(graph_id))))
                found.append((address, schema_address(str(graph_id))))
            case "policy":
                found += [(address, each) for each in entry.applies_to or () if each != "cluster"]
            case "graph" if entry.embedding_provider is not None:
                found.append((address, entry.embedding_provider))
    return sorted(found)


def affected_by(address: str, dependencies: Iterable[tuple[str, str]]) -> list[str]:
    """Everything that needs a resource, directly or through others."""
    needed_by: dict[str, list[str]] = {}
    for source, target in dependencies:
        needed_by.setdefault(target, []).append(source)
    found: set[str] = set()
    todo = [address]
    while todo:
        for each in needed_by.get(todo.pop(), ()):
            if each not in found:
                found.add(each)
                todo.append(each)
    return sorted(found - {address})
