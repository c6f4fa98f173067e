"""The whole exception tree: every class has a stable `code`, a `retryable` flag and fields.

OmnigraphError
├── InvalidArgument            a value given by the caller cannot be used
│   └── InvalidName            a branch, tag or type name breaks the naming rule
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
│   └── Contention               overlapping writers did not go away in time (retryable)
├── OutcomeUnknown             the answer of the publish was lost and cannot be looked up now
├── MergeConflicts
├── RecoveryRequired           a dead writer's intent could not be finished
│   ├── CorruptIntent          a file in __recovery cannot be read
│   └── InvariantViolation     a dataset is behind its pin: stop, look, restore from backup
├── FormatTooNew / FormatUnknown
├── ReadOnlyGraph              a write through a read-only handle
├── StorageFailure             the disk or object store refused
│   ├── StorageFull
│   ├── StorageUnsafe          the store does not honour put-if-absent
│   └── GraphMoved             branches name files at the address the graph had before
├── EmbeddingFailed            a text could not be turned into a vector
│   ├── EmbeddingUnavailable     the provider cannot be reached now (retryable)
│   ├── EmbeddingRefused         the provider refused, or its answer cannot be used
│   └── ModelMismatch            vectors of another model, or of another width
├── EngineCannot               a query that this engine does not run; another one does
├── SparkUnavailable           no Java, no pyspark, or the cluster does not answer
├── SparkFailed                a Spark job failed after its retries; nothing changed
├── PackageMissing             a package that only this call needs is not installed
├── ResourceLimit              memory, time or depth of a query
└── PolicyDenied
"""

from __future__ import annotations

from typing import Any, ClassVar


class OmnigraphError(Exception):
    """Base of everything this library raises on purpose."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        # Fields are readable as attributes (`error.table`) without a class body per error.
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(name) from None

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


class InvalidName(InvalidArgument):
    """A branch, tag or type name breaks the naming rule; the rule is in the message."""

    code = "invalid_name"


class LanguageError(OmnigraphError):
    """Schema or query text is wrong. `diagnostics` holds every finding, with spans."""

    code = "language_error"


class ParseError(LanguageError):
    """The text does not follow the grammar."""

    code = "parse_error"


class TypeCheckError(LanguageError):
    """The text is well formed and does not fit the catalog."""

    code = "type_check_error"


class SchemaRefused(OmnigraphError):
    """A schema change is not possible as asked; `step` and `reason` say why."""

    code = "schema_refused"


class ValidationFailed(OmnigraphError):
    """Data breaks the schema. `violations` lists the first ones, `total` counts all."""

    code = "validation_failed"


class KeyConflict(ValidationFailed):
    """Strict insert of ids that exist already; `ids` names them."""

    code = "key_conflict"


class NotFound(OmnigraphError):
    """A graph, branch, tag, commit, type or entity is not there."""

    code = "not_found"


class SnapshotReclaimed(NotFound):
    """The snapshot existed and cleanup has removed its files."""

    code = "snapshot_reclaimed"


class FeedGap(SnapshotReclaimed):
    """Changes behind a feed cursor cannot be read any more: take a new baseline."""

    code = "feed_gap"


class AlreadyExists(OmnigraphError):
    """The name is taken."""

    code = "already_exists"


class CommitRejected(OmnigraphError):
    """Nothing was published; whatever had been staged is garbage."""

    code = "commit_rejected"


class ExpectedVersionMismatch(CommitRejected):
    """A table that was written or read moved; fields `table`, `expected`, `actual`."""

    code = "expected_version_mismatch"
    retryable = True


class PreconditionFailed(CommitRejected):
    """`if_commit` did not hold; fields `branch`, `expected`, `actual`."""

    code = "precondition_failed"


class WriterFenced(CommitRejected):
    """This writer outlived its lease and another process rolled it back."""

    code = "writer_fenced"
    retryable = True


class Contention(CommitRejected):
    """Overlapping writers did not go away within the bounded wait."""

    code = "contention"
    retryable = True


class OutcomeUnknown(OmnigraphError):
    """The publish may or may not have landed; its intent stays and recovery will decide.

    Look for `commit_id` in the commit list, or repeat the call with an idempotency key.
    """

    code = "outcome_unknown"


class MergeConflicts(OmnigraphError):
    """A merge found `total` conflicts; `conflicts` lists the first 10,000 of them."""

    code = "conflict"

    def to_dict(self) -> dict[str, Any]:
        found = super().to_dict()
        conflicts = found.pop("conflicts", ())
        return {**found, "merge_conflicts": [conflict.to_dict() for conflict in conflicts]}


class RecoveryRequired(OmnigraphError):
    """A dead writer's intent could not be finished; reads work, writes do not."""

    code = "recovery_required"


class CorruptIntent(RecoveryRequired):
    """A file in `__recovery/` cannot be read; `repair --confirm --force` quarantines it."""

    code = "corrupt_intent"


class InvariantViolation(RecoveryRequired):
    """A dataset is behind its pin. Nothing was changed; files were removed from outside."""

    code = "invariant_violation"


class FormatTooNew(OmnigraphError):
    """The graph was written by a newer release: upgrade omnigraph first."""

    code = "format_too_new"


class FormatUnknown(OmnigraphError):
    """The directory is no OmniGraph graph, or its stamp cannot be read."""

    code = "format_unknown"


class ReadOnlyGraph(OmnigraphError):
    """A write through a handle opened with `read_only=True`."""

    code = "read_only"


class StorageFailure(OmnigraphError):
    """The disk or the object store refused."""

    code = "storage_failure"


class StorageFull(StorageFailure):
    """No space left; free some and repeat."""

    code = "storage_full"


class StorageUnsafe(StorageFailure):
    """The store does not honour put-if-absent, so two writers could both win."""

    code = "storage_unsafe"


class GraphMoved(StorageFailure):
    """Branches name the files they share at another address; `repair --confirm` changes that."""

    code = "graph_moved"


class EmbeddingFailed(OmnigraphError):
    """A text could not be turned into a vector."""

    code = "embedding_failed"


class EmbeddingUnavailable(EmbeddingFailed):
    """The provider is not installed, not reachable or overloaded."""

    code = "embedding_unavailable"
    retryable = True


class EmbeddingRefused(EmbeddingFailed):
    """The provider refused, or its answer cannot be used."""

    code = "embedding_refused"


class ModelMismatch(EmbeddingFailed):
    """The provider's vectors do not compare with the stored ones; `expected`, `actual`."""

    code = "model_mismatch"


class EngineCannot(OmnigraphError):
    """A query uses what this engine does not have; `engine`, `construct` and the way out."""

    code = "engine_cannot"

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


class SparkFailed(OmnigraphError):
    """A Spark job failed after its retries; nothing was committed."""

    code = "spark_failed"


class PackageMissing(OmnigraphError):
    """A package that only this call needs is not installed; `extra` brings it."""

    code = "package_missing"


class ResourceLimit(OmnigraphError):
    """A query crossed a bound; `limit` names it: memory, spill, timeout, hops, paths, cancelled."""

    code = "resource_limit"

    def __init__(self, message: str, *, limit: str, **fields: Any) -> None:
        super().__init__(message, limit=limit, **fields)


class PolicyDenied(OmnigraphError):
    """The actor may not do this."""

    code = "forbidden"
