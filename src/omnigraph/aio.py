"""Graphs for asyncio: `graph = await omnigraph.aio.open(uri)`, then `await graph.query(…)`.

A graph on a server is called over `httpx.AsyncClient`. A graph in a store works in threads of its
own. Both have the methods of `Graph` with the same parameters, records and errors.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, cast

import pyarrow as pa

from omnigraph.errors import InvalidArgument, PolicyDenied
from omnigraph.graph.collections import Branches, Commits, Schema, Tags
from omnigraph.graph.handle import Graph
from omnigraph.graph.reads import QuerySource
from omnigraph.graph.stored_queries import Queries
from omnigraph.manifest.commit_graph import CommitName
from omnigraph.opening import open_graph
from omnigraph.policy.policy import PolicySource
from omnigraph.remote.address import RemoteAddress, is_remote, parse_address
from omnigraph.remote.async_client import AsyncClient
from omnigraph.remote.client import Client
from omnigraph.remote.handle import RemoteGraph
from omnigraph.remote.served_operations import (
    NOT_SERVED,
    OPERATIONS,
    arguments_of,
    not_served,
    only_reads,
)
from omnigraph.settings.models import Settings, external_bases
from omnigraph.stored_queries.registry import QueryPlace
from omnigraph.values.identifiers import MAIN

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Self = TypeVar("_Self")

THREADS = 16
"""Calls of a graph in a store that run at the same time."""

_COLLECTIONS = {
    "Branches": "branches",
    "Tags": "tags",
    "Commits": "commits",
    "Schema": "schema",
    "Queries": "queries",
}


class _Backend(Protocol):
    """Carries out the methods of `Graph` by their qualified names."""

    uri: str

    async def call(self, name: str, arguments: dict[str, Any]) -> Any: ...

    async def blocking(self, work: Callable[[Graph], _R]) -> _R:
        """Run something that waits, on a graph, in a thread."""

    async def close(self) -> None: ...


class _Threads:
    """A graph that blocks, called in its own threads."""

    def __init__(self, open_it: Callable[[], Graph], threads: int) -> None:
        self._open = open_it
        self._lock = threading.Lock()
        self._graph: Graph | None = None
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, "omnigraph-aio")

    async def run(self, work: Callable[[Graph], _R]) -> _R:
        if self._closed:
            return work(self._opened())  # raises GraphClosed
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: work(self._opened()))

    def _opened(self) -> Graph:
        with self._lock:
            if self._graph is None:
                self._graph = self._open()
            return self._graph

    async def close(self) -> None:
        if not self._closed:
            await self.run(lambda graph: graph.close())
        self._closed = True
        self._pool.shutdown(wait=False)


class _StoreBackend:
    """A graph in a store."""

    def __init__(self, graph: Graph, threads: int) -> None:
        self.uri = graph.uri
        self._threads = _Threads(lambda: graph, threads)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        owner, _, method = name.partition(".")
        stop = threading.Event()
        if "cancel" in arguments and arguments["cancel"] is None:
            arguments = {**arguments, "cancel": stop}

        def work(graph: Graph) -> Any:
            place = getattr(graph, _COLLECTIONS[owner]) if owner in _COLLECTIONS else graph
            return getattr(place, method)(**arguments)

        try:
            return await self._threads.run(work)
        except asyncio.CancelledError:
            stop.set()  # the query in the thread ends soon
            raise

    async def blocking(self, work: Callable[[Graph], _R]) -> _R:
        return await self._threads.run(work)

    async def close(self) -> None:
        await self._threads.close()


class _ServerBackend:
    """A graph on a server."""

    def __init__(
        self, address: RemoteAddress, token: str | None, settings: Settings, *, read_only: bool
    ) -> None:
        self.uri = address.url
        self._client = AsyncClient(address, token, settings.client)
        self._read_only = read_only

        def open_it() -> Graph:
            client = Client(address, token, settings.client)
            external = external_bases(settings.external_blobs)
            return RemoteGraph(client, read_only=read_only, external=external)

        self._threads = _Threads(open_it, THREADS)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        if name in NOT_SERVED:
            raise not_served(name)
        exchange = OPERATIONS[name](**arguments)
        return await self._client.run(
            only_reads(exchange, self.uri) if self._read_only else exchange
        )

    async def blocking(self, work: Callable[[Graph], _R]) -> _R:
        return await self._threads.run(work)

    async def close(self) -> None:
        await self._client.close()
        await self._threads.close()


def _awaited(
    method: Callable[Concatenate[Any, _P], _R],
) -> Callable[Concatenate[Any, _P], Awaitable[_R]]:
    """The same method as a coroutine."""
    signature = inspect.signature(method)
    name = method.__qualname__

    @functools.wraps(method)
    async def call(self: Any, *positional: Any, **named: Any) -> Any:
        return await self._backend.call(name, arguments_of(signature, self, positional, named))

    return cast("Callable[Concatenate[Any, _P], Awaitable[_R]]", call)


class AsyncBranches:
    """`Branches` for asyncio."""

    def __init__(self, backend: _Backend) -> None:
        self._backend = backend

    create = _awaited(Branches.create)
    list = _awaited(Branches.list)
    show = _awaited(Branches.show)
    rename = _awaited(Branches.rename)
    delete = _awaited(Branches.delete)


class AsyncTags:
    """`Tags` for asyncio."""

    def __init__(self, backend: _Backend) -> None:
        self._backend = backend

    create = _awaited(Tags.create)
    list = _awaited(Tags.list)
    delete = _awaited(Tags.delete)


class AsyncCommits:
    """`Commits` for asyncio."""

    def __init__(self, backend: _Backend) -> None:
        self._backend = backend

    list = _awaited(Commits.list)
    by_key = _awaited(Commits.by_key)
    show = _awaited(Commits.show)
    schema_steps = _awaited(Commits.schema_steps)
    graph = _awaited(Commits.graph)
    changes = _awaited(Commits.changes)


class AsyncSchema:
    """`Schema` for asyncio."""

    def __init__(self, backend: _Backend) -> None:
        self._backend = backend

    show = _awaited(Schema.show)
    plan = _awaited(Schema.plan)
    apply = _awaited(Schema.apply)
    diff = _awaited(Schema.diff)
    history = _awaited(Schema.history)


class AsyncQueries:
    """`Queries` for asyncio."""

    def __init__(self, backend: _Backend) -> None:
        self._backend = backend

    list = _awaited(Queries.list)
    run = _awaited(Queries.run)
    validate = _awaited(Queries.validate)
    reload = _awaited(Queries.reload)


@dataclass(frozen=True, slots=True)
class AsyncBlob:
    """A blob of one commit. Its bytes are read only by `read`."""

    size: int | None
    """None for an external blob."""
    uri: str | None
    """The address of an external blob; None for a blob in the graph."""
    _read: Callable[[int, int | None], Awaitable[bytes]] = field(repr=False, compare=False)

    async def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """All bytes, or at most `length` of them from `offset`."""
        return await self._read(offset, length)


class AsyncGraph:
    """A graph whose methods are coroutines. Tasks of one event loop may share it."""

    def __init__(self, backend: _Backend) -> None:
        self._backend = backend
        self.branches = AsyncBranches(backend)
        self.tags = AsyncTags(backend)
        self.commits = AsyncCommits(backend)
        self.schema = AsyncSchema(backend)
        self.queries = AsyncQueries(backend)

    def __repr__(self) -> str:
        return f"<AsyncGraph {self.uri}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the graph. Every later call raises `GraphClosed`, except another `close`."""
        await self._backend.close()

    @property
    def uri(self) -> str:
        return self._backend.uri

    snapshot = _awaited(Graph.snapshot)
    read = _awaited(Graph.read)
    query = _awaited(Graph.query)
    explain = _awaited(Graph.explain)
    profile = _awaited(Graph.profile)
    export = _awaited(Graph.export)
    mutate = _awaited(Graph.mutate)
    apply = _awaited(Graph.apply)
    load = _awaited(Graph.load)
    embed = _awaited(Graph.embed)
    merge = _awaited(Graph.merge)
    preview_merge = _awaited(Graph.preview_merge)
    revert = _awaited(Graph.revert)
    cherry_pick = _awaited(Graph.cherry_pick)
    diff = _awaited(Graph.diff)
    changes = _awaited(Graph.changes)
    baseline = _awaited(Graph.baseline)
    optimize = _awaited(Graph.optimize)
    ensure_indices = _awaited(Graph.ensure_indices)
    index_status = _awaited(Graph.index_status)
    status = _awaited(Graph.status)
    cleanup = _awaited(Graph.cleanup)
    verify = _awaited(Graph.verify)
    recoveries = _awaited(Graph.recoveries)
    repair = _awaited(Graph.repair)
    backup = _awaited(Graph.backup)
    refresh = _awaited(Graph.refresh)

    async def blob(
        self,
        kind: str,
        type: str,
        id: str,
        property: str,
        branch: str = MAIN,
        *,
        at: CommitName | None = None,
    ) -> AsyncBlob:
        """A blob: `size`, and `await blob.read(offset, length)` of any range.

        The `size` of an external blob is None, because its target is looked at by `read` only.
        """
        backend = self._backend
        found = await backend.blocking(
            lambda graph: graph.blob(kind, type, id, property, branch, at=at)
        )

        async def read(offset: int, length: int | None) -> bytes:
            return await backend.blocking(lambda _: found.read(offset, length))

        size = found.size if found.uri is None else None
        return AsyncBlob(size, found.uri, read)

    async def batches(
        self,
        source: QuerySource,
        name: str | None = None,
        params: dict[str, object] | None = None,
        branch: str = MAIN,
        *,
        at: CommitName | None = None,
        rows: int = 64 * 1024,
    ) -> AsyncIterator[pa.RecordBatch]:
        """The rows of a query batch by batch: for answers larger than memory.

        Example:
            >>> async for batch in graph.batches("match { $p: Person } return { $p.name }"):
            ...     print(batch.num_rows)
        """
        backend = self._backend
        result = await backend.blocking(
            lambda graph: graph.query(source, name, params, branch, at=at)
        )
        made = result.batches(rows)
        while (batch := await backend.blocking(lambda _: next(made, None))) is not None:
            yield batch


