"""`mcp`: the tools of a graph for an agent that starts this process."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.commands.queries import graph_id
from omnigraph.cli.options import Branch, QueriesPlace, Store
from omnigraph.cli.scopes import ANY
from omnigraph.cli.session import Session, address, on_branch, open_to_read, open_to_write
from omnigraph.errors import PackageMissing

ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer only tools that read.")]


def register(app: typer.Typer) -> None:
    command(app, "mcp", ANY, writes=True)(mcp)


def mcp(
    session: Session,
    branch: Branch = "main",
    queries: QueriesPlace = None,
    read_only: ReadOnly = False,
    store: Store = None,
) -> None:
    """Serve a graph to an agent over stdin and stdout, with the Model Context Protocol.

    A client such as a desktop assistant starts this command. --branch is the branch of tools that
    name none. A server also offers the same tools at /graphs/ID/mcp.

    For example:

    \b
      omnigraph mcp --store people.omni --queries queries --as assistant
      omnigraph mcp --server https://graphs.example.com --graph people --read-only
    """
    try:
        from omnigraph.mcp.stdio import serve_stdio
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("omnigraph"):
            raise
        raise PackageMissing(
            f"{error.name} is not installed: pip install 'omnigraph[mcp]'",
            package=error.name,
            extra="mcp",
        ) from None
    uri = address(session, None, store)
    opened = open_to_read if read_only else open_to_write
    graph = opened(session, uri, on_branch(branch), queries=queries)
    try:
        serve_stdio(graph, graph_id=graph_id(uri), branch=branch)
    finally:
        graph.close()
