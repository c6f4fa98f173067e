"""Which queries of `.gq` files no longer compile after a schema change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.query import ast
from omnigraph.query.parser import parse_queries
from omnigraph.query.typecheck import check_query
from omnigraph.schema.changes import BREAKS_QUERIES
from omnigraph.syntax.diagnostics import Diagnostic, Diagnostics, in_text_order
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.plurals import counted


@dataclass(frozen=True, slots=True)
class BrokenQuery:
    """A query that compiles with the present schema and not with the new one."""

    name: str
    file: str
    line: int
    message: str
    code: str = BREAKS_QUERIES

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: query {self.name} would break: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "name": self.name,
            "file": self.file,
            "line": self.line,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class QueryCheck:
    """The queries that a change breaks, and warnings about those that were broken before."""

    broken: tuple[BrokenQuery, ...] = ()
    warnings: tuple[str, ...] = ()


def check_stored_queries(
    sources: Sequence[SourceText], before: Catalog, after: Catalog
) -> QueryCheck:
    """Compile every query with both schemas; raises `ParseError` for a syntax error."""
    broken: list[BrokenQuery] = []
    warnings: list[str] = []
    for source in sources:
        for query in parse_queries(source).queries:
            errors = _errors(query, after)
            if not errors:
                continue
            if _errors(query, before):
                name = query.name.text
                warnings.append(f"query {name} of {source.file} has errors with both schemas")
            else:
                broken.append(_broken(query, source, errors))
    return QueryCheck(tuple(broken), tuple(warnings))


def _errors(query: ast.Query, catalog: Catalog) -> list[Diagnostic]:
    findings = Diagnostics()
    return [] if check_query(query, catalog, findings) is not None else in_text_order(findings)


def _broken(query: ast.Query, source: SourceText, errors: Sequence[Diagnostic]) -> BrokenQuery:
    first = errors[0]
    line, _ = source.position(first.span.start)
    more = f" ({counted(len(errors) - 1, 'more error')})" if len(errors) > 1 else ""
    help = f"; {first.help}" if first.help else ""
    return BrokenQuery(query.name.text, source.file, line, f"{first.message}{help}{more}")
