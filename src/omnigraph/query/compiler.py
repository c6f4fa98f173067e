"""The entry point of the query language: text and catalog in, compiled query out, cached.

Every compiled query has an `OperationDescriptor`: its parameters, its result columns, and the
tables that it reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.catalog.identity import fingerprint
from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument, NotFound, TypeCheckError
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads, writes
from omnigraph.ir.ir_text import plan_text, statements_text
from omnigraph.ir.reads import ReadOp
from omnigraph.ir.walk import Node, reads_clock, walk
from omnigraph.ir.writes import WriteOp
from omnigraph.query import ast
from omnigraph.query.current_names import names_then
from omnigraph.query.lint import lint_queries
from omnigraph.query.params import ParameterDecl, bind
from omnigraph.query.parser import parse_queries
from omnigraph.query.tree_reader import DESCRIPTION, EXPOSE, INSTRUCTION, MCP, TOOL_NAME
from omnigraph.query.typecheck import CheckedMutation, CheckedQuery, CheckedRead, check_query
from omnigraph.syntax.diagnostics import (
    Diagnostic,
    Diagnostics,
    Severity,
    in_text_order,
    language_error,
)
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.identifiers import EntityKind, TableKey, edge_table, node_table
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.scalars import EnumType, ListType, VectorType

CACHE_ENTRIES = 1024
# A compiled query takes some twenty times the memory of its text.
_CACHE_CHARACTERS = 4_000_000

_cache: BoundedCache[tuple[str, str, str | None], CompiledQuery] = BoundedCache(
    CACHE_ENTRIES, _CACHE_CHARACTERS
)


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query that can run: a read has a plan, a mutation has statements."""

    name: str
    parameters: tuple[ParameterDecl, ...]
    operation: OperationDescriptor
    plan: ReadOp | None = None
    statements: tuple[WriteOp, ...] = ()
    patterns: frozenset[str] = frozenset()
    """Parameters whose values are regular expressions."""
    is_repeatable: bool = True
    """The same state and parameters give the same answer: the query does not call `now()`."""

    @property
    def is_read(self) -> bool:
        return self.plan is not None

    def bind(self, given: Mapping[str, object] | None = None) -> dict[str, Any]:
        """The parameter values in their declared types; raises `InvalidArgument`."""
        return bind(self.parameters, given or {}, self.patterns)

    def text(self) -> str:
        """The plan or the statements as text."""
        return plan_text(self.plan) if self.plan is not None else statements_text(self.statements)


def compile_query(
    text: str, catalog: Catalog, name: str | None = None, file: str = "<query>"
) -> CompiledQuery:
    """Compile the query called `name`, or the only query of the text.

    The text may be the body of one query without `query name() { … }`.

    Raises `ParseError` or `TypeCheckError` with all diagnostics, `NotFound` when the text has no
    query of this name, `InvalidArgument` when it has several queries and no name is given.
    """
    key = (fingerprint(catalog), text, name)
    found = _cache.get(key)
    if found is None:
        found = _compile(SourceText(text, file), catalog, name)
        _cache.put(key, found, len(text))
    return found


def compile_by_current_names(
    text: str, then: Catalog, now: Catalog, name: str | None = None, file: str = "<query>"
) -> CompiledQuery:
    """Compile a query in the names of `now`; its plan has the names of the older state `then`."""
    key = (f"{fingerprint(then)} {fingerprint(now)}", text, name)
    found = _cache.get(key)
    if found is None:
        names = names_then(then, now)
        checked = _compile(SourceText(text, file), names.catalog, name)
        found = checked
        if checked.plan is not None:
            plan = names.translate(checked.plan)
            operation = replace(checked.operation, reads=tables_read([plan]))
            found = replace(checked, plan=plan, operation=operation)
        _cache.put(key, found, len(text))
    return found


