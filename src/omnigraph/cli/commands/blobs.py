"""`blob get|stat`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import At, Branch, ExternalBlobs, Store
from omnigraph.cli.output import WrongUsage, print_json, print_result
from omnigraph.cli.scopes import ANY
from omnigraph.cli.session import Session, address, on_branch, open_to_read
from omnigraph.errors import InvalidArgument
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.graph.external_blob import ExternalBlob
    from omnigraph.graph.handle import Graph
    from omnigraph.lance_store.reads.blob_reads import StoredBlob

_CHUNK = 8 * 1024 * 1024

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[node|edge] TYPE ID PROPERTY",
        help="The type, the entity and its blob property. The kind may stand before them.",
    ),
]
Offset = Annotated[int, typer.Option("--offset", min=0, metavar="N", help="Begin at this byte.")]
Length = Annotated[
    int | None, typer.Option("--length", min=0, metavar="N", help="Only this many bytes.")
]
Output = Annotated[
    str | None,
    typer.Option("--output", "--out", "-o", metavar="FILE", help="A file instead of stdout."),
]

group = typer.Typer(help="Read binary properties.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="blob")


@command(group, "get", ANY)
def get(
    session: Session,
    words: Words,
    offset: Offset = 0,
    length: Length = None,
    output: Output = None,
    branch: Branch = "main",
    at: At = None,
    store: Store = None,
    external_blobs: ExternalBlobs = None,
) -> None:
    """Write the bytes of a blob, or a range of them, to stdout or a file.

    A blob outside of the graph is read if its address lies below --external-blobs.

    For example:

    \b
      omnigraph blob get Person ada photo --store people.omni > ada.jpg
      omnigraph blob get Person ada photo --offset 0 --length 16 --store people.omni | xxd
    """
    name = _name(words)
    if output is None and sys.stdout.isatty():
        raise WrongUsage("a blob is binary: redirect it, or name a file with -o")
    session = session.allowing(external_blobs)
    graph = open_to_read(session, address(session, None, store), on_branch(branch, at))
    found = name.find(graph, branch, at)
    size = found.size
    end = size if length is None else min(size, offset + length)
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


@command(group, "stat", ANY)
def stat(
    session: Session,
    words: Words,
    branch: Branch = "main",
    at: At = None,
    store: Store = None,
    external_blobs: ExternalBlobs = None,
) -> None:
    """Show the size of a blob without reading it, and its address if it is outside of the graph.

    The size of an external blob is shown if its address lies below --external-blobs.

    For example:

    \b
      omnigraph blob stat Person ada photo --store people.omni
    """
    name = _name(words)
    session = session.allowing(external_blobs)
    graph = open_to_read(session, address(session, None, store), on_branch(branch, at))
    found = name.find(graph, branch, at)
    size = found.size if found.uri is None or session.external_blobs else None
    if session.json:
        print_json(
            {
                "entity_kind": name.kind_in(graph, branch, at),
                "type_name": name.type_name,
                "entity_id": name.entity_id,
                "property": name.property,
                **({} if found.uri is None else {"uri": found.uri}),
                **({} if size is None else {"size": size}),
            }
        )
    else:
        told = [] if found.uri is None else [f"external, {found.uri}"]
        told += [] if size is None else [f"{size:,} bytes"]
        print_result(f"{name.type_name} {name.entity_id} {name.property}: {', '.join(told)}")


@dataclass(frozen=True, slots=True)
class BlobName:
    """One property of one entity, as the command line names it."""

    type_name: str
    entity_id: str
    property: str
    kind: str | None
    """`node` or `edge`, if the command line says it."""

    def find(self, graph: Graph, branch: str, at: str | None) -> StoredBlob | ExternalBlob:
        kind = self.kind_in(graph, branch, at)
        if self.kind not in (None, kind):
            raise InvalidArgument(
                f"{self.type_name} is no {self.kind} type: write {kind} {self.type_name}, or leave "
                f"{self.kind} out",
                type=self.type_name,
            )
        return graph.blob(kind, self.type_name, self.entity_id, self.property, branch, at=at)

    def kind_in(self, graph: Graph, branch: str, at: str | None) -> str:
        """Node and edge types share one namespace, so the name of the type implies the kind."""
        return graph.snapshot(branch, at=at).catalog.resolve(self.type_name).table_key.kind.value


def _name(words: list[str]) -> BlobName:
    kind = words[0] if len(words) == 4 and words[0] in ("node", "edge") else None
    named = words if kind is None else words[1:]
    if len(named) != 3:
        raise WrongUsage(f"give TYPE ID PROPERTY, got {counted(len(words), 'word')}")
    type_name, entity_id, property_name = named
    return BlobName(type_name, entity_id, property_name, kind)
