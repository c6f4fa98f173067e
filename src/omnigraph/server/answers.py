"""The bodies of answers, as structs: they name and describe the schemas of the OpenAPI document.

Handlers answer with the JSON of records (`wire.records`), which may have more members than a
struct names. A test compares answers of all routes with these structs.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

ErrorCode = Literal[
    "unauthorized",
    "forbidden",
    "bad_request",
    "not_found",
    "method_not_allowed",
    "conflict",
    "too_many_requests",
    "internal",
]
Micros = Annotated[int, Meta(description="Microseconds since the epoch.")]


class ErrorOutput(Struct):
    """The envelope of every answer from 400 on; one detail may stand beside these members."""

    error: str
    code: ErrorCode | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET


class ChangeErrorOutput(ErrorOutput):
    """The envelope of the change routes."""

    change_feed_gap: dict[str, Any] | UnsetType = UNSET
    change_diff_refusal: dict[str, Any] | UnsetType = UNSET


class QueryTarget(Struct):
    """The state that was read."""

    branch: str | None = None
    snapshot: str | None = None


class ReadOutput(Struct):
    """Rows of a query at one commit."""

    query_name: str
    target: QueryTarget
    row_count: int
    rows: list[dict[str, Any]]
    columns: list[str] | UnsetType = UNSET
    graph_commit_id: str | None = None


class LegacyReadOutput(Struct):
    """Rows of a query, as 0.10 answered them."""

    query_name: str
    target: QueryTarget
    row_count: int
    rows: list[dict[str, Any]]
    columns: list[str] | UnsetType = UNSET


class CommitOutput(Struct):
    """A commit."""

    graph_commit_id: str
    graph_manifest_version: int
    created_at: Micros
    graph_branch: str | None = None
    parent_commit_id: str | None = None
    merged_parent_commit_id: str | None = None
    actor_id: str | None = None
    message: str | None = None
    operation: str | None = None


class CommitListOutput(Struct):
    """Commits, newest first; `next` is the `after` of the next page."""

    commits: list[CommitOutput]
    next: str | UnsetType = UNSET


class ChangeOutput(Struct):
    """What a mutation did; `commit` is null when it changed nothing."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None = None
    commit: CommitOutput | None = None
    repeated: bool = False


class WriteOutput(Struct):
    """What a revert or cherry-pick did; `commit` is null when nothing was left to do."""

    branch: str
    affected_nodes: int
    affected_edges: int
    commit: CommitOutput | None = None
    repeated: bool = False


class QueryPlanOutput(Struct):
    """The operators of a query, in the order in which rows flow."""

    query_name: str
    operators: list[dict[str, Any]]


class ParamDescriptor(Struct):
    """A parameter of a stored query."""

    name: str
    kind: Literal[
        "string", "bool", "int", "bigint", "float", "date", "datetime", "blob", "vector", "list"
    ]
    nullable: bool
    type: str
    """The type as the language writes it."""
    item_kind: str | UnsetType = UNSET
    vector_dim: int | UnsetType = UNSET


class QueryCatalogEntry(Struct):
    """A stored query."""

    name: str
    tool_name: str
    mutation: bool
    params: list[ParamDescriptor]
    mcp_expose: bool = True
    description: str | None = None
    instruction: str | None = None


class QueriesCatalogOutput(Struct):
    """The stored queries of a graph."""

    queries: list[QueryCatalogEntry]


class QueryBreakageOutput(Struct):
    """A stored query that does not fit the schema."""

    query: str
    message: str
    file: str = ""
    line: int = 1
    code: str = ""


class QueryValidationOutput(Struct):
    """What is wrong with the stored queries of a graph."""

    ok: bool
    breakages: list[QueryBreakageOutput]
    warnings: list[str]


class SchemaOutput(Struct):
    """The schema in force."""

    schema_source: str


class SchemaPlanOutput(Struct):
    """What a schema change would do."""

    supported: bool
    steps: list[dict[str, Any]]


class SchemaApplyOutput(Struct):
    """What a schema change did."""

    uri: str
    supported: bool
    applied: bool
    step_count: int
    steps: list[dict[str, Any]]
    graph_branch: str
    warnings: list[str]
    plan: SchemaPlanOutput
    graph_manifest_version: int | None = None
    commit: CommitOutput | None = None
    repeated: bool = False


class BranchOutput(Struct):
    """A branch and its head."""

    name: str
    head_commit_id: str
    created_at: Micros
    forked_from: str | None = None
    repeated: bool = False


class BranchListOutput(Struct):
    """The names of the branches, and what is known about each."""

    branches: list[str]
    details: list[BranchOutput]


class BranchCreateOutput(Struct):
    """A new branch."""

    uri: str
    source: str = field(name="from")
    name: str
    actor_id: str | None = None


class BranchDeleteOutput(Struct):
    """A deleted branch."""

    uri: str
    name: str
    actor_id: str | None = None


class BranchMergeOutput(Struct):
    """What a merge did, or would do with `preview`."""

    source: str
    target: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged"]
    actor_id: str | None = None
    branch_deleted: bool | None = None
    branch_delete_error: str | None = None
    commit: CommitOutput | None = None
    repeated: bool = False


