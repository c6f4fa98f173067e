"""A migration from format 0 to 1 for tests, and a process that is killed in the middle of it."""

from __future__ import annotations

import os
import signal
from typing import Any

import lance

from omnigraph.graph.open import open_graph
from omnigraph.lance_store.store import Store
from omnigraph.manifest import format_stamp
from omnigraph.testing.crash import Report

FIRST_HALF = "__schema/first-half"


def set_stamp(uri: str, stamp: str | None) -> None:
    """Rewrite the head of main's manifest with another stamp, as some other release would."""
    manifest = f"{uri}/__manifest"
    rows = lance.dataset(manifest).to_table()
    metadata = {"omnigraph:format": stamp} if stamp is not None else {}
    lance.write_dataset(rows.replace_schema_metadata(metadata), manifest, mode="overwrite")


def stamp_of(uri: str) -> str:
    metadata: dict[bytes, bytes] = lance.dataset(f"{uri}/__manifest").schema.metadata
    return metadata[b"omnigraph:format"].decode()


def from_zero_to_one(store: Store) -> None:
    """Harmless when it runs again; the stamp comes last."""
    store.files.put(FIRST_HALF, b"done")
    set_stamp(store.location.uri, "1")


def die_half_way(store: Store) -> None:
    store.files.put(FIRST_HALF, b"done")
    os.kill(os.getpid(), signal.SIGKILL)


def open_and_die(report: Report, uri: str) -> Any:
    format_stamp.MIGRATIONS = {0: die_half_way}
    open_graph(uri)
    report("survived")
