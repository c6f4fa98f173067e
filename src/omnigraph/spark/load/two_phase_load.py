"""A load in two halves, for writers whose rows Spark moves by itself.

`begin` tells workers where to write, before any of them runs; `land` takes what they reported and
commits it. The two may run in different processes: Spark commits outside of its driver's Python.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.catalog.model import EntityType
from omnigraph.commit.request import WriteRequest
from omnigraph.integrity.validate import claims
from omnigraph.load.commit_load import commit_load
from omnigraph.load.options import LoadMode, LoadOptions, LoadReceipt
from omnigraph.load.prepared import prepared_input
from omnigraph.load.sources import Source, entity_of
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.load.load_tasks import BegunLoad, TaskResult
from omnigraph.spark.load.spark_load import SparkLoader, load_plan
from omnigraph.spark.load.written_tables import in_order, take_written
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import EntityKind
from omnigraph.values.known_names import SPARK
from omnigraph.writes.changeset import ChangeSet


def begin(loader: SparkLoader, options: LoadOptions) -> BegunLoad:
    """Where rows of `options.type_name` are to be written for `options.branch`."""
    source = Source("arrow", "<DataFrame>", options.type_name)
    snapshot, entity = _owned(loader, options, source)
    key = entity.table_key
    plan = load_plan(loader, snapshot, (key,), options)
    return BegunLoad(source, plan, {key: snapshot.pin(key).at}, SYSTEM_CLOCK.now_micros())


def _owned(
    loader: SparkLoader, options: LoadOptions, source: Source
) -> tuple[Snapshot, EntityType]:
    """Fork the table first if the branch does not own it: files belong to one lineage."""
    ref, state = loader.reader.branch(options.branch)
    snapshot = loader.reader.snapshot(ref, state)
    entity = entity_of(source, snapshot.catalog)
    if snapshot.pin(entity.table_key).owner == ref.incarnation:
        return snapshot, entity
    fork = WriteRequest(options.branch, "load", (entity.table_key,), actor_id=options.actor)
    loader.transaction.run(fork, lambda _: ChangeSet(()))
    return loader.reader.snapshot(*loader.reader.branch(options.branch)), entity


def land(
    loader: SparkLoader, handoff: BegunLoad, results: Sequence[TaskResult], options: LoadOptions
) -> LoadReceipt:
    """Check what the workers wrote, all of it against itself and the graph, and commit it."""
    catalog, files = handoff.plan.catalog, [handoff.source.name]
    with prepared_input(catalog, loader.settings.load, files) as prepared:
        prepared.staged_since = handoff.begun_at
        landing = loader.landing(prepared, options.mode)
        (key,) = handoff.homes
        replaced = [key] if options.mode is LoadMode.OVERWRITE else []
        nodes = [k for k in replaced if k.kind is EntityKind.NODE]

        def build(snapshot: Snapshot) -> ChangeSet:
            if not prepared.spools:
                # Within the transaction: from here on cleanup leaves the files alone.
                placed = in_order(results, 0)
                take_written(prepared, loader.reader.store, handoff.homes, placed, replaced)
            return landing.build(snapshot)

        claimed = claims(catalog, [key], nodes, replaced)
        return commit_load(loader.transaction, prepared, options, claimed, build, SPARK)
