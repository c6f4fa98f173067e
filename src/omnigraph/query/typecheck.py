"""Checks a whole query against the catalog and lowers it: syntax in, plan or diagnostics out."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog.model import Catalog
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads, writes
from omnigraph.query import ast, codes
from omnigraph.query.lower import lower_pattern, lower_return
from omnigraph.query.params import ParameterDecl, declare
from omnigraph.query.scope import Scope
from omnigraph.query.typecheck_patterns import Pattern, check_pattern
from omnigraph.query.typecheck_returns import check_return
from omnigraph.query.typecheck_writes import WriteChecker
from omnigraph.syntax.diagnostics import Diagnostics
from omnigraph.values.known_names import did_you_mean


@dataclass(frozen=True, slots=True)
class CheckedRead:
    """The plan of a read, its result columns and its typed match block."""

    plan: reads.ReadOp
    columns: tuple[reads.Column, ...]
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class CheckedMutation:
    """Typed statements, in order."""

    statements: tuple[writes.WriteOp, ...]


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A query without errors."""

    query: ast.Query
    parameters: tuple[ParameterDecl, ...]
    body: CheckedRead | CheckedMutation


def check_query(query: ast.Query, catalog: Catalog, found: Diagnostics) -> CheckedQuery | None:
    """Check and lower one query; None when it has errors, which are in `found`."""
    # A list per query, because errors of one query must not hide those of the next.
    own = Diagnostics()
    checked = _check_query(query, catalog, own)
    found += own
    return checked


def _check_query(query: ast.Query, catalog: Catalog, found: Diagnostics) -> CheckedQuery | None:
    declared = declare(query, found)
    parameters = {p.name: ex.ParameterRef(p.name, p.type, p.optional) for p in declared}
    # A parameter of an unknown type keeps its name, so that its use is not a second error.
    for written in query.parameters:
        parameters.setdefault(written.name.text, ex.ParameterRef(written.name.text, ex.NullType()))
    scope = Scope(catalog, parameters, found)
    body = (
        _check_read(query.body, scope)
        if isinstance(query.body, ast.ReadBody)
        else _check_mutation(query.body, scope)
    )
    if body is None or found.has_errors:
        return None
    return CheckedQuery(query, declared, body)


def _check_read(read: ast.ReadBody, scope: Scope) -> CheckedRead | None:
    pattern = check_pattern(read.clauses, scope)
    returned = check_return(read, scope)
    if returned is None or scope.found.has_errors:
        return None
    plan = lower_return(lower_pattern(pattern), returned, scope)
    return CheckedRead(plan, returned.columns, pattern)


def _check_mutation(mutation: ast.MutationBody, scope: Scope) -> CheckedMutation | None:
    checker = WriteChecker(scope)
    checked: list[writes.WriteOp | None] = []
    for statement in mutation.statements:
        match statement:
            case ast.InsertStatement():
                checked.append(checker.insert(statement))
            case ast.UpdateStatement():
                checked.append(checker.update(statement))
            case ast.DeleteStatement():
                checked.append(checker.delete(statement))
            case ast.MatchDeleteStatement():
                checked.append(_match_delete(statement, scope))
    statements = tuple(statement for statement in checked if statement is not None)
    return CheckedMutation(statements) if len(statements) == len(checked) else None


def _match_delete(statement: ast.MatchDeleteStatement, outer: Scope) -> writes.DeleteMatched | None:
    scope = outer.inner()
    errors = len(scope.found)
    pattern = check_pattern(statement.clauses, scope)
    variables = []
    for name in statement.variables:
        variable = scope.find(name.text)
        if variable is None:
            scope.found.error(
                codes.MUTATION_VARIABLE,
                f"${name.text} is not bound by the match block",
                name.span,
                did_you_mean(f"${name.text}", [f"${known}" for known in scope.variables]),
            )
        elif variable.kind is ex.VariableKind.PATH:
            scope.found.error(
                codes.MUTATION_VARIABLE, f"${name.text} is a path, nothing to delete", name.span
            )
        else:
            variables.append(variable)
    if len(scope.found) > errors:
        return None
    return writes.DeleteMatched(lower_pattern(pattern), tuple(dict.fromkeys(variables)))
