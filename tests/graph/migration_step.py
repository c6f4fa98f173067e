"""Graphs of the older format: the stamps of their manifests, and a process that migrates one."""

from __future__ import annotations

from typing import Any

import lance

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.lance_store.advance import advance
from omnigraph.lance_store.staging.stage import stage_overwrite
from omnigraph.manifest.branch_state import CURRENT_FORMAT, state_to_rows
from omnigraph.manifest.reader import manifest_version
from omnigraph_testing.crash import Report

OLDER = CURRENT_FORMAT - 1


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


def open_for_writing(report: Report, uri: str) -> Any:
    report(open_graph(uri).snapshot().graph_commit_id)
