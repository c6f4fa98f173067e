"""What `cluster.yaml` declares, as data, and the diagnostics of reading it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ERROR = "error"
WARNING = "warning"

CONFIG_FILE = "cluster.yaml"
CONFIG_FILES = (CONFIG_FILE, "cluster.yml", "cluster.json")

ProviderKind = Literal["openai-compatible", "openai", "gemini", "mock"]
BlobScope = Literal["server_safe", "embedded_only"]
DataLoss = Literal["approval", "never"]


@dataclass(frozen=True, slots=True)
class ClusterDiagnostic:
    """One finding of a command. `path` is the key in the config, a resource or a file."""

    code: str
    message: str
    path: str = ""
    severity: str = ERROR
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = ""
        if self.file is not None:
            place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        subject = f"{self.path}: " if self.path else ""
        return f"{place}{self.severity} {self.code}: {subject}{self.message}"

    def to_dict(self) -> dict[str, Any]:
        place = {"file": self.file, "line": self.line, "column": self.column}
        return {
            "code": self.code,
            "severity": self.severity,
            "path": self.path,
            "message": self.message,
            **{name: value for name, value in place.items() if value is not None},
        }


def has_errors(diagnostics: Iterable[ClusterDiagnostic]) -> bool:
    return any(each.severity == ERROR for each in diagnostics)


def warning(code: str, message: str, path: str = "") -> ClusterDiagnostic:
    return ClusterDiagnostic(code, message, path, WARNING)


@dataclass(frozen=True, slots=True)
class ProviderDeclaration:
    """An embedding provider. `api_key_env` is the variable of `${NAME}`, never the key."""

    name: str
    kind: ProviderKind = "openai-compatible"
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None

    @property
    def address(self) -> str:
        return f"provider.embedding.{self.name}"

    def profile(self) -> dict[str, str]:
        """What the ledger records of it; a key that is not set is left out."""
        key = None if self.api_key_env is None else f"${{{self.api_key_env}}}"
        found = {
            "kind": self.kind,
            "base_url": self.base_url,
            "model": self.model,
            "api_key": key,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class BlobBase:
    """A folder or prefix from which blobs may be read."""

    base: str
    scope: BlobScope


@dataclass(frozen=True, slots=True)
class QueryEntry:
    """One entry of `queries`: a file or directory, and what tools see of its queries."""

    file: str
    name: str | None = None
    """The key of the map form, which must be the name of the declaration."""
    expose: bool = True
    tool_name: str | None = None
    path: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class SeedData:
    """Files that are loaded once, when the graph is created."""

    files: tuple[str, ...]
    mode: str = "append"


@dataclass(frozen=True, slots=True)
class GraphDeclaration:
    """One graph of the cluster."""

    graph_id: str
    schema: str
    queries: tuple[QueryEntry, ...] = ()
    provider: str | None = None
    """The name of its embedding provider."""
    blobs: tuple[BlobBase, ...] = ()
    allow_data_loss: DataLoss = "approval"
    backfill: Mapping[str, Any] = field(default_factory=dict)
    seed: SeedData | None = None
    retention: Mapping[str, float] | None = None
    """What stays readable, `keep` commits and `older_than_seconds`; None keeps all."""

    @property
    def blob_policy(self) -> list[dict[str, str]] | None:
        """What the ledger records of the allowed bases; None when all are denied."""
        found = sorted((each.base, each.scope) for each in self.blobs)
        return [{"base": base, "scope": scope} for base, scope in found] or None


@dataclass(frozen=True, slots=True)
class PolicyDeclaration:
    """A policy bundle and the scopes that it binds."""

    name: str
    file: str
    applies_to: tuple[str, ...]
    """`cluster`, or `graph.<id>` each; sorted."""


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """How many approvals a gated change needs."""

    required: int = 1
    distinct: bool = False
    """Approvers must be different from each other and from the one who applies."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """The content of `cluster.yaml`."""

    directory: str
    file: str
    storage: str
    """The root: the value of `storage` with its variables, or the directory itself."""
    semantics: Mapping[str, Any]
    """The parsed file, as the digest of the config sees it."""
    name: str | None = None
    lock: bool = True
    providers: Mapping[str, ProviderDeclaration] = field(default_factory=dict)
    graphs: Mapping[str, GraphDeclaration] = field(default_factory=dict)
    policies: Mapping[str, PolicyDeclaration] = field(default_factory=dict)
    approvals: ApprovalRule = ApprovalRule()
