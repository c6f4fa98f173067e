"""`init` and `snapshot`: create a graph, and show what a branch of it consists of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import omnigraph
from omnigraph.cli.command import command
from omnigraph.cli.options import At, Branch, Store, Uri
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.scopes import ANY, CREATE
from omnigraph.cli.session import Session, address, echo_target, on_branch, open_to_read
from omnigraph.cli.source_files import STDIN, read_source
from omnigraph.cli.tables import print_table
from omnigraph.values.plurals import counted

SchemaFile = Annotated[
    str, typer.Option("--schema", "-s", metavar="FILE", help="The .pg file, `-` for stdin.")
]


AllowNonEmpty = Annotated[
    bool,
    typer.Option("--allow-non-empty", help="Create it in a directory that holds other files."),
]


def register(app: typer.Typer) -> None:
    command(app, "init", CREATE, writes=True)(init)
    command(app, "snapshot", ANY)(snapshot)


def init(
    session: Session,
    schema: SchemaFile,
    uri: Uri = None,
    store: Store = None,
    allow_non_empty: AllowNonEmpty = False,
) -> None:
    """Create a graph from a schema.

    An existing graph is refused and not changed. So is a directory that holds other files, unless
    --allow-non-empty says that it is meant.

    For example:

    \b
      omnigraph init --schema people.pg people.omni
      omnigraph init --schema people.pg s3://bucket/people --as alice
    """
    where = address(session, uri, store)
    source = read_source(schema)
    echo_target(session, where)
    # `init` takes a text without a line break for a path, so standard input gets one.
    text = f"{source.text}\n" if schema == STDIN else Path(schema)
    graph = omnigraph.init(
        where,
        text,
        actor=session.actor(),
        settings=session.settings(),
        allow_non_empty=allow_non_empty,
    )
    found = graph.snapshot()
    nodes = [node.name for node in found.catalog.nodes]
    edges = [edge.name for edge in found.catalog.edges]
    if session.json:
        print_json(
            {
                "uri": graph.uri,
                "graph_branch": found.graph_branch,
                "graph_commit_id": found.graph_commit_id,
                "nodes": nodes,
                "edges": edges,
            }
        )
        return
    types = f"{counted(len(nodes), 'node type')}, {counted(len(edges), 'edge type')}"
    print_result(f"created {where}: {types}")


def snapshot(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    at: At = None,
) -> None:
    """Show the tables of a branch: how many entities they have, and their versions.

    With --json, and without --at, it also has every index with its status: `building` until all
    rows are indexed, then `ready`.

    For example:

    \b
      omnigraph snapshot people.omni
      omnigraph snapshot people.omni --branch review/ages --json
    """
    graph = open_to_read(session, address(session, uri, store), on_branch(branch, at))
    body = graph.snapshot(branch, at=at).to_dict()
    if session.json:
        if at is None:
            body["indexes"] = [index.to_dict() for index in graph.index_status(branch)]
        print_json(body)
        return
    columns = ("entity_kind", "type_name", "entity_count", "published_dataset_version")
    print_table(columns, [[row[name] for name in columns] for row in body["datasets"]])
    session.note(f"commit {body['graph_commit_id']}")