def compile_all(text: str, catalog: Catalog, file: str = "<query>") -> tuple[CompiledQuery, ...]:
    """Every query of a text; an error contains the diagnostics of all queries."""
    source = SourceText(text, file)
    findings = Diagnostics()
    queries = [check_query(q, catalog, findings) for q in parse_queries(source).queries]
    if findings.has_errors:
        raise language_error(TypeCheckError, findings, source)
    return tuple(_finish(query, catalog) for query in queries if query is not None)


@dataclass(frozen=True, slots=True)
class LintReport:
    """All diagnostics of a query file, in the order of the text."""

    source: SourceText
    queries: int
    findings: tuple[Diagnostic, ...]
    operations: tuple[OperationDescriptor, ...]

    @property
    def errors(self) -> int:
        return sum(finding.severity is Severity.ERROR for finding in self.findings)


def lint_text(source: SourceText, catalog: Catalog) -> LintReport:
    """Errors and warnings of every query; raises `ParseError` for a syntax error."""
    findings = Diagnostics()
    pairs = [(q, check_query(q, catalog, findings)) for q in parse_queries(source).queries]
    lint_queries(pairs, catalog, findings)
    operations = tuple(_finish(c, catalog).operation for _, c in pairs if c is not None)
    return LintReport(source, len(pairs), tuple(in_text_order(findings)), operations)


def clear_cache() -> None:
    """Empty the cache of compiled queries, so that benchmarks can measure compilation."""
    _cache.clear()


def _compile(source: SourceText, catalog: Catalog, name: str | None) -> CompiledQuery:
    query = _choose(parse_queries(source, may_be_bare=True), name)
    findings = Diagnostics()
    checked = check_query(query, catalog, findings)
    if checked is None:
        raise language_error(TypeCheckError, findings, source)
    return _finish(checked, catalog)


def _choose(queries: ast.QueryFile, name: str | None) -> ast.Query:
    by_name = {query.name.text: query for query in queries.queries}
    if name is not None:
        if name not in by_name:
            raise NotFound(_no_such_query(name, list(by_name)), query=name, queries=list(by_name))
        return by_name[name]
    if len(by_name) != 1:
        listed = ", ".join(by_name)
        raise InvalidArgument(
            f"the text holds {len(by_name)} queries, name the one to run: {listed}"
            if by_name
            else "the text holds no query",
            queries=list(by_name),
        )
    return next(iter(by_name.values()))


def _no_such_query(name: str, known: list[str]) -> str:
    listed = f"the text holds: {', '.join(known)}" if known else "the text holds no query"
    hint = did_you_mean(name, known) or ""
    close = f"{hint} " if hint.startswith("did you mean") else ""
    return f"there is no query '{name}'; {close}{listed}"


def _finish(checked: CheckedQuery, catalog: Catalog) -> CompiledQuery:
    query = checked.query
    notes = _notes(query)
    name = query.name.text
    match checked.body:
        case CheckedRead(plan, columns):
            operation = OperationDescriptor(
                name,
                "read",
                checked.parameters,
                result_fields(columns),
                tables_read([plan]),
                (),
                **notes,
            )
            return CompiledQuery(
                name,
                checked.parameters,
                operation,
                plan,
                patterns=pattern_parameters([plan]),
                is_repeatable=not reads_clock(plan),
            )
        case CheckedMutation(statements):
            operation = OperationDescriptor(
                name,
                "mutation",
                checked.parameters,
                (),
                tables_read(statements),
                tables_written(statements, catalog),
                **notes,
            )
            return CompiledQuery(
                name,
                checked.parameters,
                operation,
                statements=statements,
                patterns=pattern_parameters(statements),
            )


def _notes(query: ast.Query) -> dict[str, Any]:
    """What the annotations of a query say, as members of its descriptor."""
    texts = {a.name: a.text for a in query.annotations}
    settings = {
        name: value for a in query.annotations if a.name == MCP for name, value in a.settings
    }
    return {
        "description": texts.get(DESCRIPTION),
        "instruction": texts.get(INSTRUCTION),
        "exposed": settings.get(EXPOSE, True),
        "tool_name": settings.get(TOOL_NAME),
    }


