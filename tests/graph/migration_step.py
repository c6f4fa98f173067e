"""A made-up migration to the current format, and processes that run it or are killed in it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any

import lance

from omnigraph.commit import migration
from omnigraph.errors import NotFound
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.lance_store.advance import advance
from omnigraph.lance_store.staging.stage import stage_overwrite
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import CURRENT_FORMAT, read_stamp, state_to_rows
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.layout import MANIFEST
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader, manifest_version
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import MAIN
from omnigraph_testing.crash import Report

OLDER = CURRENT_FORMAT - 1
FIRST_HALF = "__schema/first-half"


def set_stamp(uri: str, stamp: str | None) -> None:
    """Rewrite the head of main's manifest with another stamp, as some other release would."""
    manifest = f"{uri}/__manifest"
    rows = lance.dataset(manifest).to_table()
    metadata = {"omnigraph:format": stamp} if stamp is not None else {}
    lance.write_dataset(rows.replace_schema_metadata(metadata), manifest, mode="overwrite")


def stamp_of(uri: str, physical_branch: str | None = None) -> str:
    manifest = lance.dataset(f"{uri}/__manifest")
    if physical_branch is not None:
        manifest = manifest.checkout_version((physical_branch, None))
    metadata: dict[bytes, bytes] = manifest.schema.metadata
    return metadata[b"omnigraph:format"].decode()


def write_as_older(graph: Graph, branch: str) -> None:
    """Rewrite a branch's head with the stamp of the older format."""
    reader = graph.engine.reader
    ref, state = reader.branch(branch)
    at = manifest_version(ref, state.version)
    advance(reader.store, stage_overwrite(reader.store, at, state_to_rows(state, OLDER)))


def to_current(store: Store) -> None:
    """Stamps every branch by an ordinary swap of its manifest, main last."""
    store.files.put(FIRST_HALF, b"done")
    reader = ManifestReader(store)
    publisher = Publisher(reader, CommitGraph(reader), HistorySettings(), SYSTEM_CLOCK)
    for name in sorted(reader.branch_refs.names(), key=lambda name: name == MAIN):
        ref = reader.branch_refs.find(name)
        if ref is None:
            continue
        with suppress(NotFound):  # deleted by another process
            head = store.open_head(MANIFEST, ref.physical_branch)
            if read_stamp(head.schema) < CURRENT_FORMAT:
                version = reader.state(ref).version
                publisher.publish(ref, Publication(SYSTEM_CLOCK.new_ulid(), version))


def die_half_way(store: Store) -> None:
    store.files.put(FIRST_HALF, b"done")
    os.kill(os.getpid(), signal.SIGKILL)


def open_for_writing(report: Report, uri: str) -> Any:
    migration.MIGRATIONS = {OLDER: to_current}
    report(open_graph(uri).snapshot().graph_commit_id)


def open_and_die(report: Report, uri: str) -> Any:
    migration.MIGRATIONS = {OLDER: die_half_way}
    open_graph(uri)
    report("survived")
