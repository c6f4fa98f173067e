"""`omnigraph.open`: a graph in a store, or a graph on a server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidArgument, PolicyDenied
from omnigraph.graph.handle import Graph
from omnigraph.remote.address import is_remote, parse_address
from omnigraph.settings.models import Settings, external_bases

if TYPE_CHECKING:
    from omnigraph.policy.policy import PolicySource
    from omnigraph.stored_queries.registry import QueryPlace


def open_graph(
    uri: str | os.PathLike[str],
    *,
    actor: str | None = None,
    read_only: bool = False,
    settings: Settings | None = None,
    token: str | None = None,
    queries: QueryPlace | None = None,
    policy: PolicySource | None = None,
    external_blobs: Sequence[str] = (),
) -> Graph:
    """Open an existing graph: a directory, `s3://bucket/prefix` or `http://host/graphs/id`.

    Opening a store for writing first migrates an old format and recovers what dead writers left.
    A graph on a server has the same methods (`RemoteGraph`). `token` is its bearer token, and the
    server knows the actor by it, so `actor` is for stores only. `queries` are stored queries for
    `graph.queries`: a directory of `.gq` files, or one of them. A server has its own. With a
    `policy`, a file of rules or a `Policy`, the handle does and sees only what the rules allow the
    actor. Code that can read the files of the store is not bound by it. `external_blobs` are
    addresses, such as `s3://bucket/pictures`, below which blobs may lie outside of the graph. They
    hold beside those of the settings. Writes to a server are bound by the bases of the server.

    Example:
        >>> graph = omnigraph.open("people.omni", actor="ada")
        >>> graph = omnigraph.open("https://graphs.example.com/graphs/people", token=token)
    """
    settings = (settings or Settings()).allowing(external_blobs)
    if is_remote(uri):
        if queries is not None:
            raise InvalidArgument(f"{uri} is a server, which has its own stored queries")
        if policy is not None:
            raise InvalidArgument(f"{uri} is a server, which has its own policy")
        return _open_remote(str(uri), read_only, settings, token)
    if token is not None:
        raise InvalidArgument("a token is for a server, and this is a store: leave it out")
    from omnigraph.graph.open import open_graph as open_store

    return open_store(
        uri, actor=actor, read_only=read_only, settings=settings, queries=queries, policy=policy
    )


def _open_remote(url: str, read_only: bool, settings: Settings, token: str | None) -> Graph:
    from omnigraph.remote.client import Client
    from omnigraph.remote.handle import RemoteGraph

    client = Client(parse_address(url), token, settings.client)
    graph = RemoteGraph(
        client, read_only=read_only, external=external_bases(settings.external_blobs)
    )
    try:
        graph.commits.list(limit=1)  # says now if the server, the token or the graph is wrong
    except PolicyDenied:
        pass  # the token is known, and may be one that only writes
    except BaseException:
        graph.close()
        raise
    return graph
