"""Compile named sources against a catalog: the stored queries, and what is wrong with the others.

Nothing here reads or writes. `stored_queries.registry` holds the sources of one graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.errors import LanguageError, ParseError
from omnigraph.query import ast
from omnigraph.query.compiler import CompiledQuery, compile_query
from omnigraph.query.params import ParameterDecl
from omnigraph.query.parser import parse_queries
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

_KINDS = {
    ScalarKind.STRING: "string",
    ScalarKind.BOOL: "bool",
    ScalarKind.I32: "int",
    ScalarKind.U32: "int",
    ScalarKind.I64: "bigint",
    ScalarKind.U64: "bigint",
    ScalarKind.F32: "float",
    ScalarKind.F64: "float",
    ScalarKind.DATE: "date",
    ScalarKind.DATETIME: "datetime",
}
_TYPE = re.compile(r"(\[)?(\w+)(?:\((\d+)\))?\]?")


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A text with stored queries; by default all of its declarations count.

    `names` picks some of them. `expose` and `tool_name` replace what `@mcp` says in the text.
    """

    source: SourceText
    names: frozenset[str] | None = None
    expose: bool | None = None
    tool_name: str | None = None


@dataclass(frozen=True, slots=True)
class StoredParameter:
    """A parameter of a stored query. `type` is as in the language; `nullable` may be left out."""

    name: str
    type: str
    nullable: bool = False

    @property
    def value_type(self) -> ValueType:
        found = _TYPE.fullmatch(self.type)
        assert found is not None, self.type
        is_list, base, width = found.groups()
        if width is not None:
            return VectorType(int(width))
        if base == "Blob":
            return BlobType()
        return ListType(ScalarKind(base)) if is_list else ScalarType(ScalarKind(base))

    @property
    def declaration(self) -> ParameterDecl:
        return ParameterDecl(self.name, self.value_type, self.nullable)

    def to_dict(self) -> dict[str, Any]:
        """Name, kind and type; `item_kind` of a list and `vector_dim` of a vector."""
        told: dict[str, Any] = {"name": self.name, **kind_of(self.value_type)}
        return {**told, "type": self.type, "nullable": self.nullable}


