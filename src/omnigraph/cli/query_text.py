"""The query that a command runs, and its parameters.

A command compiles the query first, so that errors name the line in the file of the user.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.output import WrongUsage
from omnigraph.cli.source_files import read_source
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.known_names import did_you_mean

if TYPE_CHECKING:
    from omnigraph.catalog.model import Catalog
    from omnigraph.graph.handle import Graph
    from omnigraph.query.compiler import CompiledQuery
    from omnigraph.query.params import ParameterDecl


@dataclass(frozen=True)
class QueryCall:
    """The options that name a query and its parameters."""

    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Which query of the text; without a text, a stored query."
        ),
    ] = None
    expression: Annotated[
        str | None,
        typer.Option(
            "-e",
            "--execute",
            "--query-string",
            metavar="GQ",
            help="The query itself, with or without `query q() {…}`.",
        ),
    ] = None
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", metavar="FILE", help="A .gq file, `-` for stdin."),
    ] = None
    params: Annotated[
        str | None,
        typer.Option("--params", metavar="JSON", help="Parameters as a JSON object, or @FILE."),
    ] = None
    params_file: Annotated[
        str | None,
        typer.Option("--params-file", metavar="FILE", help="The same as --params @FILE."),
    ] = None
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="One parameter; repeat for more."),
    ] = None

    @property
    def has_params(self) -> bool:
        return self.given_params is not None or bool(self.param)

    @property
    def given_params(self) -> str | None:
        """The JSON object with parameters, or `@` and the file that holds it."""
        if self.params_file is None:
            return self.params
        if self.params is not None:
            raise WrongUsage("give --params or --params-file, not both")
        return f"@{self.params_file}"

    @property
    def is_stored(self) -> bool:
        """No text is given, so the name is that of a stored query."""
        return self.name is not None and self.expression is None and self.query is None

    def read(self) -> SourceText:
        if (self.expression is None) == (self.query is None):
            raise WrongUsage("give the query with -e TEXT or with --query FILE")
        if self.expression is not None:
            return SourceText(self.expression, "-e")
        assert self.query is not None
        return read_source(self.query)


@dataclass(frozen=True, slots=True)
class ReadyQuery:
    """A compiled query with its parameters."""

    source: str
    compiled: CompiledQuery
    params: dict[str, Any]

    @property
    def name(self) -> str:
        return self.compiled.name


def prepare(
    call: QueryCall, source: SourceText, catalog: Catalog, current: Catalog | None = None
) -> ReadyQuery:
    """Compile against a catalog; the engine then finds the result in the cache of the compiler.

    With `current` the query uses the names of that catalog.
    """
    from omnigraph.query.compiler import compile_by_current_names, compile_query

    if current is None:
        compiled = compile_query(source.text, catalog, call.name, source.file)
    else:
        compiled = compile_by_current_names(source.text, catalog, current, call.name, source.file)
    params = read_params(call.given_params, call.param, compiled.parameters)
    return ReadyQuery(source.text, compiled, params)


def stored_params(call: QueryCall, graph: Graph, branch: str) -> dict[str, Any]:
    """The parameters of a stored query; a name that does not exist is refused with a hint."""
    queries = graph.queries.list(branch)
    found = next((query for query in queries if query.name == call.name), None)
    if found is None:
        broken = [b for b in graph.queries.validate(branch).breakages if b.query == call.name]
        if broken:
            raise InvalidArgument(str(broken[0]), query=call.name)
        hint = did_you_mean(call.name or "", [query.name for query in queries])
        where = "give its text with -e TEXT or --query FILE, or its directory with --queries DIR"
        raise NotFound(f"there is no stored query '{call.name}'; {hint or where}", query=call.name)
    declared = [parameter.declaration for parameter in found.params]
    return read_params(call.given_params, call.param, declared)


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


def read_params(
    given: str | None, pairs: Sequence[str] | None, declared: Iterable[ParameterDecl]
) -> dict[str, Any]:
    """The parameters; a text given with `--param` is read as the type that the query declares."""
    values = _from_json(given) if given is not None else {}
    types = {parameter.name: parameter for parameter in declared}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        name = name.removeprefix("$")
        if not equals or not name:
            raise InvalidArgument(f"--param {pair!r}: write it as name=value", parameter=name)
        if name in values:
            raise InvalidArgument(f"parameter ${name} is given twice", parameter=name)
        values[name] = _from_text(text, types.get(name))
    return values


def _from_text(text: str, parameter: ParameterDecl | None) -> Any:
    """Strings and times are taken literally; numbers, booleans and lists are read as JSON."""
    from omnigraph.values.scalars import TEMPORAL_KINDS, BlobType, ScalarKind, ScalarType

    if parameter is None or isinstance(parameter.type, BlobType):
        return text
    kind = parameter.type.kind if isinstance(parameter.type, ScalarType) else None
    if kind is ScalarKind.STRING:
        return text
    if text == "null" and parameter.optional:
        return None
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text  # the compiler reports which type was expected
    return text if kind in TEMPORAL_KINDS and not isinstance(value, int) else value


def _from_json(given: str) -> dict[str, Any]:
    name, text = "--params", given
    if given.startswith("@"):
        source = read_source(given[1:])
        name, text = source.file, source.text
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidArgument(
            f"{name}:{error.lineno}:{error.colno}: this is not JSON: {error.msg}",
            line=error.lineno,
            column=error.colno,
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name}: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArgument(f'{name}: parameters are a JSON object like {{"name": "Ada"}}')
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is given twice")
        found[name] = value
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")
