"""The whole exception tree: every class has a stable `code`, a `retryable` flag and its fields.

OmnigraphError
├── InvalidArgument            a value given by the caller cannot be used
│   ├── InvalidName            a branch, tag or type name breaks the naming rule
│   └── ExternalBlobDenied     the address of a blob is not one that the graph allows
├── LanguageError              schema or query text is wrong; carries diagnostics
│   ├── ParseError
│   └── TypeCheckError
├── SchemaRefused              a schema change is not possible as asked
├── ValidationFailed           data breaks the schema; carries violations
│   └── KeyConflict            strict insert of ids that exist
├── NotFound                   graph, branch, tag, commit, type or entity is not there
│   └── SnapshotReclaimed      it was there; cleanup removed it
│       └── FeedGap              a change feed cannot go on from its cursor
├── AlreadyExists
├── CommitRejected             nothing was published
│   ├── ExpectedVersionMismatch  a table moved under the writer (retryable)
│   ├── PreconditionFailed       `if_commit` did not hold
│   ├── WriterFenced             another process recovered this writer's intent
│   ├── Contention               overlapping writers did not go away in time (retryable)
│   └── SchemaChangeInProgress   another caller changes the schema of the branch (retryable)
├── OutcomeUnknown             the answer of the publish was lost and cannot be looked up now
├── MergeConflicts
├── RecoveryRequired           a dead writer's intent could not be finished
│   ├── CorruptIntent          a file in __recovery cannot be read
│   └── InvariantViolation     a dataset is behind its pin: stop, look, restore from backup
├── SchemaDrift                the columns of a table are not those of the schema
├── FormatTooNew / FormatUnknown
├── ReadOnlyGraph              a write through a read-only handle
├── GraphClosed                a call through a handle after its `close()`
├── StorageFailure             the disk or object store refused
│   ├── StorageFull
│   ├── StorageUnsafe          the store does not honour put-if-absent
│   └── GraphMoved             branches name files at the address the graph had before
├── ExternalBlobUnavailable    an external blob cannot be read from here
├── EmbeddingFailed            a text could not be turned into a vector
│   ├── EmbeddingUnavailable     the provider cannot be reached now (retryable)
│   ├── EmbeddingRefused         the provider refused, or its answer cannot be used
│   └── ModelMismatch            vectors of another model, or of another width
├── EngineCannot               a query that this engine does not run; another one does
├── SparkUnavailable           no Java, no pyspark, no answer, or workers with another Python
├── SparkFailed                a Spark job failed after its retries; nothing changed
├── PipelineInvalid            a pipeline file is wrong, or does not fit its graph or sources
├── PipelineFailed             a source, step or target of a run failed; nothing changed
│   └── ExpectationFailed        more rows than allowed fail an expectation
├── PolicyInvalid              rules of a policy are wrong, or do not fit the schema
├── PipelineBusy               another run of the pipeline is under way (retryable)
├── ClusterRefused             a cluster cannot be planned, applied or served as it is
├── PackageMissing             a package that only this call needs is not installed
├── ResourceLimit              memory, time or depth of a query
├── AdmissionRefused           too many calls of this actor, or of all, at once (retryable)
├── IdempotencyConflict        an idempotency key was used for another request
├── RequestInFlight            the first request with this key still runs (retryable)
├── Unavailable                this server cannot answer now: draining, starting, out of time
│   └── ServerUnavailable        a client got no answer: no connection, or not in time
├── ServerFailed               a server answered with an internal failure
├── NotServed                  a server does not offer this method
├── Unauthenticated            a server does not know the caller
└── PolicyDenied
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import get_annotations
from typing import Any, ClassVar


class OmnigraphError(Exception):
    """Base of everything this library raises on purpose.

    A class declares its fields as annotations. A field with a default may be absent; every other
    field is there in each error of the class.
    """

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    declared: ClassVar[frozenset[str]] = frozenset()
    """Names of the fields that errors of this class may carry."""
    required: ClassVar[frozenset[str]] = frozenset()
    """Those of them that every error of this class carries."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = get_annotations(cls).keys()
        cls.declared = cls.declared | own
        cls.required = cls.required | {name for name in own if not hasattr(cls, name)}

    def __init__(self, message: str, **fields: Any) -> None:
        undeclared = fields.keys() - self.declared
        if undeclared:
            raise TypeError(f"{type(self).__name__} declares no field {sorted(undeclared)}")
        for name in self.required - fields.keys():
            raise TypeError(f"{type(self).__name__} needs the field {name!r}")
        super().__init__(message)
        self.message = message
        self.fields = fields
        self.__dict__.update(fields)

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process boundaries (Spark workers, test children) with their fields.
        return (_rebuild, (type(self), self.message, self.fields))

    def to_dict(self) -> dict[str, Any]:
        """The error envelope shared by the CLI's `--json` and HTTP."""
        return {
            "error": self.message,
            "code": self.code,
            "retryable": self.retryable,
            **self.fields,
        }


