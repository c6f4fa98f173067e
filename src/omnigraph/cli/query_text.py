"""The query a command runs, compiled first so that mistakes are shown in the user's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.output import WrongUsage
from omnigraph.cli.parameters import read_params
from omnigraph.cli.source_files import read_source
from omnigraph.errors import InvalidArgument
from omnigraph.syntax.source_text import SourceText

if TYPE_CHECKING:
    from omnigraph.catalog.model import Catalog
    from omnigraph.query.compiler import CompiledQuery


@dataclass(frozen=True)
class QueryCall:
    """Which query of which text, and its parameters as given: options of commands about one."""

    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which query, if the text holds several.")
    ] = None
    expression: Annotated[
        str | None, typer.Option("-e", "--execute", metavar="GQ", help="The query text itself.")
    ] = None
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", metavar="FILE", help="A .gq file, `-` for stdin."),
    ] = None
    params: Annotated[
        str | None,
        typer.Option("--params", metavar="JSON", help="Parameters as a JSON object, or @FILE."),
    ] = None
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="One parameter; repeat for more."),
    ] = None

    @property
    def has_params(self) -> bool:
        return self.params is not None or bool(self.param)

    def read(self) -> SourceText:
        if (self.expression is None) == (self.query is None):
            raise WrongUsage("give the query with -e TEXT or with --query FILE")
        if self.expression is not None:
            return SourceText(self.expression, "-e")
        assert self.query is not None
        return read_source(self.query)


@dataclass(frozen=True, slots=True)
class ReadyQuery:
    """A query that fits the schema, with its parameters."""

    source: str
    compiled: CompiledQuery
    params: dict[str, Any]

    @property
    def name(self) -> str:
        return self.compiled.name


def prepare(call: QueryCall, source: SourceText, catalog: Catalog) -> ReadyQuery:
    """Compile against a catalog; the engine finds the compiled query in the compiler's cache."""
    from omnigraph.query.compiler import compile_query

    compiled = compile_query(source.text, catalog, call.name, source.file)
    params = read_params(call.params, call.param, compiled.parameters)
    return ReadyQuery(source.text, compiled, params)


def require_read(query: ReadyQuery) -> None:
    if not query.compiled.is_read:
        raise InvalidArgument(
            f"query '{query.name}' changes the graph: run it with `omnigraph mutate`",
            query=query.name,
        )


def require_mutation(query: ReadyQuery) -> None:
    if query.compiled.is_read:
        raise InvalidArgument(
            f"query '{query.name}' only reads: run it with `omnigraph query`", query=query.name
        )
