"""`RemoteGraph`: a `Graph` whose operations a server carries out.

It has the methods of `Graph` with the same parameters, records and errors. Code that takes a
`Graph` takes a `RemoteGraph`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from omnigraph.errors import GraphClosed, InvalidArgument, OmnigraphError
from omnigraph.graph.access import Access
from omnigraph.graph.collections import Branches, Commits, Schema, Tags
from omnigraph.graph.engine import Engine
from omnigraph.graph.external_blob import ExternalBlob
from omnigraph.graph.handle import Graph
from omnigraph.graph.stored_queries import Queries
from omnigraph.lance_store.reads.blob_reads import StoredBlob
from omnigraph.manifest.commit_graph import CommitName
from omnigraph.remote import read_operations
from omnigraph.remote.client import Client
from omnigraph.remote.exchanges import Exchange
from omnigraph.remote.served_operations import OPERATIONS, arguments_of, not_served, only_reads
from omnigraph.values.external_blobs import NONE_ALLOWED, ExternalBases
from omnigraph.values.identifiers import MAIN

_F = TypeVar("_F", bound=Callable[..., Any])


def served(method: _F) -> _F:
    """The same method, carried out by the server through the operation of its name."""
    operation = OPERATIONS[method.__qualname__]
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self: Any, *positional: Any, **named: Any) -> Any:
        arguments = arguments_of(signature, self, positional, named)
        return self._served.run(operation(**arguments))

    return cast("_F", call)


def unserved(method: _F) -> _F:
    """The same method, which raises `NotServed`."""

    @functools.wraps(method)
    def call(*_: Any, **__: Any) -> Any:
        raise not_served(method.__qualname__)

    return cast("_F", call)


class ServedBy:
    """The client of a handle, and whether the handle may write."""

    def __init__(self, client: Client, *, read_only: bool) -> None:
        self.client = client
        self.read_only = read_only

    def run(self, exchange: Exchange[Any]) -> Any:
        if self.read_only:
            exchange = only_reads(exchange, self.client.address.url)
        return self.client.run(exchange)


class RemoteBranches(Branches):
    """`Branches` of a graph on a server."""

    def __init__(self, served_by: ServedBy) -> None:
        self._served = served_by

    create = served(Branches.create)
    list = served(Branches.list)
    show = served(Branches.show)
    rename = served(Branches.rename)
    delete = served(Branches.delete)


class RemoteTags(Tags):
    """`Tags` of a graph on a server."""

    def __init__(self, served_by: ServedBy) -> None:
        self._served = served_by

    create = served(Tags.create)
    list = served(Tags.list)
    delete = served(Tags.delete)


class RemoteCommits(Commits):
    """`Commits` of a graph on a server."""

    def __init__(self, served_by: ServedBy) -> None:
        self._served = served_by

    list = served(Commits.list)
    by_key = served(Commits.by_key)
    show = served(Commits.show)
    schema_steps = served(Commits.schema_steps)
    graph = served(Commits.graph)
    changes = served(Commits.changes)


class RemoteSchema(Schema):
    """`Schema` of a graph on a server."""

    def __init__(self, served_by: ServedBy) -> None:
        self._served = served_by

    show = served(Schema.show)
    plan = served(Schema.plan)
    apply = served(Schema.apply)
    diff = served(Schema.diff)
    history = served(Schema.history)


class RemoteQueries(Queries):
    """`Queries` of a graph on a server."""

    def __init__(self, served_by: ServedBy) -> None:
        self._served = served_by

    list = served(Queries.list)
    run = served(Queries.run)
    validate = served(Queries.validate)
    reload = unserved(Queries.reload)


class RemoteGraph(Graph):
    """A graph on a server: `omnigraph.open("http://host/graphs/people", token=…)`.

    It has the methods of `Graph`. Writes carry an idempotency key, so that a write whose answer was
    lost is sent again without doing it twice. Threads may share it.
    """

    def __init__(
        self,
        client: Client,
        *,
        read_only: bool = False,
        external: ExternalBases = NONE_ALLOWED,
    ) -> None:
        self._served = ServedBy(client, read_only=read_only)
        self._external = external
        self.branches = RemoteBranches(self._served)
        self.tags = RemoteTags(self._served)
        self.commits = RemoteCommits(self._served)
        self.schema = RemoteSchema(self._served)
        self.queries = RemoteQueries(self._served)

    def __repr__(self) -> str:
        told = [self.uri, *(["read-only"] if self.read_only else []), self._head_text()]
        return f"<RemoteGraph {', '.join(told)}>"

    def _head_text(self) -> str:
        """The head for `repr`, which must not raise when the server is out of reach."""
        try:
            return f"{MAIN} at {self.branches.show(MAIN).head_commit_id}"
        except GraphClosed:
            return "closed"
        except OmnigraphError as error:
            return f"head unknown ({error.code})"

    def close(self) -> None:
        """Close the connections. Every later call raises `GraphClosed`, except another `close`."""
        self._served.client.close()

    @property
    def actor(self) -> str | None:
        """None: the server knows the actor by the token."""
        return None

    @property
    def read_only(self) -> bool:
        return self._served.read_only

    @property
    def access(self) -> Access:
        """A server decides by itself what a caller may do."""
        raise not_served("Graph.access")

    @property
    def engine(self) -> Engine:
        """A server does not show its parts."""
        raise not_served("Graph.engine")

    @property
    def uri(self) -> str:
        """The address of the graph on the server."""
        return self._served.client.address.url

    @property
    def format_version(self) -> int:
        """The format stamp of the files."""
        return self.snapshot().internal_schema_version

    snapshot = served(Graph.snapshot)
    read = served(Graph.read)
    query = served(Graph.query)
    explain = served(Graph.explain)
    profile = served(Graph.profile)
    export = served(Graph.export)
    mutate = served(Graph.mutate)
    apply = served(Graph.apply)
    load = served(Graph.load)
    embed = served(Graph.embed)
    merge = served(Graph.merge)
    preview_merge = served(Graph.preview_merge)
    revert = served(Graph.revert)
    cherry_pick = served(Graph.cherry_pick)
    diff = served(Graph.diff)
    changes = served(Graph.changes)
    baseline = served(Graph.baseline)
    optimize = served(Graph.optimize)
    ensure_indices = served(Graph.ensure_indices)
    index_status = served(Graph.index_status)
    status = served(Graph.status)
    cleanup = served(Graph.cleanup)
    verify = served(Graph.verify)
    recoveries = served(Graph.recoveries)
    as_actor = unserved(Graph.as_actor)
    require = unserved(Graph.require)
    state = unserved(Graph.state)
    seen = unserved(Graph.seen)
    load_options = unserved(Graph.load_options)
    repair = unserved(Graph.repair)
    for_repair = unserved(Graph.for_repair)
    backup = unserved(Graph.backup)
    refresh = unserved(Graph.refresh)
    kept_answer = unserved(Graph.kept_answer)

    def blob(
        self,
        kind: str,
        type: str,
        id: str,
        property: str,
        branch: str = MAIN,
        *,
        at: CommitName | None = None,
    ) -> StoredBlob | ExternalBlob:
        """A blob: `size`, and `read(offset, length)` of any range, each one a request.

        This process reads an external blob itself, from below a base that the graph was opened
        with (`external_blobs=`). The server never fetches it.
        """
        asked = read_operations.find_blob(kind, type, id, property, branch, at)
        found: read_operations.FoundBlob = self._served.run(asked)
        if found.uri is not None:
            return ExternalBlob(found.uri, found.commit_id, self._external)
        where = {"snapshot": found.commit_id}
        parameters = read_operations.blob_query(kind, type, id, property, where)
        return RemoteBlob(found.size, _served=self._served, _parameters=parameters)


@dataclass(frozen=True, slots=True)
class RemoteBlob(StoredBlob):
    """A blob of one commit on a server. Its bytes are read only by `read`."""

    _dataset: Any = None
    _column: str = ""
    _row_id: int = 0
    _served: ServedBy | None = field(default=None, repr=False, compare=False)
    _parameters: Any = ()

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """All bytes, or at most `length` of them from `offset`."""
        if offset < 0 or (length is not None and length < 0):
            raise InvalidArgument("a range begins at 0 or later, and its length is not negative")
        wanted = self.size - offset if length is None else min(length, self.size - offset)
        if wanted <= 0:
            return b""
        assert self._served is not None
        content: bytes = self._served.run(
            read_operations.blob_range(self._parameters, offset, wanted)
        )
        return content
