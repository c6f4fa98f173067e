"""Graphs of a cluster: the control plane alone creates, changes and deletes them."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from omnigraph.errors import ClusterRefused, InvalidArgument
from omnigraph.lance_store.objects.control_files import open_control_files
from omnigraph.lance_store.objects.storage_location import StorageLocation, parse_location
from omnigraph.lance_store.store import Store
from omnigraph.manifest.layout import CLUSTER, CLUSTER_GRAPHS, CLUSTER_STATE, GRAPH_SUFFIX

if TYPE_CHECKING:
    from omnigraph.graph.engine import Engine
    from omnigraph.maintain.garbage import Retention

_STATE = f"{CLUSTER}/{CLUSTER_STATE}"


def managing_root(location: StorageLocation) -> str | None:
    """The root of the cluster that a graph belongs to by its address; None for other graphs."""
    parent, _, name = location.uri.rpartition("/")
    root, _, folder = parent.rpartition("/")
    managed = folder == CLUSTER_GRAPHS and name.endswith(GRAPH_SUFFIX)
    if not managed or not root or root == "s3:/":
        return None
    return root


def marked_export(engine: Engine, actor: str | None) -> AbstractContextManager[None]:
    """Keeps `cluster apply` from deleting a graph that is exported; other graphs need no mark."""
    if managing_root(engine.store.location) is None:
        return nullcontext()
    # Imported here, because other exports load nothing that writes.
    from omnigraph.commit.export_marks import export_mark

    return export_mark(engine.board, engine.clock, engine.settings.write, actor)


def _ledger(store: Store) -> bytes | None:
    """The ledger of the cluster around a graph, or None if there is none."""
    root = managing_root(store.location)
    if root is None:
        return None
    # The graph has the credentials of its store, and its cluster lies in the same store.
    around = parse_location(root, {})
    files = open_control_files(
        StorageLocation(
            around.uri, around.path, around.bucket, around.prefix, store.location.options
        )
    )
    return files.get(_STATE)


def refuse_managed(store: Store, operation: str) -> None:
    """Refuse an operation on a graph that a cluster manages, and name the command instead."""
    if _ledger(store) is None:
        return
    root = managing_root(store.location)
    raise InvalidArgument(
        f"{operation} is refused, because a cluster manages this graph ({root}/{_STATE}): change "
        "its declaration and run `omnigraph cluster apply`",
        uri=store.location.uri,
    )


def declared_retention(store: Store) -> Retention | None:
    """What the cluster of a graph keeps readable; None if it declares nothing.

    However the graph was opened, cleanup obeys it.
    """
    ledger = _ledger(store)
    if ledger is None:
        return None
    graph_id = store.location.uri.rpartition("/")[2].removesuffix(GRAPH_SUFFIX)
    try:
        resources = json.loads(ledger)["applied_revision"]["resources"]
        rules = resources.get(f"retention.{graph_id}", {}).get("retention")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ClusterRefused(
            f"the ledger of the cluster of this graph ({_STATE}) cannot be read, so it is not "
            "known what a cleanup must keep: restore it from a backup",
            reason="invalid_state_json",
            path=_STATE,
        ) from None
    if rules is None:
        return None
    from omnigraph.maintain.garbage import Retention

    return Retention.of_rules(rules)
