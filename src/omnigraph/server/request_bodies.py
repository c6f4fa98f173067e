"""The JSON bodies and query parameters of the routes. Unknown members of a write are refused."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class QueryRequest(Struct):
    """A read query. `branch` and `snapshot` exclude each other; neither is `main`."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None
    timeout_ms: int | None = None
    names: str | None = None
    """`current`: the query uses the names that the head of `branch` has, also with `snapshot`."""


class ReadRequest(Struct):
    """The body of the deprecated `/read`."""

    query_source: str
    query_name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None


class ChangeRequest(Struct, forbid_unknown_fields=True):
    """A mutation. `query_source` and `query_name` are older names of `query` and `name`."""

    query: str | None = None
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    message: str | None = None
    idempotency_key: str | None = None
    query_source: str | None = None
    query_name: str | None = None


class SchemaApplyRequest(Struct, forbid_unknown_fields=True):
    """Another schema for a branch, or a saved plan."""

    schema_source: str | None = None
    allow_data_loss: bool = False
    branch: str | None = None
    backfill: dict[str, Any] | None = None
    reembed: bool = False
    severity: dict[str, str] | None = None
    plan: dict[str, Any] | None = None
    message: str | None = None
    if_commit: str | None = None


class SchemaPlanRequest(Struct, forbid_unknown_fields=True):
    """A schema whose effect is planned; nothing is written."""

    schema_source: str
    allow_data_loss: bool = False
    branch: str | None = None
    backfill: dict[str, Any] | None = None
    reembed: bool = False
    severity: dict[str, str] | None = None
    queries: list[str] | None = None
    query_files: list[str] | None = None
    """How the answer calls the texts of `queries`."""
    all_branches: bool = False


class BranchCreateRequest(Struct, forbid_unknown_fields=True):
    """A new branch, forked from the head of another one."""

    name: str
    source: str = field(name="from", default="main")


class BranchRenameRequest(Struct, forbid_unknown_fields=True):
    """Another name for a branch."""

    name: str
    new_name: str


class BranchMergeRequest(Struct, forbid_unknown_fields=True):
    """A merge; `preview` only lists what it would do."""

    source: str
    target: str = "main"
    delete_branch: bool = False
    strategy: str = "fail"
    resolutions: list[dict[str, Any]] | None = None
    preview: bool = False
    message: str | None = None


class TagCreateRequest(Struct, forbid_unknown_fields=True):
    """A name for a commit; `target` is a branch, commit, tag or moment."""

    name: str
    target: str = "main"


class RevertRequest(Struct, forbid_unknown_fields=True):
    """The branch on which a commit is undone."""

    branch: str = "main"
    strategy: str = "fail"
    resolutions: list[dict[str, Any]] | None = None
    message: str | None = None


class CherryPickRequest(Struct, forbid_unknown_fields=True):
    """The branch on which a commit is made again."""

    onto: str = "main"
    strategy: str = "fail"
    resolutions: list[dict[str, Any]] | None = None
    message: str | None = None


class InvokeQueryRequest(Struct, forbid_unknown_fields=True):
    """The parameters of a stored query.

    `snapshot` and `timeout_ms` are for reads, `message` is for mutations.
    """

    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None
    expect_mutation: bool | None = None
    timeout_ms: int | None = None
    message: str | None = None
    idempotency_key: str | None = None


class OptimizeRequest(Struct, forbid_unknown_fields=True):
    """Which branch and types are compacted and indexed; by default all."""

    branch: str | None = None
    types: list[str] | None = None


class CleanupRequest(Struct, forbid_unknown_fields=True):
    """What stays readable; without `confirm` the answer only says what would be removed."""

    keep: int | None = None
    older_than: str | None = None
    confirm: bool = False


class BranchQuery(Struct):
    """The branch that is read."""

    branch: str = "main"


class CommitsQuery(Struct):
    """A page of the commit log."""

    branch: str = "main"
    limit: int = 50
    after: str | None = None
    first_parent: bool = False
    idempotency_key: str | None = None


class CommitQuery(Struct):
    """The branch on which a short name of a commit is looked up."""

    branch: str = "main"


class SchemaQuery(Struct):
    """The state whose schema is shown."""

    branch: str | None = None
    snapshot: str | None = None


class SnapshotQuery(Struct):
    """The state that is shown."""

    branch: str | None = None
    snapshot: str | None = None


class DiffQuery(Struct):
    """Two states, or a branch and the base that it is compared with."""

    before: str | None = field(name="from", default=None)
    after: str | None = field(name="to", default=None)
    base: str | None = None
    branch: str | None = None
    type: list[str] | None = None
    kind: list[str] | None = None
    op: list[str] | None = None
    limit: int = 1000
    page_token: str | None = None


class OperationsQuery(Struct):
    """Which operations are listed."""

    status: str | None = None
