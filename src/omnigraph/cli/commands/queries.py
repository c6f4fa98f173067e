"""`queries list|validate`: the stored queries of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Branch, QueriesPlace, Store
from omnigraph.cli.output import EXIT_FAILED, print_json, print_result
from omnigraph.cli.scopes import ANY
from omnigraph.cli.session import Session, address, on_branch, open_to_read
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.stored_queries.entries import QueryValidation, StoredQuery

group = typer.Typer(help="Named queries that are kept beside a graph.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="queries")


@command(group, "list", ANY)
def list_queries(
    session: Session, branch: Branch = "main", queries: QueriesPlace = None, store: Store = None
) -> None:
    """List the stored queries of a server, or of a directory for a store.

    With a policy the list has those that you may run. Run one with `omnigraph query NAME` or
    `omnigraph mutate NAME`.

    For example:

    \b
      omnigraph queries list --queries queries --store people.omni
      omnigraph queries list --server http://localhost:8080 --graph people --json
    """
    uri = address(session, None, store)
    graph = open_to_read(session, uri, on_branch(branch), queries=queries)
    found = graph.queries.list(branch)
    if session.json:
        print_json({"queries": [_entry(query, graph_id(uri)) for query in found]})
        return
    for query in found:
        kind = "mutation" if query.mutation else "read    "
        told = f": {query.description}" if query.description else ""
        print_result(f"{kind}  {query.signature}{told}")


@command(group, "validate", ANY)
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
    uri = address(session, None, store)
    graph = open_to_read(session, uri, on_branch(branch))
    if queries is None:
        found = graph.queries.validate(branch)
        checked = len(graph.queries.list(branch)) + len(found.breakages)
    else:
        from omnigraph.stored_queries.registry import QueryRegistry

        compiled = QueryRegistry(queries).compiled(graph.snapshot(branch).catalog)
        found, checked = compiled.validation, len(compiled.declared)
    _print_validation(session, found, checked)
    if not found.ok:
        raise typer.Exit(EXIT_FAILED)


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


def _entry(query: StoredQuery, graph: str | None) -> dict[str, Any]:
    return {**query.to_dict(), "graph_id": graph}


def graph_id(uri: str) -> str | None:
    """The id of a graph on a server."""
    _, found, name = uri.rpartition("/graphs/")
    return name if found and uri.startswith(("http://", "https://")) else None