async def open(
    uri: str | os.PathLike[str],
    *,
    actor: str | None = None,
    read_only: bool = False,
    settings: Settings | None = None,
    token: str | None = None,
    threads: int = THREADS,
    queries: QueryPlace | None = None,
    policy: PolicySource | None = None,
    external_blobs: Sequence[str] = (),
) -> AsyncGraph:
    """Open an existing graph for asyncio; the parameters are those of `omnigraph.open`.

    `threads` is the number of calls that a graph in a store carries out at the same time.

    Example:
        >>> async with await omnigraph.aio.open("http://localhost:8080/graphs/people") as graph:
        ...     rows = await graph.query("match { $p: Person } return { $p.name as name }")
    """
    if threads < 1:
        raise InvalidArgument(f"threads must be a positive number, not {threads!r}")
    if not is_remote(uri):
        opened = await asyncio.to_thread(
            open_graph,
            uri,
            actor=actor,
            read_only=read_only,
            settings=settings,
            token=token,
            queries=queries,
            policy=policy,
            external_blobs=external_blobs,
        )
        return AsyncGraph(_StoreBackend(opened, threads))
    if queries is not None:
        raise InvalidArgument(f"{uri} is a server, which has its own stored queries")
    if policy is not None:
        raise InvalidArgument(f"{uri} is a server, which has its own policy")
    address = parse_address(str(uri))
    chosen = (settings or Settings()).allowing(external_blobs)
    external_bases(chosen.external_blobs)  # refuses wrong ones now
    graph = AsyncGraph(_ServerBackend(address, token, chosen, read_only=read_only))
    try:
        await graph.commits.list(limit=1)
    except PolicyDenied:
        pass  # the token is known, and may be one that only writes
    except BaseException:
        await graph.close()
        raise
    return graph
