"""A load in two phases, for the Spark format: Spark moves the rows between them.

`begin_load` says where tasks write, before the first task runs. `finish_load` checks and commits
the rows that they report. The two may run in different processes, because Spark commits outside of
the Python process of its driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from omnigraph.commit.request import WriteRequest
from omnigraph.load.commit_load import commit_load, load_claims
from omnigraph.load.modes import SHRINKING, LoadMode
from omnigraph.load.options import LoadOptions, LoadReceipt
from omnigraph.load.patch_build import PatchInput
from omnigraph.load.prepared import prepared_input
from omnigraph.load.sources import Source, check_source_columns, entity_of
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.load.load_tasks import BegunLoad, TaskResult
from omnigraph.spark.load.spark_load import SparkLoader
from omnigraph.spark.load.written_tables import in_order, take_results
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import TableKey
from omnigraph.values.known_names import SPARK
from omnigraph.writes.changeset import ChangeSet


def begin_load(loader: SparkLoader, options: LoadOptions, columns: Sequence[str]) -> BegunLoad:
    """Where to write rows of `options.type_name` for `options.branch`, which have these columns."""
    source = Source("arrow", "<DataFrame>", options.type_name)
    ref, state = loader.reader.branch(options.branch)
    snapshot = loader.reader.snapshot(ref, state)
    reading = options.reading(loader.blobs)
    options.refuse_hidden_names(snapshot.catalog)
    check_source_columns(source, snapshot.catalog, columns, reading)
    key = entity_of(source, snapshot.catalog).table_key
    if snapshot.pin(key).owner != ref.incarnation:
        snapshot = _with_own_table(loader, options, key)
    plan = loader.plan(snapshot, (key,), options)
    return BegunLoad(source, plan, key, snapshot.pin(key).at, SYSTEM_CLOCK.now_micros())


def _with_own_table(loader: SparkLoader, options: LoadOptions, key: TableKey) -> Snapshot:
    """Fork a table that the branch shares, because the files of a table belong to one branch."""
    fork = WriteRequest(options.branch, "load", (key,), actor_id=options.actor)
    loader.transaction.run(fork, lambda _: ChangeSet(()))
    return loader.reader.snapshot(*loader.reader.branch(options.branch))


def finish_load(
    loader: SparkLoader, begun: BegunLoad, results: Sequence[TaskResult], options: LoadOptions
) -> LoadReceipt:
    """Check the written rows against each other and against the graph, and commit them."""
    catalog, store = begun.plan.catalog, loader.reader.store
    names = [begun.source.name]
    rules = options.rules_for(catalog)
    with prepared_input(catalog, loader.settings.load, rules, names) as prepared:
        prepared.staged_since = begun.begun_at
        homes = {begun.key: begun.home}
        patches = PatchInput(prepared)
        patching = loader.patch_build(patches, options)
        modes = options.modes
        patched = modes.may_be(LoadMode.PATCH)
        load = patching if patched else loader.build(prepared, options)
        taken = False

        def build(snapshot: Snapshot) -> ChangeSet:
            nonlocal taken
            if not taken:
                # Inside the transaction, because from here on cleanup keeps the files.
                ordered = in_order(results, 0)
                named = modes.with_mode([begun.key], SHRINKING)
                take_results(patches, store, homes, ordered, modes, named)
                taken = True
            return load.build(snapshot)

        claimed = load_claims(catalog, [begun.key], modes)
        with closing(patching):
            return commit_load(loader.transaction, prepared, options, claimed, build, SPARK)
