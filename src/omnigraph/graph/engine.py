"""`Engine`: the parts of an open graph and how they are wired."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from omnigraph.embed.choose import choose_provider
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.lance_store.store import Store
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.settings.models import Settings, external_bases
from omnigraph.values.clock import Clock
from omnigraph.values.external_blobs import NONE_ALLOWED, ExternalBases
from omnigraph.values.known_names import LOCAL, SPARK, require_engine

if TYPE_CHECKING:
    from omnigraph.commit.arming import Arming
    from omnigraph.commit.branches import BranchLifecycle
    from omnigraph.commit.intents import IntentBoard
    from omnigraph.commit.keyed_requests import KeyedRequests
    from omnigraph.commit.leases import Leases
    from omnigraph.commit.operation_log import OperationLog
    from omnigraph.commit.recovery.sweep import Recovery
    from omnigraph.commit.transaction import Transaction
    from omnigraph.evolve.checks import CheckEngine
    from omnigraph.evolve.new_columns import ColumnWriter
    from omnigraph.evolve.plan import PlanContext
    from omnigraph.execute.query_runner import QueryRunner
    from omnigraph.load.local_load import LocalLoader
    from omnigraph.maintain.backup import Backup
    from omnigraph.maintain.cleanup import Cleanup
    from omnigraph.maintain.reconciler import Reconciler
    from omnigraph.maintain.repair import Repair
    from omnigraph.maintain.table_upkeep import Upkeep
    from omnigraph.manifest.records import Commit
    from omnigraph.manifest.scoped_snapshots import ScopedSnapshots
    from omnigraph.merge.operation import MergeContext
    from omnigraph.merge.output import MergeEngine
    from omnigraph.mutate.mutation import Mutator
    from omnigraph.spark.load.spark_load import SparkLoader
    from omnigraph.spark.merge.spark_merge import SparkMerger
    from omnigraph.spark.query.runner import SparkQueryRunner
    from omnigraph.spark.schema_checks import SparkChecks
    from omnigraph.spark.upkeep import SparkUpkeep
    from omnigraph.vectors.embedder import Embedder
    from omnigraph.vectors.vector_requests import VectorRequests


Part = TypeVar("Part")

_making = threading.RLock()  # reentrant, because parts are made of other parts


class built_once(Generic[Part]):
    """A part of an object that is made at its first use, and once.

    This is `functools.cached_property` with the lock that Python 3.12 removed from it.
    """

    def __init__(self, make: Callable[[Any], Part]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, owner: Any, kind: type | None = None) -> Part:
        with _making:
            if self._name not in owner.__dict__:
                owner.__dict__[self._name] = self._make(owner)
            part: Part = owner.__dict__[self._name]
            return part


@dataclass(frozen=True)
class Engine:
    """Everything that a `Graph` delegates to.

    The fields are what every process needs. The other parts, and the modules they are made of, are
    loaded at their first use, because imports are most of the time of a short command.
    """

    store: Store
    reader: ManifestReader
    commits: CommitGraph
    provider: EmbeddingProvider
    settings: Settings
    clock: Clock
    external: ExternalBases = NONE_ALLOWED
    """The external blobs that writes may name and reads may follow."""

    def close(self) -> None:
        """Stop the threads of upkeep and of builds, and let go of all handles and caches.

        Operations that still run in other threads finish with the parts that they hold.
        """
        with _making:
            made = [name for name in self.__dict__ if name not in self.__dataclass_fields__]
            parts = {name: self.__dict__.pop(name) for name in made}
        if "reconciler" in parts:
            parts["reconciler"].stop()
        if "queries" in parts:
            parts["queries"].close()
        self.reader.release()

    @built_once
    def scoped_snapshots(self) -> ScopedSnapshots:
        from omnigraph.manifest.scoped_snapshots import ScopedSnapshots

        return ScopedSnapshots(self.clock)

    @built_once
    def queries(self) -> QueryRunner:
        from omnigraph.execute.query_runner import QueryRunner
        from omnigraph.execute.topology.builds import Builds
        from omnigraph.execute.topology.cache_files import open_stored_topology
        from omnigraph.execute.views.snapshot_views import ViewCache

        read = self.settings.read
        stored = open_stored_topology(read, os.environ)
        builds = Builds(read.cache_bytes, beside=True)
        views = ViewCache(self.reader, read.cache_bytes, stored, builds=builds)
        return QueryRunner(views, read, self.provider, self.clock)

    @built_once
    def publisher(self) -> Publisher:
        return Publisher(self.reader, self.commits, self.settings.history, self.clock)

    @built_once
    def board(self) -> IntentBoard:
        from omnigraph.commit.intents import IntentBoard

        return IntentBoard(self.store.files, self.clock)

    @built_once
    def recovery(self) -> Recovery:
        from omnigraph.commit.recovery.act import RecoveryActions
        from omnigraph.commit.recovery.sweep import Recovery

        actions = RecoveryActions(self.reader, self.publisher, self.clock)
        return Recovery(self.board, self.reader, self.publisher, actions)

    @built_once
    def arming(self) -> Arming:
        from omnigraph.commit.arming import Arming

        patience = self.settings.write.wait_limit_seconds
        return Arming(self.board, self.clock, self.recovery.recover, patience)

    @built_once
    def transaction(self) -> Transaction:
        from omnigraph.commit.transaction import Transaction

        return Transaction(
            reader=self.reader,
            publisher=self.publisher,
            board=self.board,
            arming=self.arming,
            settings=self.settings,
            clock=self.clock,
            observer=self._committed,
        )

    def _committed(self, commit: Commit) -> None:
        # Looked up at each commit, because the reconciler is built on the transaction.
        self.reconciler.committed(commit)
        queries: QueryRunner | None = self.__dict__.get("queries")
        if queries is not None:
            branch = commit.graph_branch
            queries.committed(branch, lambda: self.reader.snapshot(*self.reader.branch(branch)))

    @built_once
    def leases(self) -> Leases:
        from omnigraph.commit.leases import Leases

        return Leases(self.arming, self.settings.write)

    @built_once
    def requests(self) -> KeyedRequests:
        from omnigraph.commit.keyed_requests import KeyedRequests

        return KeyedRequests(self.reader, self.settings.history, self.clock)

    @built_once
    def operations(self) -> OperationLog:
        from omnigraph.commit.operation_log import OperationLog

        return OperationLog(self.reader, self.board, self.recovery.sweep, self.clock)

    @built_once
    def lifecycle(self) -> BranchLifecycle:
        from omnigraph.commit.branches import BranchLifecycle

        return BranchLifecycle(
            reader=self.reader,
            publisher=self.publisher,
            arming=self.arming,
            settings=self.settings.write,
            clock=self.clock,
        )

    @built_once
    def loader(self) -> LocalLoader:
        from omnigraph.load.local_load import LocalLoader

        return LocalLoader(
            reader=self.reader,
            commits=self.commits,
            transaction=self.transaction,
            provider=self.provider,
            settings=self.settings.load,
            external=self.external,
        )

    @built_once
    def mutator(self) -> Mutator:
        from omnigraph.mutate.mutation import Mutator

        return Mutator(
            reader=self.reader,
            transaction=self.transaction,
            provider=self.provider,
            read=self.queries.read,
            clock=self.clock,
            external=self.external,
        )

    @built_once
    def cleanup(self) -> Cleanup:
        from omnigraph.maintain.cleanup import Cleanup

        return Cleanup(
            reader=self.reader,
            board=self.board,
            arming=self.arming,
            recovery=self.recovery,
            settings=self.settings,
            clock=self.clock,
        )

    @built_once
    def reconciler(self) -> Reconciler:
        from omnigraph.maintain.reconciler import Reconciler

        return Reconciler(
            self.reader,
            self.transaction,
            self.cleanup,
            self.settings.maintenance,
            queries_build=self._queries_build,
        )

    def _queries_build(self) -> bool:
        queries: QueryRunner | None = self.__dict__.get("queries")
        return queries is not None and queries.builds_beside

    @built_once
    def repair(self) -> Repair:
        from omnigraph.commit.restore import DriftRepair
        from omnigraph.maintain.repair import Repair

        drift = DriftRepair(
            reader=self.reader,
            publisher=self.publisher,
            arming=self.arming,
            settings=self.settings.write,
            clock=self.clock,
        )
        return Repair(self.reader, self.board, self.recovery, drift, self.transaction)

    @built_once
    def backup(self) -> Backup:
        from omnigraph.maintain.backup import Backup

        return Backup(self.reader, self.board, self.settings.write, self.clock)

    @built_once
    def embedder(self) -> Embedder:
        from omnigraph.vectors.embedder import Embedder
        from omnigraph.vectors.missing_vectors import History

        def spark_requests() -> VectorRequests:
            from omnigraph.spark.embed import SparkRequests

            return SparkRequests(self.settings.embedding, self.settings.pipeline)

        return Embedder(
            history=History(self.store, self.reader, self.commits),
            transaction=self.transaction,
            provider=self.provider,
            settings=self.settings.embedding,
            spark_requests=spark_requests,
            clock=self.clock,
        )

    def merge_context(self, engine: str = LOCAL) -> MergeContext:
        """What a merge works with; `engine` says where rows are merged: local, spark or auto."""
        from omnigraph.merge.operation import MergeContext
        from omnigraph.merge.output import LOCAL_ENGINE
        from omnigraph.spark.engine_choice import choose_merge_engine

        def choose(changed_rows: int | None) -> MergeEngine:
            choice = choose_merge_engine(engine, changed_rows, self.settings.pipeline)
            if choice.engine == SPARK:
                return self.spark_merger.engine(choice.reason)
            return replace(LOCAL_ENGINE, reason=choice.reason)

        return MergeContext(
            reader=self.reader,
            transaction=self.transaction,
            lifecycle=self.lifecycle,
            history=self.settings.history,
            clock=self.clock,
            choose_engine=choose,
        )

    def upkeep(self, actor: str | None, engine: str = LOCAL) -> Upkeep:
        """`engine` says where files are rewritten and indexes built: local or spark."""
        from omnigraph.maintain.table_upkeep import HERE, Upkeep

        require_engine(engine, "upkeep")
        work = HERE if engine == LOCAL else self.spark_upkeep
        return Upkeep(reader=self.reader, transaction=self.transaction, actor=actor, work=work)

    @built_once
    def spark_loader(self) -> SparkLoader:
        from omnigraph.spark.load.spark_load import SparkLoader

        return SparkLoader(
            self.reader, self.commits, self.transaction, self.settings, self.external
        )

    @built_once
    def spark_upkeep(self) -> SparkUpkeep:
        from omnigraph.spark.upkeep import SparkUpkeep

        return SparkUpkeep(self.settings.pipeline)

    @built_once
    def spark_merger(self) -> SparkMerger:
        from omnigraph.spark.merge.spark_merge import SparkMerger

        return SparkMerger(self.settings.pipeline)

    def choose_column_writer(self, engine: str) -> Callable[[int], ColumnWriter]:
        """Where a schema change writes new columns: local, spark, or auto by the number of rows."""
        from omnigraph.evolve.new_columns import write_here
        from omnigraph.spark.engine_choice import choose_merge_engine

        def choose(rows: int) -> ColumnWriter:
            choice = choose_merge_engine(engine, rows, self.settings.pipeline, "schema apply")
            return self.spark_upkeep.write_columns if choice.engine == SPARK else write_here

        return choose

    def schema_context(self, engine: str = LOCAL) -> PlanContext:
        """What a schema change is planned with; `engine` says where stored rows are checked."""
        from omnigraph.evolve.local_checks import CHECK_HERE
        from omnigraph.evolve.plan import PlanContext
        from omnigraph.spark.engine_choice import choose_merge_engine

        def choose(rows: int) -> CheckEngine:
            choice = choose_merge_engine(engine, rows, self.settings.pipeline, "schema change")
            return self.spark_checks if choice.engine == SPARK else CHECK_HERE

        return PlanContext(
            self.store,
            self.clock,
            lambda: self.provider,
            self.settings.load.memory_bytes,
            self.reader,
            choose,
        )

    @built_once
    def spark_checks(self) -> SparkChecks:
        from omnigraph.spark.session import spark_session

        spark_session(self.settings.pipeline)  # says what to do if Spark is not installed
        from omnigraph.spark.schema_checks import SparkChecks

        return SparkChecks(self.settings.pipeline)

    @built_once
    def spark_frame_of(self) -> Callable[[pa.Table], Any]:
        """Makes a Spark `DataFrame` of an Arrow table, in the session of the settings."""
        pipeline = self.settings.pipeline

        def frame_of(table: pa.Table) -> Any:
            from omnigraph.spark.session import spark_session

            session = spark_session(pipeline)
            from omnigraph.spark.column_types import frame_of_table

            return frame_of_table(session, table)

        return frame_of

    @built_once
    def spark_queries(self) -> SparkQueryRunner:
        from omnigraph.spark.query.runner import SparkQueryRunner

        return SparkQueryRunner(self.store, self.settings, self.clock)


def open_store(uri: str | os.PathLike[str], settings: Settings) -> Store:
    location = parse_location(uri, os.environ)
    if location.path is not None:
        _refuse_file(location.path)
    return Store(location, sync=settings.write.durability == "fsync")


def _refuse_file(path: Path) -> None:
    for part in (path, *path.parents):
        if part.is_file():
            raise InvalidArgument(f"{part} is a file; a graph is a directory", uri=str(path))


def build_engine(store: Store, settings: Settings, clock: Clock) -> Engine:
    reader = ManifestReader(store)
    provider = choose_provider(settings.embedding, os.environ, clock)
    external = external_bases(settings.external_blobs)
    return Engine(store, reader, CommitGraph(reader), provider, settings, clock, external)
