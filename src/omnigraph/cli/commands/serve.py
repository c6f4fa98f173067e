"""`serve`: graphs over HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.output import WrongUsage
from omnigraph.cli.scopes import ARGUMENT
from omnigraph.cli.session import Session
from omnigraph.errors import PackageMissing

Graphs = Annotated[
    list[str] | None,
    typer.Argument(metavar="URI…", help="Graphs to serve; ID=URI gives one an id."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="DIR|URI",
        help="Serve the applied revision of a cluster: its directory, or its root.",
    ),
]
Bind = Annotated[str, typer.Option("--bind", metavar="HOST:PORT", help="Where to listen.")]
Workers = Annotated[
    int, typer.Option("--workers", metavar="N", min=1, max=256, help="Processes that serve.")
]
Unauthenticated = Annotated[
    bool, typer.Option("--unauthenticated", help="Serve everyone, without tokens.")
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Refuse all writes.")]
RequireAll = Annotated[
    bool, typer.Option("--require-all-graphs", help="Do not start when a graph cannot be opened.")
]
Grace = Annotated[
    float | None,
    typer.Option(
        "--shutdown-grace-seconds",
        metavar="S",
        min=0,
        help="How long requests may take after SIGTERM; default 25.",
    ),
]
CorsOrigin = Annotated[
    list[str] | None,
    typer.Option("--cors-origin", metavar="ORIGIN", help="A web origin that may call; repeatable."),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        metavar="NAME",
        help="A name of this server that agents may call; repeatable.",
    ),
]
MetricsAuth = Annotated[
    bool, typer.Option("--metrics-auth", help="Let /metrics need a token and the action admin.")
]
Console = Annotated[
    bool, typer.Option("--console", help="Offer the console at /console; with one worker only.")
]
MaxLoad = Annotated[
    int | None,
    typer.Option("--max-load-bytes", metavar="N", min=0, help="Size of a load; 0 is no limit."),
]
LoadSource = Annotated[
    list[str] | None,
    typer.Option(
        "--load-source", metavar="PREFIX", help="Storage that loads may read; repeatable."
    ),
]


Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="[GRAPH=]FILE",
        help="Rules about a graph, in YAML or Cedar; repeatable. They need tokens.",
    ),
]
ServerPolicies = Annotated[
    list[str] | None,
    typer.Option(
        "--server-policy", metavar="FILE", help="Rules about the server itself; repeatable."
    ),
]
Queries = Annotated[
    list[str] | None,
    typer.Option(
        "--queries",
        metavar="[GRAPH=]DIR",
        help="Stored queries of a graph: a directory of .gq files; repeatable.",
    ),
]


ExternalBlobs = Annotated[
    list[str] | None,
    typer.Option(
        "--external-blobs",
        metavar="[GRAPH=]BASE",
        help="An address below which blobs may lie outside of the graph. Clients may write such "
        "blobs, and readers are sent there; repeatable.",
    ),
]


def register(app: typer.Typer) -> None:
    command(app, "serve", ARGUMENT)(serve)


def serve(
    session: Session,
    graphs: Graphs = None,
    served_cluster: Cluster = None,
    bind: Bind = "127.0.0.1:8080",
    workers: Workers = 1,
    unauthenticated: Unauthenticated = False,
    read_only: ReadOnly = False,
    require_all_graphs: RequireAll = False,
    shutdown_grace_seconds: Grace = None,
    cors_origin: CorsOrigin = None,
    allowed_host: AllowedHost = None,
    metrics_auth: MetricsAuth = False,
    console: Console = False,
    max_load_bytes: MaxLoad = None,
    load_source: LoadSource = None,
    queries: Queries = None,
    policy: Policies = None,
    server_policy: ServerPolicies = None,
    external_blobs: ExternalBlobs = None,
) -> None:
    """Serve graphs over HTTP until SIGTERM.

    One graph gets the id `default`; several get the names of their directories. Tokens come from
    OMNIGRAPH_SERVER_BEARER_TOKENS_FILE or another variable of its family. The only line on stdout
    is OMNIGRAPH_LISTEN_ADDR=HOST:PORT, once the graphs are open; the log goes to stderr.

    For example:

    \b
      omnigraph serve people.omni --unauthenticated
      omnigraph serve people=s3://bucket/people.omni docs=docs.omni --workers 4
      omnigraph serve people.omni --queries queries --unauthenticated
      omnigraph serve --cluster s3://bucket/cluster --require-all-graphs
      omnigraph serve people.omni --policy people-policy.yaml
    """
    if console and workers > 1:
        raise WrongUsage(
            "--console needs one worker; with several, run omnigraph console --server URL beside "
            "the server"
        )
    extra = "console" if console else "server"
    try:
        from omnigraph.server.configuration import parse_bind, settings_of
        from omnigraph.server.supervisor import serve as run

        if console:
            import nicegui  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("omnigraph"):
            raise
        raise PackageMissing(
            f"{error.name} is not installed: pip install 'omnigraph[{extra}]'",
            package=error.name,
            extra=extra,
        ) from None
    declared = (graphs, queries, policy, server_policy, external_blobs)
    if served_cluster is not None and any(declared):
        raise WrongUsage(
            "--cluster names graphs, queries, policies and external blobs: give none beside it"
        )
    addresses = _addresses(graphs or [])
    host, port = parse_bind(bind)
    found = settings_of(os.environ)
    grace = found.shutdown_grace_seconds
    limits = found.limits
    if max_load_bytes is not None:
        limits = replace(limits, load_bytes=max_load_bytes)
    chosen = replace(
        found,
        host=host,
        port=port,
        workers=workers,
        unauthenticated=unauthenticated or found.unauthenticated,
        read_only=read_only,
        require_all_graphs=require_all_graphs or found.require_all_graphs,
        shutdown_grace_seconds=grace if shutdown_grace_seconds is None else shutdown_grace_seconds,
        cors_origins=tuple(cors_origin or ()),
        allowed_hosts=tuple(allowed_host or ()),
        metrics_auth=metrics_auth,
        cluster=session.config().clusters.get(served_cluster or "", served_cluster),
        console=console,
        load_sources=tuple(load_source or ()),
        queries=tuple(_queries(queries or [], addresses).items()),
        policies=tuple(_by_graph("--policy", policy or [], addresses)),
        server_policies=tuple(server_policy or ()),
        external_blobs=tuple(_by_graph("--external-blobs", external_blobs or [], addresses)),
        limits=limits,
    )
    code = run(addresses, chosen, session.settings())
    if code:
        raise typer.Exit(code)


def _addresses(graphs: list[str]) -> dict[str, str]:
    """Id -> address."""
    found: dict[str, str] = {}
    for given in graphs:
        name, equals, uri = given.partition("=")
        if not equals or "/" in name or "." in name:
            name, uri = "", given
        if not name:
            name = "default" if len(graphs) == 1 else _name_of(uri)
        if name in found:
            raise WrongUsage(f"two graphs have the id {name!r}: give ids as ID=URI")
        found[name] = uri
    return found


def _queries(given: list[str], addresses: dict[str, str]) -> dict[str, str]:
    """Graph id -> directory of stored queries."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, directory = text.partition("=")
        if not equals or name not in addresses:
            name, directory = "", text
        if not name and len(addresses) > 1:
            known = ", ".join(addresses)
            raise WrongUsage(f"--queries {text}: name the graph, as GRAPH=DIR; graphs: {known}")
        name = name or next(iter(addresses))
        if name in found:
            raise WrongUsage(f"--queries names the graph {name!r} twice")
        if not Path(directory).is_dir():
            raise WrongUsage(f"--queries {text}: there is no directory {directory}")
        found[name] = directory
    return found


def _by_graph(
    option: str, given: list[str], addresses: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Pairs of a graph id and a value for it; a graph may have several."""
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in addresses:
            name, value = "", text
        if not name and len(addresses) > 1:
            known = ", ".join(addresses)
            raise WrongUsage(f"{option} {text}: name the graph, as GRAPH=…; graphs: {known}")
        yield name or next(iter(addresses)), value


def _name_of(uri: str) -> str:
    return PurePosixPath(uri.rstrip("/")).name.removesuffix(".omni")
