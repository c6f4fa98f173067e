"""Graphs of the older format: the stamps of their manifests, and a process that migrates one."""

from __future__ import annotations

from typing import Any

import lance

from omnigraph.graph.open import open_graph
from omnigraph.manifest.branch_state import CURRENT_FORMAT
from omnigraph_testing.crash import Report

OLDER = CURRENT_FORMAT - 1


def set_stamp(uri: str, stamp: str | None) -> None:
    """Rewrite the head of main's manifest with another stamp, as some other release would."""
    manifest = f"{uri}/__manifest"
    rows = lance.dataset(manifest).to_table()
    metadata = {k: v for k, v in rows.schema.metadata.items() if k != b"omnigraph:format"}
    if stamp is not None:
        metadata[b"omnigraph:format"] = stamp.encode()
    lance.write_dataset(rows.replace_schema_metadata(metadata), manifest, mode="overwrite")


def stamp_of(uri: str, physical_branch: str | None = None) -> str:
    manifest = lance.dataset(f"{uri}/__manifest")
    if physical_branch is not None:
        manifest = manifest.checkout_version((physical_branch, None))
    metadata: dict[bytes, bytes] = manifest.schema.metadata
    return metadata[b"omnigraph:format"].decode()


def open_for_writing(report: Report, uri: str) -> Any:
    report(open_graph(uri).snapshot().graph_commit_id)
