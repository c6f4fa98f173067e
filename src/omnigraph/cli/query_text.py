"""The query a command runs, compiled first so that mistakes are shown in the user's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.cli.output import WrongUsage
from omnigraph.cli.parameters import read_params
from omnigraph.cli.source_files import read_source
from omnigraph.errors import InvalidArgument
from omnigraph.syntax.span import SourceText

if TYPE_CHECKING:
    from omnigraph.catalog.model import Catalog
    from omnigraph.query.compiler import CompiledQuery


@dataclass(frozen=True, slots=True)
class QueryChoice:
    """Where the text comes from, which query of it, and its parameters as given."""

    name: str | None
    expression: str | None
    file: str | None
    params: str | None = None
    pairs: tuple[str, ...] = ()

    def read(self) -> SourceText:
        if (self.expression is None) == (self.file is None):
            raise WrongUsage("give the query with -e TEXT or with --query FILE")
        if self.expression is not None:
            return SourceText(self.expression, "-e")
        assert self.file is not None
        return read_source(self.file)


@dataclass(frozen=True, slots=True)
class ReadyQuery:
    """A query that fits the schema, with its parameters."""

    source: str
    compiled: CompiledQuery
    params: dict[str, Any]

    @property
    def name(self) -> str:
        return self.compiled.name


def prepare(choice: QueryChoice, source: SourceText, catalog: Catalog) -> ReadyQuery:
    """Compile against a catalog; the engine finds the compiled query in the compiler's cache."""
    from omnigraph.query.compiler import compile_query

    compiled = compile_query(source.text, catalog, choice.name, source.file)
    params = read_params(choice.params, choice.pairs, compiled.parameters)
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
