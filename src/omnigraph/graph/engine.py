"""The parts of an open graph, wired once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from omnigraph.commit.arming import Arming
from omnigraph.commit.branch_lifecycle import BranchLifecycle
from omnigraph.commit.drift import PushAside
from omnigraph.commit.intent_board import IntentBoard
from omnigraph.commit.observed import ObservedTransaction
from omnigraph.commit.recovery.act import RecoveryActions
from omnigraph.commit.recovery.sweep import Recovery
from omnigraph.commit.transaction import Transaction
from omnigraph.embed.choose import choose_provider
from omnigraph.errors import InvalidArgument
from omnigraph.execute.topology.stored_topology import open_stored_topology
from omnigraph.execute.views.snapshot_views import ViewCache
from omnigraph.graph.queries import QueryRunner
from omnigraph.graph.spark_queries import SparkQueryRunner
from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.lance_store.store import Store
from omnigraph.load.local_load import LocalLoader
from omnigraph.maintain.backup import Backup
from omnigraph.maintain.cleanup import Cleanup
from omnigraph.maintain.reconciler import Reconciler
from omnigraph.maintain.repair import Repair
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.mutate.mutation import Mutator
from omnigraph.pipeline.embed import Embedder
from omnigraph.pipeline.embed_plan import History
from omnigraph.pipeline.spark_compaction import SparkCompactor
from omnigraph.pipeline.spark_load import SparkLoader
from omnigraph.settings.maintenance import MaintenanceSettings
from omnigraph.settings.models import HistorySettings, Settings
from omnigraph.values.clock import Clock


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything a `Graph` delegates to."""

    store: Store
    reader: ManifestReader
    commits: CommitGraph
    board: IntentBoard
    recovery: Recovery
    transaction: Transaction
    lifecycle: BranchLifecycle
    cleanup: Cleanup
    backup: Backup
    reconciler: Reconciler
    maintenance: MaintenanceSettings
    history: HistorySettings
    repair: Repair
    queries: QueryRunner
    spark_queries: SparkQueryRunner
    embedder: Embedder
    loader: LocalLoader
    mutator: Mutator
    spark_loader: SparkLoader
    spark_compactor: SparkCompactor


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
    commits = CommitGraph(reader)
    publisher = Publisher(reader, commits, settings.history, clock)
    board = IntentBoard(store.files, clock)
    recovery = Recovery(board, reader, publisher, RecoveryActions(reader, publisher, clock))
    arming = Arming(board, clock, recovery.recover, settings.write.wait_limit_seconds)
    provider = choose_provider(settings.embedding, os.environ, clock)
    transaction = ObservedTransaction(reader, publisher, board, arming, settings, clock)
    cleanup = Cleanup(reader, board, arming, recovery, settings, clock)
    reconciler = Reconciler(reader, transaction, cleanup, settings.maintenance)
    transaction.observer = reconciler.committed
    views = ViewCache(
        reader, settings.read.cache_bytes, open_stored_topology(settings.read, os.environ)
    )
    queries = QueryRunner(views, settings.read, provider, clock)
    return Engine(
        store=store,
        reader=reader,
        commits=commits,
        board=board,
        recovery=recovery,
        transaction=transaction,
        lifecycle=BranchLifecycle(reader, publisher, arming, settings.write, clock),
        queries=queries,
        spark_queries=SparkQueryRunner(store, settings, clock),
        loader=LocalLoader(reader, commits, transaction, provider, settings.load),
        repair=Repair(
            reader, board, recovery, PushAside(reader, publisher, arming, settings.write, clock)
        ),
        cleanup=cleanup,
        backup=Backup(reader, board, settings.write, clock),
        reconciler=reconciler,
        maintenance=settings.maintenance,
        history=settings.history,
        spark_loader=SparkLoader(reader, commits, transaction, settings),
        spark_compactor=SparkCompactor(settings.pipeline),
        embedder=Embedder(
            History(store, reader, commits),
            transaction,
            provider,
            settings.embedding,
            settings.pipeline,
            clock,
        ),
        mutator=Mutator(reader, transaction, provider, queries.read, clock),
    )
