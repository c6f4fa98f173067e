"""The parts of an open graph, wired once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.embed.choose import choose_provider
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import InvalidArgument
from omnigraph.graph.built_once import built_once
from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.lance_store.store import Store
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.settings.models import Settings
from omnigraph.values.clock import Clock

if TYPE_CHECKING:
    from omnigraph.commit.arming import Arming
    from omnigraph.commit.branches import BranchLifecycle
    from omnigraph.commit.intents import IntentBoard
    from omnigraph.commit.recovery.sweep import Recovery
    from omnigraph.commit.transaction import Transaction
    from omnigraph.execute.query_runner import QueryRunner
    from omnigraph.load.local_load import LocalLoader
    from omnigraph.maintain.backup import Backup
    from omnigraph.maintain.cleanup import Cleanup
    from omnigraph.maintain.reconciler import Reconciler
    from omnigraph.maintain.repair import Repair
    from omnigraph.mutate.mutation import Mutator
    from omnigraph.spark.load.spark_load import SparkLoader
    from omnigraph.spark.merge.spark_merge import SparkMerger
    from omnigraph.spark.query.runner import SparkQueryRunner
    from omnigraph.spark.upkeep import SparkUpkeep
    from omnigraph.vectors.embedder import Embedder
    from omnigraph.vectors.vector_requests import VectorRequests


@dataclass(frozen=True)
class Engine:
    """Everything a `Graph` delegates to.

    What every process needs is there at once. The other parts are made when the first call asks for
    them: a process that lists branches should not wait for the code that queries, one that queries
    not for the code that writes, merges and loads.
    """

    store: Store
    reader: ManifestReader
    commits: CommitGraph
    provider: EmbeddingProvider
    settings: Settings
    clock: Clock

    @built_once
    def queries(self) -> QueryRunner:
        from omnigraph.execute.query_runner import QueryRunner
        from omnigraph.execute.topology.stored_topology import open_stored_topology
        from omnigraph.execute.views.snapshot_views import ViewCache

        read = self.settings.read
        stored = open_stored_topology(read, os.environ)
        views = ViewCache(self.reader, read.cache_bytes, stored)
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
        from omnigraph.commit.transaction import ObservedTransaction

        parts = (self.reader, self.publisher, self.board, self.arming)
        transaction = ObservedTransaction(*parts, self.settings, self.clock)
        transaction.observer = lambda commit: self.reconciler.committed(commit)
        return transaction

    @built_once
    def lifecycle(self) -> BranchLifecycle:
        from omnigraph.commit.branches import BranchLifecycle

        parts = (self.reader, self.publisher, self.arming)
        return BranchLifecycle(*parts, self.settings.write, self.clock)

    @built_once
    def loader(self) -> LocalLoader:
        from omnigraph.load.local_load import LocalLoader

        parts = (self.reader, self.commits, self.transaction, self.provider)
        return LocalLoader(*parts, self.settings.load)

    @built_once
    def mutator(self) -> Mutator:
        from omnigraph.mutate.mutation import Mutator

        parts = (self.reader, self.transaction, self.provider, self.queries.read)
        return Mutator(*parts, self.clock)

    @built_once
    def cleanup(self) -> Cleanup:
        from omnigraph.maintain.cleanup import Cleanup

        parts = (self.reader, self.board, self.arming, self.recovery)
        return Cleanup(*parts, self.settings, self.clock)

    @built_once
    def reconciler(self) -> Reconciler:
        from omnigraph.maintain.reconciler import Reconciler

        return Reconciler(self.reader, self.transaction, self.cleanup, self.settings.maintenance)

    @built_once
    def repair(self) -> Repair:
        from omnigraph.commit.restore import PushAside
        from omnigraph.maintain.repair import Repair

        parts = (self.reader, self.publisher, self.arming)
        push_aside = PushAside(*parts, self.settings.write, self.clock)
        return Repair(self.reader, self.board, self.recovery, push_aside)

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
            History(self.store, self.reader, self.commits),
            self.transaction,
            self.provider,
            self.settings.embedding,
            spark_requests,
            self.clock,
        )

    @built_once
    def spark_loader(self) -> SparkLoader:
        from omnigraph.spark.load.spark_load import SparkLoader

        return SparkLoader(self.reader, self.commits, self.transaction, self.settings)

    @built_once
    def spark_upkeep(self) -> SparkUpkeep:
        from omnigraph.spark.upkeep import SparkUpkeep

        return SparkUpkeep(self.settings.pipeline)

    @built_once
    def spark_merger(self) -> SparkMerger:
        from omnigraph.spark.merge.spark_merge import SparkMerger

        return SparkMerger(self.settings.pipeline)

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
    return Engine(store, reader, CommitGraph(reader), provider, settings, clock)