def _rebuild(cls: type[OmnigraphError], message: str, fields: dict[str, Any]) -> OmnigraphError:
    return cls(message, **fields)


class InvalidArgument(OmnigraphError):
    """A value given by the caller cannot be used."""

    code = "invalid_argument"

    uri: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    at: str | None = None
    candidates: Sequence[str] | None = None
    type: str | None = None
    types: Sequence[str] | None = None
    tables: Sequence[str] | None = None
    property: str | None = None
    value: str | None = None
    wanted: str | None = None
    expected: str | int | None = None
    actual: str | int | None = None
    query: str | None = None
    queries: Sequence[str] | None = None
    parameter: str | None = None
    function: str | None = None
    engine: str | None = None
    master: str | None = None
    model: str | None = None
    setting: str | None = None
    key: str | None = None
    option: str | None = None
    source: str | None = None
    edits: Sequence[Any] | None = None
    resolutions: Sequence[str] | None = None


class InvalidName(InvalidArgument):
    """A branch, tag or type name breaks the naming rule; the rule is in the message."""

    code = "invalid_name"

    name: str | None = None


class ExternalBlobDenied(InvalidArgument):
    """A blob value is the URI of an external blob that the graph does not allow."""

    code = "external_blob_denied"

    reason: str | None = None


class LanguageError(OmnigraphError):
    """Schema or query text is wrong. `diagnostics` holds every finding, with spans."""

    code = "language_error"

    diagnostics: Sequence[Mapping[str, Any]]


class ParseError(LanguageError):
    """The text does not follow the grammar."""

    code = "parse_error"


class TypeCheckError(LanguageError):
    """The text is well formed and does not fit the catalog."""

    code = "type_check_error"


class SchemaRefused(OmnigraphError):
    """A schema change is not possible as asked; `step` and `reason` say why.

    `refusals` has all reasons. `requires` names what the caller can grant to make it possible.
    """

    code = "schema_refused"

    refusals: Sequence[Mapping[str, Any]] | None = None
    requires: Sequence[str] | None = None

    refusal: str | None = None
    step: str | None = None
    reason: str | None = None
    types: Sequence[str] | None = None
    ours: str | None = None
    theirs: str | None = None


class ValidationFailed(OmnigraphError):
    """Data breaks the schema. `violations` lists the first ones, `total` counts all.

    `counts` has the number by rule. `summary` has it by rule, type and property, the most frequent
    first. `stored` means that entities of the graph break a new schema, and not the input.
    """

    code = "validation_failed"

    violations: Sequence[Mapping[str, Any]] = ()
    total: int
    counts: Mapping[str, int] | None = None
    summary: Sequence[Mapping[str, Any]] | None = None
    type: str | None = None
    property: str | None = None
    row: int | None = None
    stored: bool = False


class KeyConflict(ValidationFailed):
    """Strict insert of ids that exist already; `ids` names them."""

    code = "key_conflict"

    ids: Sequence[str]
    entity_kind: str | None = None


class NotFound(OmnigraphError):
    """A graph, branch, tag, commit, type or entity is not there."""

    code = "not_found"

    uri: str | None = None
    branch: str | None = None
    tag: str | None = None
    commit: str | None = None
    at: str | None = None
    ours: str | None = None
    theirs: str | None = None
    type: str | None = None
    table: str | None = None
    id: str | None = None
    property: str | None = None
    file: str | None = None
    dataset: Any = None
    schema: str | None = None
    query: str | None = None
    queries: Sequence[str] | None = None


class SnapshotReclaimed(NotFound):
    """The snapshot existed and cleanup has removed its files."""

    code = "snapshot_reclaimed"

    version: int | None = None
    segment: str | None = None
    action: str | None = None


class FeedGap(SnapshotReclaimed):
    """Changes behind a feed cursor cannot be read any more: take a new baseline."""

    code = "feed_gap"


class AlreadyExists(OmnigraphError):
    """The name is taken."""

    code = "already_exists"

    uri: str | None = None
    branch: str | None = None
    tag: str | None = None
    dataset: str | None = None
    files: Sequence[str] | None = None


class CommitRejected(OmnigraphError):
    """Nothing was published; whatever had been staged is garbage."""

    code = "commit_rejected"

    tables: Sequence[str] | None = None


class ExpectedVersionMismatch(CommitRejected):
    """A table that was written or read moved; fields `table`, `expected`, `actual`."""

    code = "expected_version_mismatch"
    retryable = True

    table: str | None = None
    expected: str | int | None = None
    actual: str | int | None = None


