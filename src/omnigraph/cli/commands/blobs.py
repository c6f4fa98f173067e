"""`blob get|stat`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import At, Branch, Store
from omnigraph.cli.output import WrongUsage, print_json, print_result
from omnigraph.cli.session import Session, address, on_branch, open_to_read
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from omnigraph.graph.handle import Graph
    from omnigraph.lance_store.reads.blob_reads import StoredBlob

_CHUNK = 8 * 1024 * 1024

TypeName = Annotated[str, typer.Argument(metavar="TYPE", help="The node or edge type.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The entity.")]
PropertyName = Annotated[str, typer.Argument(metavar="PROPERTY", help="The blob property.")]
Offset = Annotated[int, typer.Option("--offset", min=0, metavar="N", help="Begin at this byte.")]
Length = Annotated[
    int | None, typer.Option("--length", min=0, metavar="N", help="Only this many bytes.")
]
Output = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="A file instead of stdout.")
]

group = typer.Typer(help="Read binary properties.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="blob")


@command(group, "get")
def get(
    session: Session,
    type_name: TypeName,
    entity_id: Id,
    property_name: PropertyName,
    offset: Offset = 0,
    length: Length = None,
    output: Output = None,
    branch: Branch = "main",
    at: At = None,
    store: Store = None,
) -> None:
    """Write the bytes of a blob, or a range of them, to stdout or a file.

    For example:

    \b
      omnigraph blob get Person ada photo --store people.omni > ada.jpg
      omnigraph blob get Person ada photo --offset 0 --length 16 --store people.omni | xxd
    """
    if output is None and sys.stdout.isatty():
        raise WrongUsage("a blob is binary: redirect it, or name a file with -o")
    graph = open_to_read(session, address(session, None, store), on_branch(branch, at))
    found = _find(graph, type_name, entity_id, property_name, branch, at)
    end = found.size if length is None else min(found.size, offset + length)
    if output is None:
        sys.stdout.flush()
        for start in range(offset, end, _CHUNK):
            sys.stdout.buffer.write(found.read(start, min(_CHUNK, end - start)))
        return
    try:
        with Path(output).open("wb") as file:
            for start in range(offset, end, _CHUNK):
                file.write(found.read(start, min(_CHUNK, end - start)))
    except OSError as error:
        raise InvalidArgument(f"cannot write {output}: {error.strerror}", file=output) from None
    written = max(0, end - offset)
    if session.json:
        print_json({"path": output, "bytes": written})
    else:
        print_result(f"{written:,} bytes written to {output}")


@command(group, "stat")
def stat(
    session: Session,
    type_name: TypeName,
    entity_id: Id,
    property_name: PropertyName,
    branch: Branch = "main",
    at: At = None,
    store: Store = None,
) -> None:
    """Show the size of a blob without reading it.

    For example:

    \b
      omnigraph blob stat Person ada photo --store people.omni
    """
    graph = open_to_read(session, address(session, None, store), on_branch(branch, at))
    found = _find(graph, type_name, entity_id, property_name, branch, at)
    if session.json:
        print_json(
            {
                "entity_kind": _kind(graph, type_name, branch, at),
                "type_name": type_name,
                "entity_id": entity_id,
                "property": property_name,
                **found.to_dict(),
            }
        )
    else:
        print_result(f"{type_name} {entity_id} {property_name}: {found.size:,} bytes")


def _find(
    graph: Graph, type_name: str, entity_id: str, name: str, branch: str, at: str | None
) -> StoredBlob:
    kind = _kind(graph, type_name, branch, at)
    return graph.blob(kind, type_name, entity_id, name, branch, at=at)


def _kind(graph: Graph, type_name: str, branch: str, at: str | None) -> str:
    """Node and edge types share one namespace, so the name of the type implies the kind."""
    return graph.snapshot(branch, at=at).catalog.resolve(type_name).table_key.kind.value