def kind_of(kind: ValueType) -> dict[str, Any]:
    """How a client sends values of a type: `kind`, with `item_kind` or `vector_dim`."""
    match kind:
        case ScalarType(scalar):
            return {"kind": _KINDS[scalar]}
        case ListType(element):
            return {"kind": "list", "item_kind": _KINDS[element]}
        case VectorType(width):
            return {"kind": "vector", "vector_dim": width}
        case BlobType():
            return {"kind": "blob"}
        case EnumType():
            return {"kind": "string"}


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A stored query that compiles with the schema."""

    name: str
    mutation: bool
    params: tuple[StoredParameter, ...] = ()
    description: str | None = None
    instruction: str | None = None
    mcp_expose: bool = True
    tool_name: str = ""
    """What agents call it; the name of the query unless `@mcp(tool_name: …)` says another."""

    @property
    def signature(self) -> str:
        """`friends_of(name: String, limit: I64?)`."""
        told = (f"{p.name}: {p.type}{'?' if p.nullable else ''}" for p in self.params)
        return f"{self.name}({', '.join(told)})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "tool_name": self.tool_name,
            "mcp_expose": self.mcp_expose,
            "mutation": self.mutation,
            "description": self.description,
            "instruction": self.instruction,
            "params": [parameter.to_dict() for parameter in self.params],
        }


@dataclass(frozen=True, slots=True)
class QueryBreakage:
    """A stored query that cannot run, with the place of the first error."""

    query: str
    """The name of the query, or of the file when that cannot be read."""
    message: str
    file: str = ""
    line: int = 1
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.query}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "code": self.code,
        }


@dataclass(frozen=True, slots=True)
class QueryValidation:
    """What is wrong with the stored queries of a graph."""

    breakages: tuple[QueryBreakage, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.breakages

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "breakages": [breakage.to_dict() for breakage in self.breakages],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class CompiledSources:
    """The stored queries of some sources under one schema."""

    queries: tuple[StoredQuery, ...] = ()
    """In the order of their names."""
    texts: Mapping[str, SourceText] = field(default_factory=dict)
    """The declaration of each query, at its lines of the file."""
    validation: QueryValidation = QueryValidation()
    declared: frozenset[str] = frozenset()
    """Every declared name, also of queries that do not compile."""


@dataclass(frozen=True, slots=True)
class _SourceQuery:
    """One declaration of a source, before it is compiled."""

    name: str
    text: SourceText
    line: int
    given: StoredSource


def compile_sources(sources: Sequence[StoredSource], catalog: Catalog) -> CompiledSources:
    """The stored queries of the sources that compile with a catalog, and the others' errors.

    Names are unique, and so are the names of the tools that agents see. A name that is declared
    twice is an error of every declaration after the first.
    """
    broken: list[QueryBreakage] = []
    found: dict[str, tuple[_SourceQuery, CompiledQuery]] = {}
    declared: dict[str, _SourceQuery] = {}
    for one in _declarations(sources, broken):
        first = declared.setdefault(one.name, one)
        if first is not one:
            where = f"{first.text.file}:{first.line}"
            broken.append(_breakage(one, f"{where} declares it, too", "duplicate_query_name"))
            continue
        try:
            text = one.text
            found[one.name] = one, compile_query(text.text, catalog, one.name, text.file)
        except LanguageError as error:
            broken.append(_language_breakage(one, error))
    queries = [_stored(one, compiled) for one, compiled in found.values()]
    unique = list(_without_double_tools(queries, declared, broken))
    warnings = tuple(_warnings(unique))
    return CompiledSources(
        tuple(sorted(unique, key=lambda query: query.name)),
        {query.name: found[query.name][0].text for query in unique},
        QueryValidation(tuple(broken), warnings),
        frozenset(declared),
    )


def _declarations(
    sources: Iterable[StoredSource], broken: list[QueryBreakage]
) -> Iterator[_SourceQuery]:
    for given in sources:
        source = given.source
        try:
            queries = parse_queries(source).queries
        except ParseError as error:
            whole = _SourceQuery(source.file, source, 1, given)
            broken.append(_language_breakage(whole, error))
            continue
        here = {query.name.text for query in queries}
        for missing in sorted((given.names or frozenset()) - here):
            has = f"it declares: {', '.join(sorted(here)) or 'nothing'}"
            message = f"{source.file} does not declare it; {has}"
            broken.append(QueryBreakage(missing, message, source.file, 1, "query_key_mismatch"))
        for query in queries:
            if given.names is None or query.name.text in given.names:
                yield _declared(query, given)


def _declared(query: ast.Query, given: StoredSource) -> _SourceQuery:
    """The declaration alone. Blank lines above it keep the positions of the file."""
    source, span = given.source, query.span
    line, column = source.position(span.start)
    text = "\n" * (line - 1) + " " * (column - 1) + source.text[span.start : span.end]
    return _SourceQuery(query.name.text, SourceText(text, source.file), line, given)


def _stored(one: _SourceQuery, compiled: CompiledQuery) -> StoredQuery:
    operation, given = compiled.operation, one.given
    return StoredQuery(
        one.name,
        not compiled.is_read,
        tuple(StoredParameter(p.name, str(p.type), p.optional) for p in compiled.parameters),
        operation.description,
        operation.instruction,
        operation.exposed if given.expose is None else given.expose,
        given.tool_name or operation.tool_name or one.name,
    )


def _without_double_tools(
    queries: Iterable[StoredQuery], declared: dict[str, _SourceQuery], broken: list[QueryBreakage]
) -> Iterator[StoredQuery]:
    """The queries. Of two that share a tool name only the first is kept."""
    tools: dict[str, str] = {}
    for query in queries:
        first = tools.setdefault(query.tool_name, query.name) if query.mcp_expose else query.name
        if first == query.name:
            yield query
            continue
        message = f"the query '{first}' has the tool name '{query.tool_name}', too"
        broken.append(_breakage(declared[query.name], message, "duplicate_tool_name"))


def _warnings(queries: Iterable[StoredQuery]) -> Iterator[str]:
    for query in queries:
        kinds = Counter(parameter.to_dict()["kind"] for parameter in query.params)
        if query.mcp_expose and kinds["vector"]:
            yield (
                f"query {query.name} is a tool with a vector parameter, which agents cannot fill: "
                "add @mcp(expose: false)"
            )


def _breakage(one: _SourceQuery, message: str, code: str) -> QueryBreakage:
    return QueryBreakage(one.name, message, one.text.file, one.line, code)


def _language_breakage(one: _SourceQuery, error: LanguageError) -> QueryBreakage:
    first = error.diagnostics[0] if error.diagnostics else {}
    help = f"; {first['help']}" if first.get("help") else ""
    more = len(error.diagnostics) - 1
    others = f" ({more} more)" if more > 0 else ""
    message = f"{first.get('message', error.message)}{help}{others}"
    found = _breakage(one, message, str(first.get("code", "")))
    return replace(found, line=int(first.get("line", one.line)))