class PreconditionFailed(CommitRejected):
    """`if_commit` did not hold; fields `branch`, `expected`, `actual`."""

    code = "precondition_failed"

    branch: str
    expected: str
    actual: str | None = None


class WriterFenced(CommitRejected):
    """This writer outlived its lease and another process rolled it back."""

    code = "writer_fenced"
    retryable = True

    operation_id: str | None = None
    action: str | None = None


class Contention(CommitRejected):
    """Overlapping writers did not go away within the bounded wait."""

    code = "contention"
    retryable = True

    intents: Sequence[str]


class SchemaChangeInProgress(CommitRejected):
    """Another caller is changing the schema of `branch`: `holder`, `since` (a moment in UTC).

    The `holder` is an actor, a host and a process id. A dead holder refuses no other caller.
    """

    code = "schema_change_in_progress"
    retryable = True

    branch: str
    holder: str
    since: str
    operation_id: str | None = None


class OutcomeUnknown(OmnigraphError):
    """The publish may or may not have landed; its intent stays and recovery will decide.

    Look for `commit_id` in the commit list, or repeat the call with an idempotency key.
    """

    code = "outcome_unknown"

    commit_id: str | None = None
    operation_id: str | None = None
    idempotency_key: str | None = None


class MergeConflicts(OmnigraphError):
    """A merge found `total` conflicts; `conflicts` lists the first 10,000 of them."""

    code = "conflict"

    conflicts: Sequence[Any]
    total: int
    source: str
    target: str

    def to_dict(self) -> dict[str, Any]:
        found = super().to_dict()
        conflicts = found.pop("conflicts", ())
        return {**found, "merge_conflicts": [conflict.to_dict() for conflict in conflicts]}


class RecoveryRequired(OmnigraphError):
    """A dead writer's intent could not be finished; reads work, writes do not."""

    code = "recovery_required"

    intents: Sequence[str] | None = None


class CorruptIntent(RecoveryRequired):
    """A file in `__recovery/` cannot be read; `repair --confirm --force` quarantines it."""

    code = "corrupt_intent"

    file: str


class InvariantViolation(RecoveryRequired):
    """A dataset is behind its pin. Nothing was changed; files were removed from outside."""

    code = "invariant_violation"

    tables: Sequence[str]
    operation_id: str | None = None


class SchemaDrift(OmnigraphError):
    """The stored schema or the columns of a table are not those that the commit names.

    `expected` and `found` say how a property of a type differs. Without `type` the schema object
    itself has changed.
    """

    code = "schema_drift"

    type: str | None = None
    property: str | None = None
    expected: str
    found: str
    schema: str | None = None


class FormatTooNew(OmnigraphError):
    """The graph was written by a newer release: upgrade omnigraph first."""

    code = "format_too_new"

    found: int
    supported: int


class FormatUnknown(OmnigraphError):
    """The directory is no OmniGraph graph, or its stamp cannot be read."""

    code = "format_unknown"

    segment: str | None = None
    schema: str | None = None
    object: str | None = None


class ReadOnlyGraph(OmnigraphError):
    """A write through a handle opened with `read_only=True`."""

    code = "read_only"


class GraphClosed(OmnigraphError):
    """A call through a handle after its `close()`."""

    code = "graph_closed"

    uri: str


class StorageFailure(OmnigraphError):
    """The disk or the object store refused."""

    code = "storage_failure"

    action: str | None = None
    file: str | None = None


class StorageFull(StorageFailure):
    """No space left; free some and repeat."""

    code = "storage_full"


class StorageUnsafe(StorageFailure):
    """The store does not honour put-if-absent, so two writers could both win."""

    code = "storage_unsafe"


class GraphMoved(StorageFailure):
    """Branches name the files they share at another address; `repair --confirm` changes that."""

    code = "graph_moved"

    uri: str
    moved_from: str


class ExternalBlobUnavailable(OmnigraphError):
    """An external blob cannot be read from here: it is not allowed, not there, or not readable.

    `uri` is empty if the caller may not know it.
    """

    code = "external_blob_unavailable"

    uri: str
    reason: str


class EmbeddingFailed(OmnigraphError):
    """A text could not be turned into a vector."""

    code = "embedding_failed"

    model: str | None = None


class EmbeddingUnavailable(EmbeddingFailed):
    """The provider is not installed, not reachable or overloaded."""

    code = "embedding_unavailable"
    retryable = True

    reason: str | None = None


class EmbeddingRefused(EmbeddingFailed):
    """The provider refused, or its answer cannot be used."""

    code = "embedding_refused"

    status: int | None = None


class ModelMismatch(EmbeddingFailed):
    """The provider's vectors do not compare with the stored ones; `expected`, `actual`."""

    code = "model_mismatch"

    expected: str | int | None = None
    actual: str | int | None = None


