"""`queries list|validate`: the stored queries of a graph."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Branch, QueriesPlace, Store
from omnigraph.cli.output import EXIT_FAILED, WrongUsage, print_json, print_result
from omnigraph.cli.scopes import UPKEEP, ScopeKind
from omnigraph.cli.session import Session, address, on_branch, open_to_read
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.graph.handle import Graph
    from omnigraph.stored_queries.entries import QueryBreakage, QueryValidation, StoredQuery

group = typer.Typer(help="Named queries that are kept beside a graph.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="queries")


@command(group, "list", UPKEEP)
def list_queries(
    session: Session, branch: Branch = "main", queries: QueriesPlace = None, store: Store = None
) -> None:
    """List the stored queries of a server or cluster, or of a directory for a store.

    With a policy the list has those that you may run. Run one with `omnigraph query NAME` or
    `omnigraph mutate NAME`.

    For example:

    \b
      omnigraph queries list --queries queries --store people.omni
      omnigraph queries list --server http://localhost:8080 --graph people --json
      omnigraph queries list --cluster . --graph people
    """
    entries: list[dict[str, Any]] = []
    lines: list[str] = []
    for name, graph in _graphs(session, store, branch, queries):
        found = graph.queries.list(branch)
        entries += [{**query.to_dict(), "graph_id": name} for query in found]
        lines += [_line(query) for query in found]
    if session.json:
        print_json({"queries": entries})
    elif lines:
        print_result("\n".join(lines))


@command(group, "validate", UPKEEP)
def validate(
    session: Session, branch: Branch = "main", queries: QueriesPlace = None, store: Store = None
) -> None:
    """Check that every stored query fits the schema of a branch; exit code 1 if one does not.

    --queries checks a directory, also against the schema of a graph on a server.

    For example:

    \b
      omnigraph queries validate --queries queries --store people.omni
      omnigraph queries validate --queries queries --server http://localhost:8080 --graph people
    """
    from omnigraph.stored_queries.entries import QueryValidation, compile_sources
    from omnigraph.stored_queries.registry import read_sources

    breakages: list[QueryBreakage] = []
    warnings: list[str] = []
    checked = 0
    own = None if queries is None else read_sources(queries)
    for _, graph in _graphs(session, store, branch, None):
        if own is None:
            found = graph.queries.validate(branch)
            checked += len(graph.queries.list(branch)) + len(found.breakages)
        else:
            compiled = compile_sources(own, graph.snapshot(branch).catalog)
            found = compiled.validation
            checked += len(compiled.declared)
        breakages += found.breakages
        warnings += found.warnings
    whole = QueryValidation(tuple(breakages), tuple(warnings))
    _print_validation(session, whole, checked)
    if not whole.ok:
        raise typer.Exit(EXIT_FAILED)


def _graphs(
    session: Session, store: str | None, branch: str, queries: str | None
) -> Iterator[tuple[str | None, Graph]]:
    """The graph of this run with its id; all graphs of a cluster, if none is named."""
    scope = session.scope(None, store)
    if scope.kind is not ScopeKind.CLUSTER:
        uri = address(session, None, store)
        yield graph_id(uri), open_to_read(session, uri, on_branch(branch), queries=queries)
        return
    if queries is not None:
        raise WrongUsage("--queries is for a store: a cluster has its own stored queries")
    from omnigraph.cluster.serving import read_revision, serving_root

    revision = read_revision(serving_root(scope.target, os.environ), os.environ)
    if scope.graph is not None and scope.graph not in revision.graphs:
        known = ", ".join(revision.graphs)
        raise WrongUsage(f"the cluster has no graph {scope.graph!r}; it has: {known}")
    for name, graph in revision.graphs.items():
        if scope.graph is None or name == scope.graph:
            where = on_branch(branch)
            yield name, open_to_read(session, graph.uri, where, queries=graph.queries or None)


def _line(query: StoredQuery) -> str:
    kind = "mutation" if query.mutation else "read    "
    told = f": {query.description}" if query.description else ""
    return f"{kind}  {query.signature}{told}"


def _print_validation(session: Session, found: QueryValidation, checked: int) -> None:
    if session.json:
        print_json(found.to_dict())
        return
    for warning in found.warnings:
        session.note(f"warning: {warning}")
    for breakage in found.breakages:
        print_result(str(breakage))
    broken = counted(len(found.breakages), "query")
    told = f"{broken} of {checked} broken" if found.breakages else "all fit the schema"
    print_result(f"{counted(checked, 'stored query')}: {told}")


def graph_id(uri: str) -> str | None:
    """The id of a graph on a server."""
    _, found, name = uri.rpartition("/graphs/")
    return name if found and uri.startswith(("http://", "https://")) else None
