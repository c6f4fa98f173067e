"""A remote graph has every method of `Graph`, with the same signature; so has the async one."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import omnigraph
from omnigraph import aio
from omnigraph.graph.collections import Branches, Commits, Schema, Tags
from omnigraph.graph.handle import Graph
from omnigraph.graph.stored_queries import Queries
from omnigraph.remote import handle
from omnigraph.remote.served_operations import NOT_SERVED, OPERATIONS

PAIRS = [
    (Graph, handle.RemoteGraph, aio.AsyncGraph),
    (Branches, handle.RemoteBranches, aio.AsyncBranches),
    (Tags, handle.RemoteTags, aio.AsyncTags),
    (Commits, handle.RemoteCommits, aio.AsyncCommits),
    (Schema, handle.RemoteSchema, aio.AsyncSchema),
    (Queries, handle.RemoteQueries, aio.AsyncQueries),
]
OWN = {"Graph.blob", "Graph.close"}
"""Methods that are written out, because they return something that needs the connection."""
OF_THE_STORE = {
    "Graph.for_repair",
    "Graph.as_actor",
    "Graph.require",
    "Graph.state",
    "Graph.seen",
    "Graph.load_options",
    "Graph.kept_answer",
}
"""Methods that an async graph does not have: they return another handle, or do not wait."""


def public(kind: type[Any]) -> dict[str, Any]:
    return {name: m for name, m in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("local", "remote", "_"), PAIRS)
def test_every_method_is_served_or_named_as_not_served(
    local: type[Any], remote: type[Any], _: type[Any]
) -> None:
    for name, member in public(local).items():
        full = f"{local.__name__}.{name}"
        assert name in vars(remote), f"{remote.__name__} inherits {name}, which needs a store"
        if isinstance(member, property):
            continue
        known = (full in OPERATIONS) + (full in NOT_SERVED) + (full in OWN)
        assert known == 1, full


@pytest.mark.parametrize(("local", "remote", "_"), PAIRS)
def test_signatures_are_the_same(local: type[Any], remote: type[Any], _: type[Any]) -> None:
    assert public(local).keys() == public(remote).keys()
    for name, member in public(local).items():
        if inspect.isfunction(member):
            there = getattr(remote, name)
            assert inspect.signature(there) == inspect.signature(member), name


@pytest.mark.parametrize(("local", "_", "awaited"), PAIRS)
def test_the_async_graph_has_them_too(local: type[Any], _: type[Any], awaited: type[Any]) -> None:
    for name, member in public(local).items():
        full = f"{local.__name__}.{name}"
        if not inspect.isfunction(member) or full in OF_THE_STORE | OWN:
            continue
        there = getattr(awaited, name)
        assert inspect.iscoroutinefunction(there), name
        assert inspect.signature(there) == inspect.signature(member), name


def test_operations_take_the_parameters_of_their_methods() -> None:
    kinds = {kind.__name__: kind for kind, _, _ in PAIRS}
    for full, operation in OPERATIONS.items():
        kind, _, name = full.partition(".")
        wanted = list(inspect.signature(getattr(kinds[kind], name)).parameters)[1:]
        taken = inspect.signature(operation).parameters
        assert set(wanted) <= taken.keys(), full
        needed = {p.name for p in taken.values() if p.default is inspect.Parameter.empty}
        assert needed <= set(wanted), full


def test_a_remote_graph_is_a_graph() -> None:
    assert issubclass(omnigraph.RemoteGraph, omnigraph.Graph)
    assert omnigraph.aio is aio
