"""`console`: the pages in a browser."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Store, Uri
from omnigraph.cli.scopes import ANY, ScopeKind
from omnigraph.cli.session import Session, address, open_to_write
from omnigraph.errors import PackageMissing

Bind = Annotated[str, typer.Option("--bind", metavar="HOST:PORT", help="Where to listen.")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")]


def register(app: typer.Typer) -> None:
    command(app, "console", ANY, writes=True, frames=True)(console)


def console(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    bind: Bind = "127.0.0.1:8090",
    browser: Browser = True,
) -> None:
    """Show a graph in the browser: explore it, ask it, review branches.

    With a store you act under the name of --as. With --server the token of this command is used;
    without one every viewer signs in.

    For example:

    \b
      omnigraph console people.omni --as ada
      omnigraph console --server http://127.0.0.1:8080
    """
    try:
        from omnigraph.console.site import serve
        from omnigraph.console.viewers import GraphSource, ServerSource, StoreSource
        from omnigraph.remote.address import parse_graph_server
        from omnigraph.server.configuration import parse_bind
        from omnigraph.server.serving import bind as listen
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("omnigraph"):
            raise
        raise PackageMissing(
            f"{error.name} is not installed: pip install 'omnigraph[console]'",
            package=error.name,
            extra="console",
        ) from None
    scope = session.scope(uri, store)
    source: GraphSource
    if scope.kind is ScopeKind.SERVER:
        server = parse_graph_server(scope.target)
        source = ServerSource.found(
            server, session.settings(), session.server_token(server), scope.graph
        )
    else:
        source = StoreSource(open_to_write(session, address(session, uri, store)))
    bound = listen(*parse_bind(bind))

    def ready(address: str) -> None:
        sys.stdout.write(f"OMNIGRAPH_CONSOLE={address}\n")

    serve(source, bound, browse=browser, ready=ready)
