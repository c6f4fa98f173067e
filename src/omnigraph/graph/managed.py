"""Graphs of a cluster: the control plane alone creates them and changes their schema."""

from __future__ import annotations

from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.objects.control_files import open_control_files
from omnigraph.lance_store.objects.storage_location import StorageLocation, parse_location
from omnigraph.lance_store.store import Store
from omnigraph.manifest.layout import CLUSTER, CLUSTER_GRAPHS, CLUSTER_STATE, GRAPH_SUFFIX


def managing_root(location: StorageLocation) -> str | None:
    """The root of the cluster that a graph belongs to by its address; None for other graphs."""
    parent, _, name = location.uri.rpartition("/")
    root, _, folder = parent.rpartition("/")
    managed = folder == CLUSTER_GRAPHS and name.endswith(GRAPH_SUFFIX)
    if not managed or not root or root == "s3:/":
        return None
    return root


def refuse_managed(store: Store, operation: str) -> None:
    """Refuse an operation on a graph that a cluster manages, and name the command instead."""
    root = managing_root(store.location)
    if root is None:
        return
    # The graph has the credentials of its store, and its cluster lies in the same store.
    around = parse_location(root, {})
    files = open_control_files(
        StorageLocation(
            around.uri, around.path, around.bucket, around.prefix, store.location.options
        )
    )
    state = f"{CLUSTER}/{CLUSTER_STATE}"
    if files.get(state) is None:
        return
    raise InvalidArgument(
        f"{operation} is refused, because a cluster manages this graph ({root}/{state}): change "
        "its declaration and run `omnigraph cluster apply`",
        uri=store.location.uri,
    )
