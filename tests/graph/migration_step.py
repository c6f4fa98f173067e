"""A migration from format 0 to 1 for tests, and a process that is killed in the middle of it."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import lance
import pyarrow as pa

from omnigraph.commit import migration
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.lance_store.advance import advance
from omnigraph.lance_store.staging.stage import stage_overwrite
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import MANIFEST_SCHEMA, state_to_rows
from omnigraph.manifest.reader import manifest_version
from omnigraph_testing.crash import Report

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


def write_as_format_one(graph: Graph, branch: str) -> None:
    """Rewrite a branch's head as format 1 wrote it: without the fields that came with format 2."""
    reader = graph.engine.reader
    ref, state = reader.branch(branch)
    rows = [_as_format_one(row) for row in state_to_rows(state, 1).to_pylist()]
    schema = MANIFEST_SCHEMA.with_metadata({"omnigraph:format": "1"})
    staged = stage_overwrite(
        reader.store, manifest_version(ref, state.version), pa.Table.from_pylist(rows, schema)
    )
    advance(reader.store, staged)


def _as_format_one(row: dict[str, Any]) -> dict[str, Any]:
    body = json.loads(row["metadata"] or "{}")
    for name in ("merged_history", "equals_merged", "differs_from_merged", "name"):
        body.pop(name, None)
    return {**row, "metadata": json.dumps(body)}


def open_for_writing(report: Report, uri: str) -> Any:
    report(open_graph(uri).snapshot().graph_commit_id)


def from_zero_to_one(store: Store) -> None:
    """Harmless when it runs again; the stamp comes last."""
    store.files.put(FIRST_HALF, b"done")
    set_stamp(store.location.uri, "1")


def die_half_way(store: Store) -> None:
    store.files.put(FIRST_HALF, b"done")
    os.kill(os.getpid(), signal.SIGKILL)


def open_and_die(report: Report, uri: str) -> Any:
    migration.MIGRATIONS = {**migration.MIGRATIONS, 0: die_half_way}
    open_graph(uri)
    report("survived")
