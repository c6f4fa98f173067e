"""OmniGraph: a typed property graph over Lance with Git-style branches and commits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph import aio as aio
    from omnigraph.catalog.model import (
        Annotation,
        Cardinality,
        Catalog,
        EdgeType,
        GeneratedDefault,
        InterfaceType,
        NodeType,
        Property,
    )
    from omnigraph.commit.intents import PendingIntent
    from omnigraph.commit.request import WriteReceipt
    from omnigraph.commit.restore import DriftedTable
    from omnigraph.diff.change import (
        Change,
        ChangedType,
        ChangeOp,
        ChangePage,
    )
    from omnigraph.errors import (
        AdmissionRefused,
        AlreadyExists,
        ClusterRefused,
        CommitRejected,
        Contention,
        CorruptIntent,
        EmbeddingFailed,
        EmbeddingRefused,
        EmbeddingUnavailable,
        EngineCannot,
        ExpectationFailed,
        ExpectedVersionMismatch,
        ExternalBlobDenied,
        ExternalBlobUnavailable,
        FeedGap,
        FormatTooNew,
        FormatUnknown,
        GraphClosed,
        GraphMoved,
        IdempotencyConflict,
        InvalidArgument,
        InvalidName,
        InvariantViolation,
        KeyConflict,
        LanguageError,
        MergeConflicts,
        ModelMismatch,
        NotFound,
        NotServed,
        OmnigraphError,
        OutcomeUnknown,
        PackageMissing,
        ParseError,
        PipelineBusy,
        PipelineFailed,
        PipelineInvalid,
        PolicyDenied,
        PolicyInvalid,
        PreconditionFailed,
        ReadOnlyGraph,
        RecoveryRequired,
        RequestInFlight,
        ResourceLimit,
        SchemaChangeInProgress,
        SchemaDrift,
        SchemaRefused,
        ServerFailed,
        ServerUnavailable,
        SnapshotReclaimed,
        SparkFailed,
        SparkUnavailable,
        StorageFailure,
        StorageFull,
        StorageUnsafe,
        TypeCheckError,
        Unauthenticated,
        Unavailable,
        ValidationFailed,
        WriterFenced,
    )
    from omnigraph.evolve.apply import SchemaResult
    from omnigraph.evolve.checks import SchemaViolation
    from omnigraph.evolve.plan import BranchOutlook, SchemaPlan
    from omnigraph.evolve.stored_queries import BrokenQuery
    from omnigraph.execute.query_types import QueryResult
    from omnigraph.export.export_graph import (
        ExportedType,
        ExportReceipt,
    )
    from omnigraph.feed import (
        FeedBlock,
        FeedPage,
    )
    from omnigraph.graph.collections import (
        Branch,
        Branches,
        Commits,
        Schema,
        Tags,
    )
    from omnigraph.graph.external_blob import ExternalBlob
    from omnigraph.graph.handle import Graph
    from omnigraph.graph.open import init
    from omnigraph.graph.open import restore_graph as restore
    from omnigraph.graph.schema_changes import SchemaDiff, SchemaVersion
    from omnigraph.graph.stored_queries import Queries
    from omnigraph.lance_store.reads.blob_reads import StoredBlob
    from omnigraph.lance_store.store import DatasetVersion
    from omnigraph.load.options import LoadReceipt, TypeCounts
    from omnigraph.maintain.backup import BackupReport
    from omnigraph.maintain.cleanup import CleanupReport
    from omnigraph.maintain.garbage import Removal
    from omnigraph.maintain.repair import RepairReport
    from omnigraph.maintain.status import (
        BranchStatus,
        GraphStatus,
        IndexStatus,
        TableStatus,
    )
    from omnigraph.maintain.verify import (
        Finding,
        VerifyReport,
    )
    from omnigraph.manifest.records import (
        Commit,
        PinChange,
        RecoveryAudit,
        StreamBatch,
        TableChanges,
        TablePin,
    )
    from omnigraph.manifest.refs import Tag
    from omnigraph.manifest.schemas import AcceptedSchema
    from omnigraph.manifest.snapshot import (
        Snapshot,
        SnapshotDataset,
    )
    from omnigraph.manifest.stored_columns import ColumnDifference
    from omnigraph.merge.conflicts import (
        Conflict,
        ConflictKind,
        MergePreview,
        MergeResult,
    )
    from omnigraph.merge.decisions import (
        Resolution,
        Side,
        Take,
    )
    from omnigraph.mutate.mutation import MutationReceipt
    from omnigraph.opening import open_graph as open
    from omnigraph.plan.plan_text import (
        PlanOperator,
        QueryPlan,
    )
    from omnigraph.policy.policy import ConsideredRule, Policy, PolicyDecision, WhoCan
    from omnigraph.remote.handle import RemoteGraph
    from omnigraph.schema.changes import Granted
    from omnigraph.schema.steps import PlannedStep, StepClass
    from omnigraph.settings.models import (
        ClientSettings,
        EmbeddingSettings,
        ExternalBlobSettings,
        HistorySettings,
        LoadSettings,
        MaintenanceSettings,
        PipelineSettings,
        ReadSettings,
        Settings,
        WriteSettings,
    )
    from omnigraph.stored_queries.entries import (
        QueryBreakage,
        QueryValidation,
        StoredParameter,
        StoredQuery,
        StoredSource,
    )
    from omnigraph.syntax.severities import SeverityLevel
    from omnigraph.values.identifiers import (
        EntityKind,
        TableKey,
    )
    from omnigraph.vectors.embedder import EmbedReceipt
    from omnigraph.writes.shape import Edit

# A name is imported on its first use, because `import omnigraph` must not load Lance and Arrow.
_CLASSES = {
    "omnigraph.catalog.model": (
        "Annotation",
        "Cardinality",
        "Catalog",
        "EdgeType",
        "GeneratedDefault",
        "InterfaceType",
        "NodeType",
        "Property",
    ),
    "omnigraph.commit.intents": ("PendingIntent",),
    "omnigraph.commit.request": ("WriteReceipt",),
    "omnigraph.commit.restore": ("DriftedTable",),
    "omnigraph.diff.change": (
        "Change",
        "ChangeOp",
        "ChangePage",
        "ChangedType",
    ),
    "omnigraph.execute.query_types": ("QueryResult",),
    "omnigraph.export.export_graph": (
        "ExportReceipt",
        "ExportedType",
    ),
    "omnigraph.feed": (
        "FeedBlock",
        "FeedPage",
    ),
    "omnigraph.graph.collections": (
        "Branch",
        "Branches",
        "Commits",
        "Schema",
        "Tags",
    ),
    "omnigraph.graph.external_blob": ("ExternalBlob",),
    "omnigraph.graph.handle": ("Graph",),
    "omnigraph.lance_store.reads.blob_reads": ("StoredBlob",),
    "omnigraph.lance_store.store": ("DatasetVersion",),
    "omnigraph.load.options": ("LoadReceipt", "TypeCounts"),
    "omnigraph.maintain.backup": ("BackupReport",),
    "omnigraph.maintain.cleanup": ("CleanupReport",),
    "omnigraph.maintain.garbage": ("Removal",),
    "omnigraph.maintain.repair": ("RepairReport",),
    "omnigraph.maintain.status": (
        "BranchStatus",
        "GraphStatus",
        "IndexStatus",
        "TableStatus",
    ),
    "omnigraph.maintain.verify": (
        "Finding",
        "VerifyReport",
    ),
    "omnigraph.manifest.records": (
        "Commit",
        "PinChange",
        "RecoveryAudit",
        "StreamBatch",
        "TableChanges",
        "TablePin",
    ),
    "omnigraph.manifest.refs": ("Tag",),
    "omnigraph.evolve.apply": ("SchemaResult",),
    "omnigraph.evolve.checks": ("SchemaViolation",),
    "omnigraph.evolve.plan": ("BranchOutlook", "SchemaPlan"),
    "omnigraph.evolve.stored_queries": ("BrokenQuery",),
    "omnigraph.graph.schema_changes": (
        "SchemaDiff",
        "SchemaVersion",
    ),
    "omnigraph.remote.handle": ("RemoteGraph",),
    "omnigraph.schema.changes": ("Granted",),
    "omnigraph.schema.steps": (
        "PlannedStep",
        "StepClass",
    ),
    "omnigraph.graph.stored_queries": ("Queries",),
    "omnigraph.stored_queries.entries": (
        "QueryBreakage",
        "QueryValidation",
        "StoredParameter",
        "StoredQuery",
        "StoredSource",
    ),
    "omnigraph.syntax.severities": ("SeverityLevel",),
    "omnigraph.manifest.schemas": ("AcceptedSchema",),
    "omnigraph.manifest.snapshot": (
        "Snapshot",
        "SnapshotDataset",
    ),
    "omnigraph.manifest.stored_columns": ("ColumnDifference",),
    "omnigraph.merge.conflicts": (
        "Conflict",
        "ConflictKind",
        "MergePreview",
        "MergeResult",
    ),
    "omnigraph.merge.decisions": (
        "Resolution",
        "Side",
        "Take",
    ),
    "omnigraph.mutate.mutation": ("MutationReceipt",),
    "omnigraph.plan.plan_text": (
        "PlanOperator",
        "QueryPlan",
    ),
    "omnigraph.policy.policy": (
        "ConsideredRule",
        "Policy",
        "PolicyDecision",
        "WhoCan",
    ),
    "omnigraph.settings.models": (
        "ClientSettings",
        "EmbeddingSettings",
        "ExternalBlobSettings",
        "HistorySettings",
        "LoadSettings",
        "MaintenanceSettings",
        "PipelineSettings",
        "ReadSettings",
        "Settings",
        "WriteSettings",
    ),
    "omnigraph.values.identifiers": (
        "EntityKind",
        "TableKey",
    ),
    "omnigraph.vectors.embedder": ("EmbedReceipt",),
    "omnigraph.writes.shape": ("Edit",),
}
_PUBLIC = {
    **{name: (module, name) for module, names in _CLASSES.items() for name in names},
    "init": ("omnigraph.graph.open", "init"),
    "open": ("omnigraph.opening", "open_graph"),
    "restore": ("omnigraph.graph.open", "restore_graph"),
}

__all__ = [
    "AcceptedSchema",
    "AdmissionRefused",
    "AlreadyExists",
    "Annotation",
    "BackupReport",
    "Branch",
    "BranchOutlook",
    "BranchStatus",
    "Branches",
    "BrokenQuery",
    "Cardinality",
    "Catalog",
    "Change",
    "ChangeOp",
    "ChangePage",
    "ChangedType",
    "CleanupReport",
    "ClientSettings",
    "ClusterRefused",
    "ColumnDifference",
    "Commit",
    "CommitRejected",
    "Commits",
    "Conflict",
    "ConflictKind",
    "ConsideredRule",
    "Contention",
    "CorruptIntent",
    "DatasetVersion",
    "DriftedTable",
    "EdgeType",
    "Edit",
    "EmbedReceipt",
    "EmbeddingFailed",
    "EmbeddingRefused",
    "EmbeddingSettings",
    "EmbeddingUnavailable",
    "EngineCannot",
    "EntityKind",
    "ExpectationFailed",
    "ExpectedVersionMismatch",
    "ExportReceipt",
    "ExportedType",
    "ExternalBlob",
    "ExternalBlobDenied",
    "ExternalBlobSettings",
    "ExternalBlobUnavailable",
    "FeedBlock",
    "FeedGap",
    "FeedPage",
    "Finding",
    "FormatTooNew",
    "FormatUnknown",
    "GeneratedDefault",
    "Granted",
    "Graph",
    "GraphClosed",
    "GraphMoved",
    "GraphStatus",
    "HistorySettings",
    "IdempotencyConflict",
    "IndexStatus",
    "InterfaceType",
    "InvalidArgument",
    "InvalidName",
    "InvariantViolation",
    "KeyConflict",
    "LanguageError",
    "LoadReceipt",
    "LoadSettings",
    "MaintenanceSettings",
    "MergeConflicts",
    "MergePreview",
    "MergeResult",
    "ModelMismatch",
    "MutationReceipt",
    "NodeType",
    "NotFound",
    "NotServed",
    "OmnigraphError",
    "OutcomeUnknown",
    "PackageMissing",
    "ParseError",
    "PendingIntent",
    "PinChange",
    "PipelineBusy",
    "PipelineFailed",
    "PipelineInvalid",
    "PipelineSettings",
    "PlanOperator",
    "PlannedStep",
    "Policy",
    "PolicyDecision",
    "PolicyDenied",
    "PolicyInvalid",
    "PreconditionFailed",
    "Property",
    "Queries",
    "QueryBreakage",
    "QueryPlan",
    "QueryResult",
    "QueryValidation",
    "ReadOnlyGraph",
    "ReadSettings",
    "RecoveryAudit",
    "RecoveryRequired",
    "RemoteGraph",
    "Removal",
    "RepairReport",
    "RequestInFlight",
    "Resolution",
    "ResourceLimit",
    "Schema",
    "SchemaChangeInProgress",
    "SchemaDiff",
    "SchemaDrift",
    "SchemaPlan",
    "SchemaRefused",
    "SchemaResult",
    "SchemaVersion",
    "SchemaViolation",
    "ServerFailed",
    "ServerUnavailable",
    "Settings",
    "SeverityLevel",
    "Side",
    "Snapshot",
    "SnapshotDataset",
    "SnapshotReclaimed",
    "SparkFailed",
    "SparkUnavailable",
    "StepClass",
    "StorageFailure",
    "StorageFull",
    "StorageUnsafe",
    "StoredBlob",
    "StoredParameter",
    "StoredQuery",
    "StoredSource",
    "StreamBatch",
    "TableChanges",
    "TableKey",
    "TablePin",
    "TableStatus",
    "Tag",
    "Tags",
    "Take",
    "TypeCheckError",
    "TypeCounts",
    "Unauthenticated",
    "Unavailable",
    "ValidationFailed",
    "VerifyReport",
    "WhoCan",
    "WriteReceipt",
    "WriteSettings",
    "WriterFenced",
    "init",
    "open",
    "restore",
]


def __getattr__(name: str) -> Any:
    if name == "aio":
        return import_module("omnigraph.aio")
    if name not in __all__:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    module, attribute = _PUBLIC.get(name, ("omnigraph.errors", name))
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