class TagOutput(Struct):
    """A name of a commit."""

    name: str
    graph_commit_id: str
    graph_branch: str
    created_at: Micros


class TagListOutput(Struct):
    """The tags."""

    tags: list[TagOutput]


class TagDeleteOutput(Struct):
    """A deleted tag."""

    name: str
    actor_id: str | None = None


class SnapshotDatasetOutput(Struct):
    """The table of one type in a snapshot."""

    entity_kind: Literal["node", "edge"]
    type_name: str
    dataset_path: str
    published_dataset_version: int
    entity_count: int | None
    native_dataset_branch: str | None = None


class SnapshotOutput(Struct):
    """One state of a branch."""

    graph_branch: str
    graph_manifest_version: int
    internal_schema_version: int
    datasets: list[SnapshotDatasetOutput]


class TypeLoadOutput(Struct):
    """What a load did to the entities of one type."""

    name: str
    entities_loaded: int
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0


class GraphBatchLoadOutput(Struct):
    """What a load did; `commit` is null when it changed nothing."""

    branch: str
    branch_created: bool
    mode: str | dict[str, str]
    nodes: list[TypeLoadOutput]
    edges: list[TypeLoadOutput]
    total_entities: int
    base_branch: str | None = None
    actor_id: str | None = None
    commit: CommitOutput | None = None
    repeated: bool = False
    rejected: int = 0
    dry_run: bool = False


class IngestOutput(GraphBatchLoadOutput, kw_only=True):
    """What a load of a JSON body did."""

    uri: str


class ChangeCauseOutput(Struct):
    """The commit that made changes."""

    graph_commit_id: str
    authored_branch: str
    authored_at: Micros
    parent_commit_id: str | None = None
    merged_parent_commit_id: str | None = None
    actor_id: str | None = None


class ChangeTypeOutput(Struct):
    """A type by its name, and by its id, which a rename keeps."""

    id: str
    name: str


class EntityChangeOutput(Struct):
    """An entity before and after."""

    kind: Literal["node", "edge"]
    type: ChangeTypeOutput
    id: str
    op: Literal["insert", "update", "delete"]
    before: dict[str, Any] | UnsetType = UNSET
    after: dict[str, Any] | UnsetType = UNSET


class ChangeBlockOutput(Struct):
    """The changes of one commit, or a part of them."""

    cause: ChangeCauseOutput
    changes: list[EntityChangeOutput]


class ChangeFeedOutput(Struct):
    """A page of a feed. It ends with a token of the next page, or with a cursor to keep."""

    blocks: list[ChangeBlockOutput]
    next_page_token: str | UnsetType = UNSET
    cursor: str | UnsetType = UNSET
    caught_up: bool | UnsetType = UNSET


class CommitChangesOutput(Struct):
    """A page of the changes of one commit."""

    cause: ChangeCauseOutput
    changes: list[EntityChangeOutput]
    next_page_token: str | UnsetType = UNSET


class DiffOutput(Struct):
    """Changes between two states."""

    changes: list[dict[str, Any]]
    next_page_token: str | UnsetType = UNSET


class OptimizeOutput(Struct):
    """Types that writers kept busy, which are not compacted."""

    skipped: list[str]
    graph_branch: str | None = None


class CleanupOutput(Struct):
    """What was removed, or would be."""

    removals: list[dict[str, Any]]


class StatusOutput(Struct):
    """The physical state of a graph."""

    branches: list[dict[str, Any]]


class RecoveryListOutput(Struct):
    """Recoveries, newest first."""

    recoveries: list[dict[str, Any]]


class OperationProgress(Struct):
    """How far an operation is."""

    done: int
    unit: str
    note: str
    total: int | None = None


class OperationOutput(Struct):
    """Work that a client does not wait for."""

    operation_id: str
    kind: str
    status: Literal["queued", "running", "succeeded", "failed", "cancelled", "unknown"]
    created_at: Micros
    actor_id: str | None = None
    progress: OperationProgress | None = None
    started_at: int | UnsetType = UNSET
    finished_at: int | UnsetType = UNSET
    result: dict[str, Any] | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class OperationListOutput(Struct):
    """Operations of the last day, newest first."""

    operations: list[OperationOutput]


class HealthOutput(Struct):
    """The process is alive."""

    status: Literal["ok"]
    version: str
    internal_schema_version: int
    source_version: str | UnsetType = UNSET


class ReadinessOutput(Struct):
    """Whether the server takes requests."""

    ready: bool
    status: Literal["starting", "serving", "draining"]
    served_graph_count: int
    quarantined_graph_count: int
    shutdown_grace_seconds: int
    booted_serving_digest: str | None = None
    state_revision: int | None = None
    state_cas: str | None = None


class GraphEntry(Struct):
    """A graph of the server."""

    graph_id: str
    uri: str | UnsetType = UNSET


class QuarantinedEntry(Struct):
    """A graph that could not be opened."""

    graph_id: str
    code: str
    message: str


class GraphListOutput(Struct):
    """The graphs of the server, by id."""

    graphs: list[GraphEntry]
    quarantined: list[QuarantinedEntry]


class ReloadOutput(Struct):
    """What a reload changed."""

    reloaded: bool
    graphs: dict[str, list[str]]
    tokens: int
    state_revision: int | None = None
