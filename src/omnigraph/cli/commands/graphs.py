"""`init`, `snapshot`, `optimize`: a graph as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import omnigraph
from omnigraph.cli.command import command
from omnigraph.cli.options import At, Branch, Engine, Store, Types, Uri, WorkEngine
from omnigraph.cli.output import counted, print_json, print_result
from omnigraph.cli.session import Session, address, on_branch, open_to_read, open_to_write
from omnigraph.cli.source_files import STDIN, read_source
from omnigraph.cli.tables import print_table

SchemaFile = Annotated[
    str, typer.Option("--schema", "-s", metavar="FILE", help="The .pg file, `-` for stdin.")
]


OneBranch = Annotated[
    str | None,
    typer.Option("--branch", "-b", metavar="BRANCH", help="Only this branch; all by default."),
]


Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="One line for every index.")]


def register(app: typer.Typer) -> None:
    command(app, "init")(init)
    command(app, "snapshot")(snapshot)
    command(app, "optimize")(optimize)


def init(session: Session, schema: SchemaFile, uri: Uri = None, store: Store = None) -> None:
    """Create a graph from a schema.

    An existing graph is refused and stays as it is.

    For example:

    \b
      omnigraph init --schema people.pg people.omni
      omnigraph init --schema people.pg s3://bucket/people --as alice
    """
    where = address(session, uri, store)
    source = read_source(schema)
    # The line break makes standard input a text even when it is empty: a bare word is a path.
    text = f"{source.text}\n" if schema == STDIN else Path(schema)
    graph = omnigraph.init(where, text, actor=session.actor(), settings=session.settings())
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
    """Show what a branch consists of: its tables, their versions and sizes.

    For example:

    \b
      omnigraph snapshot people.omni
      omnigraph snapshot people.omni --branch review/ages --json
    """
    graph = open_to_read(session, address(session, uri, store), on_branch(branch, at))
    body = graph.snapshot(branch, at=at).to_dict()
    if session.json:
        print_json(body)
        return
    columns = ("entity_kind", "type_name", "entity_count", "published_dataset_version")
    print_table(columns, [[row[name] for name in columns] for row in body["datasets"]])
    session.note(f"commit {body['graph_commit_id']}")


def optimize(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: OneBranch = None,
    types: Types = None,
    engine: Engine = WorkEngine.LOCAL,
    verbose: Verbose = False,
) -> None:
    """Compact small files and build the indexes the schema declares, on all branches or on one.

    Answers never change, only their speed. Types that a writer kept busy are named; run it again.

    For example:

    \b
      omnigraph optimize people.omni
      omnigraph optimize people.omni --branch review --type Person
      omnigraph optimize s3://bucket/people.omni --engine spark
    """
    note = on_branch(branch) if branch else "all branches"
    graph = open_to_write(session, address(session, uri, store), note)
    with session.working("optimizing"):
        behind = graph.optimize(branch, types, engine=engine.value)
    names = [branch] if branch else [found.name for found in graph.branches.list()]
    status = [
        {"branch": name, **row.to_dict()}
        for name in names
        for row in graph.index_status(name)
        if not types or row.type_name in types
    ]
    if session.json:
        print_json({"branch": branch, "skipped": behind, "indexes": status})
        return
    if verbose:
        columns = ("branch", "type_name", "property", "kind", "covered_rows", "pending_rows")
        print_table(columns, [[row[name] for name in columns] for row in status])
    else:
        print_result(_index_summary(status, len(names)))
    for name in behind:
        session.note(f"{name} was busy and is not compacted yet; run it again")


def _index_summary(status: list[dict[str, Any]], branches: int) -> str:
    whole = sum(row["pending_rows"] == 0 for row in status)
    all_of_them = counted(len(status), "index")
    indexes = all_of_them if whole == len(status) else f"{whole} of {all_of_them}"
    more = "" if whole == len(status) else "; --verbose shows the others"
    return f"optimized {counted(branches, 'branch')}: {indexes} up to date{more}"