@dataclass(frozen=True, slots=True)
class OperationDescriptor:
    """What one query takes, returns, reads and writes: for clients, policies and tools."""

    name: str
    kind: str
    parameters: tuple[ParameterDecl, ...]
    fields: tuple[ResultField, ...]
    reads: tuple[TableKey, ...]
    writes: tuple[TableKey, ...]
    description: str | None = None
    instruction: str | None = None
    exposed: bool = True
    """Whether agents get a tool for it (`@mcp(expose: false)`)."""
    tool_name: str | None = None
    """The name of that tool (`@mcp(tool_name: "…")`); None is the name of the query."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "description": self.description,
            "instruction": self.instruction,
            "parameters": [
                {"name": p.name, "type": str(p.type), "optional": p.optional}
                for p in self.parameters
            ],
            "fields": [
                {"name": f.name, "kind": f.kind, "type": f.type, "nullable": f.nullable}
                for f in self.fields
            ],
            "reads": [str(table) for table in self.reads],
            "writes": [str(table) for table in self.writes],
        }


@dataclass(frozen=True, slots=True)
class ResultField:
    """One result column. `kind` is scalar, enum, list, vector, node, edge or path.

    `type` is the type as text, `value_type` the type itself.
    """

    name: str
    kind: str
    type: str
    nullable: bool
    value_type: ex.ExpressionType


def result_fields(columns: Iterable[reads.Column]) -> tuple[ResultField, ...]:
    return tuple(
        ResultField(c.name, _kind(c.value.type), str(c.value.type), c.value.nullable, c.value.type)
        for c in columns
    )


def _kind(kind: ex.ExpressionType) -> str:
    match kind:
        case ex.WholeType(entity):
            return entity.value
        case ex.PathType():
            return "path"
        case ListType():
            return "list"
        case VectorType():
            return "vector"
        case EnumType():
            return "enum"
        case _:
            return "scalar"


def pattern_parameters(nodes: Iterable[Node]) -> frozenset[str]:
    """Names of the parameters that `regex_match` uses as its pattern."""
    return frozenset(
        node.arguments[1].name
        for root in nodes
        for node in walk(root)
        if isinstance(node, ex.Function)
        and node.name == "regex_match"
        and isinstance(node.arguments[1], ex.ParameterRef)
    )


def tables_read(nodes: Iterable[Node]) -> tuple[TableKey, ...]:
    """Every table whose rows the result depends on."""
    found: set[TableKey] = set()
    for root in nodes:
        for node in walk(root):
            match node:
                case reads.NodeScan(_, variable):
                    found |= {node_table(name) for name in variable.types}
                case reads.Expand(_, source, steps, target):
                    found |= {node_table(name) for name in (*source.types, *target.types)}
                    found |= {edge_table(step.edge) for step in steps}
                case writes.Update(table) | writes.Delete(table):
                    found.add(table)
                case _:
                    pass
    return tuple(sorted(found))


def tables_written(statements: Iterable[writes.WriteOp], catalog: Catalog) -> tuple[TableKey, ...]:
    """Every table that may change; deleting nodes deletes their edges too."""
    found: set[TableKey] = set()
    for statement in statements:
        match statement:
            case writes.Insert(table) | writes.Update(table):
                found.add(table)
            case writes.Delete(table):
                found |= _with_edges({table}, catalog)
            case writes.DeleteMatched(_, variables):
                tables = {
                    node_table(name) if v.kind is ex.VariableKind.NODE else edge_table(name)
                    for v in variables
                    for name in v.types
                }
                found |= _with_edges(tables, catalog)
    return tuple(sorted(found))


def _with_edges(tables: set[TableKey], catalog: Catalog) -> set[TableKey]:
    nodes = {table.type_name for table in tables if table.kind is EntityKind.NODE}
    touching = {
        edge_table(edge.name) for edge in catalog.edges if {edge.source, edge.target} & nodes
    }
    return tables | touching