class EngineCannot(OmnigraphError):
    """A query uses what this engine does not have; `engine`, `construct` and the way out."""

    code = "engine_cannot"

    engine: str
    construct: str

    @classmethod
    def of(cls, engine: str, construct: str, why: str | None = None) -> EngineCannot:
        reason = f": {why}" if why else ""
        return cls(
            f"engine {engine!r} has no {construct}{reason}; use engine='local'",
            engine=engine,
            construct=construct,
        )


class SparkUnavailable(OmnigraphError):
    """Spark cannot run here; the message says what is missing, `log_file` what the JVM said."""

    code = "spark_unavailable"

    tried: Any = None
    master: str | None = None
    log_file: str | None = None


class SparkFailed(OmnigraphError):
    """A Spark job failed after its retries; nothing was committed."""

    code = "spark_failed"

    log_file: str | None = None


class PipelineInvalid(OmnigraphError):
    """A pipeline cannot run as declared.

    `problems` has everything that is wrong, each with its place if it is in the file.
    """

    code = "pipeline_invalid"

    problems: Sequence[Mapping[str, Any]]
    pipeline: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None


class PipelineFailed(OmnigraphError):
    """A run failed and published nothing; `cause` is the error below, as `--json` shows it."""

    code = "pipeline_failed"

    pipeline: str
    source: str | None = None
    file: str | None = None
    step: str | None = None
    target: str | None = None
    column: str | None = None
    cause: Mapping[str, Any] | None = None


class ExpectationFailed(PipelineFailed):
    """More rows than allowed fail an expectation with `on_fail: fail`."""

    code = "expectation_failed"

    check: str
    failed: int
    rows: int


class PipelineBusy(OmnigraphError):
    """Another run of the same pipeline is under way on this graph."""

    code = "pipeline_busy"
    retryable = True

    pipeline: str
    run_id: str | None = None


class PolicyInvalid(OmnigraphError):
    """The rules of a policy cannot be used.

    `diagnostics` has everything that is wrong: code, severity, path, line, column, message.
    """

    code = "policy_invalid"

    diagnostics: Sequence[Mapping[str, Any]]
    file: str | None = None


class ClusterRefused(OmnigraphError):
    """A cluster cannot be planned, applied or served as it is; `reason` is the diagnostic's code.

    `path` is the resource, the key of the config or the object that is wrong.
    """

    code = "cluster_refused"

    reason: str
    path: str = ""


class PackageMissing(OmnigraphError):
    """A package that only this call needs is not installed; `extra` brings it."""

    code = "package_missing"

    package: str
    extra: str | None = None


class ResourceLimit(OmnigraphError):
    """A query crossed a bound; `limit` names it: memory, spill, timeout, hops, paths, cancelled."""

    code = "resource_limit"

    limit: str
    rows: int | None = None
    needed_bytes: int | None = None
    budget_bytes: int | None = None
    ceiling: int | None = None


class AdmissionRefused(OmnigraphError):
    """A limit of calls at once is reached; `reason` names it, and nothing was done.

    `retry_after` is the number of seconds after which a repetition has a chance.
    """

    code = "too_many_requests"
    retryable = True

    reason: str
    retry_after: float
    limit: int | None = None


class IdempotencyConflict(OmnigraphError):
    """The idempotency key was used before, for a request with other contents."""

    code = "idempotency_conflict"

    key: str


class RequestInFlight(OmnigraphError):
    """The first request with this idempotency key has not ended yet."""

    code = "request_in_flight"
    retryable = True

    key: str
    retry_after: float = 1.0


class Unavailable(OmnigraphError):
    """A server or one of its graphs cannot answer now; `reason` says why, and nothing was done.

    Reasons are `draining`, `starting`, `quarantined` and `deadline`. `retry_after` is given when
    a repetition can help.
    """

    code = "unavailable"
    retryable = True

    reason: str
    retry_after: float | None = None


class ServerUnavailable(Unavailable):
    """A client got no answer of the server; `reason` is `connect` or `timeout`.

    Nothing was written: a write whose answer was lost raises `OutcomeUnknown`.
    """

    code = "server_unavailable"

    server: str


class ServerFailed(OmnigraphError):
    """A server failed while it worked on a request; its log has `request_id`."""

    code = "server_failed"

    status: int
    request_id: str | None = None


class NotServed(OmnigraphError):
    """A server does not offer this; `instead` says what to do."""

    code = "not_served"

    method: str
    instead: str


class Unauthenticated(OmnigraphError):
    """A server got no bearer token, or one that it does not know."""

    code = "unauthorized"


class PolicyDenied(OmnigraphError):
    """The actor may not do this; `rule` is the rule that denies it, if one does."""

    code = "forbidden"

    action: str | None = None
    branch: str | None = None
    target_branch: str | None = None
    actor_id: str | None = None
    rule: str | None = None
