"""From lark's parse tree to the query syntax tree; each method is a rule of `query.lark`."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from omnigraph.query import ast, codes
from omnigraph.syntax.diagnostics import Diagnostics
from omnigraph.syntax.source_text import (
    NO_SPAN,
    Name,
    Span,
    float_value,
    integer_value,
    string_value,
)

AD_HOC = "ad_hoc"
"""The name of a query whose text does not declare one."""


DESCRIPTION, INSTRUCTION, MCP = "description", "instruction", "mcp"
EXPOSE, TOOL_NAME = "expose", "tool_name"
_TEXTS = (DESCRIPTION, INSTRUCTION)
_MCP_SETTINGS = (EXPOSE, TOOL_NAME)
_MCP_FORM = 'write @mcp(expose: false), @mcp(tool_name: "…"), or both with a comma between them'
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _span(meta: Meta) -> Span:
    return NO_SPAN if meta.empty else Span(meta.start_pos, meta.end_pos)


def _name(token: Token) -> Name:
    start = token.start_pos or 0
    return Name(token.lstrip("$"), Span(start, start + len(token)))


def _is(child: object, terminal: str) -> bool:
    return isinstance(child, Token) and child.type == terminal


def annotation_problem(annotation: ast.QueryAnnotation) -> str | None:
    """What is wrong with the argument of an annotation whose meaning the language knows."""
    if annotation.name not in (MCP, *_TEXTS):
        return None
    if annotation.name in _TEXTS:
        wrong = bool(annotation.settings)
        return f'write @{annotation.name}("…"), with one text' if wrong else None
    for name, value in annotation.settings:
        if name not in _MCP_SETTINGS or isinstance(value, str) != (name == TOOL_NAME):
            return _MCP_FORM
        if isinstance(value, str) and not _TOOL_NAME.fullmatch(value):
            return f"{value!r} is no name of a tool: 1 to 64 letters, digits, `_` and `-`"
    given = [name for name, _ in annotation.settings]
    return _MCP_FORM if not given or len(set(given)) < len(given) else None


@v_args(meta=True)
class QueryTreeReader(Transformer[Token, Any]):
    """Works bottom-up: the children of a rule are syntax nodes already. They are untyped here."""

    def __init__(self) -> None:
        super().__init__()
        self.problems = Diagnostics()
        self.may_have_hops = False
        """A filter was read that is a hop unless it names a parameter."""

    # --- declarations

    def start(self, _meta: Meta, children: list[Any]) -> ast.QueryFile:
        return ast.QueryFile(tuple(children))

    def bare(self, meta: Meta, children: list[Any]) -> ast.QueryFile:
        return ast.QueryFile((ast.Query(Name(AD_HOC), children[0], span=_span(meta)),))

    def query(self, meta: Meta, children: list[Any]) -> ast.Query:
        name, *rest, body = children
        parameters = tuple(c for c in rest if isinstance(c, ast.Parameter))
        annotations = tuple(c for c in rest if isinstance(c, ast.QueryAnnotation))
        return ast.Query(_name(name), body, parameters, annotations, _span(meta))

    def annotation(self, meta: Meta, children: list[Any]) -> ast.QueryAnnotation:
        name, *given = children
        if _is(given[0], "STRING"):
            made = ast.QueryAnnotation(name[1:], string_value(given[0]), span=_span(meta))
        else:
            made = ast.QueryAnnotation(name[1:], settings=tuple(given), span=_span(meta))
        problem = annotation_problem(made)
        if problem is not None:
            self.problems.error(codes.SYNTAX, problem, _span(meta))
        return made

    def setting(self, _meta: Meta, children: list[Any]) -> tuple[str, str | bool]:
        return str(children[0]), children[1].value

    def parameter(self, _meta: Meta, children: list[Any]) -> ast.Parameter:
        return ast.Parameter(_name(children[0]), children[1])

    def type_ref(self, meta: Meta, children: list[Any]) -> ast.ParameterType:
        core: ast.ParameterType = children[0]
        return ast.ParameterType(
            core.base, len(children) > 1, core.is_list, core.width, _span(meta)
        )

    def scalar(self, _meta: Meta, children: list[Token]) -> ast.ParameterType:
        return ast.ParameterType(str(children[0]))

    def list_type(self, _meta: Meta, children: list[Token]) -> ast.ParameterType:
        return ast.ParameterType(str(children[0]), is_list=True)

    def vector(self, meta: Meta, children: list[Token]) -> ast.ParameterType:
        return ast.ParameterType("Vector", width=self._integer(children[1], meta))

    # --- bodies

    def read(self, _meta: Meta, children: list[Any]) -> ast.ReadBody:
        match, returns, *rest = children
        parts: dict[str, Any] = {"having": None, "order": (), "limit": None, "offset": None}
        for part in rest:
            if part.name in ("limit", "offset") and parts[part.name] is not None:
                self.problems.error(codes.SYNTAX, f"{part.name} is given twice", part.span)
            parts[part.name] = part.value
        return ast.ReadBody(
            match.clauses,
            returns.projections,
            returns.distinct,
            match_span=match.span,
            return_span=returns.span,
            **parts,
        )

    def mutation(self, _meta: Meta, children: list[Any]) -> ast.MutationBody:
        return ast.MutationBody(tuple(children))

    def match(self, meta: Meta, children: list[Any]) -> _Match:
        return _Match(tuple(children), _span(meta))

    def returns(self, meta: Meta, children: list[Any]) -> _Returns:
        distinct = _is(children[0], "DISTINCT")
        return _Returns(distinct, tuple(children[1:] if distinct else children), _span(meta))

    def projection(self, meta: Meta, children: list[Any]) -> ast.Projection:
        alias = _name(children[1]) if len(children) > 1 else None
        return ast.Projection(children[0], alias, _span(meta))

    def having(self, meta: Meta, children: list[Any]) -> _ReadPart:
        return _ReadPart("having", children[0], _span(meta))

    def order(self, meta: Meta, children: list[Any]) -> _ReadPart:
        return _ReadPart("order", tuple(children), _span(meta))

    def ordering(self, meta: Meta, children: list[Any]) -> ast.Ordering:
        direction = children[1].type == "DESC" if len(children) > 1 else None
        return ast.Ordering(children[0], direction, _span(meta))

    def limit(self, meta: Meta, children: list[Any]) -> _ReadPart:
        return _ReadPart("limit", children[0], _span(meta))

    def offset(self, meta: Meta, children: list[Any]) -> _ReadPart:
        return _ReadPart("offset", children[0], _span(meta))

    # --- statements

    def insert(self, meta: Meta, children: list[Any]) -> ast.InsertStatement:
        type_name, *rest = children
        skip = bool(rest) and _is(rest[-1], "SKIP")
        return ast.InsertStatement(
            _name(type_name), tuple(rest[:-1] if skip else rest), skip, _span(meta)
        )

    def update(self, meta: Meta, children: list[Any]) -> ast.UpdateStatement:
        type_name, *assignments, where = children
        return ast.UpdateStatement(_name(type_name), tuple(assignments), where, _span(meta))

    def delete(self, meta: Meta, children: list[Any]) -> ast.DeleteStatement:
        return ast.DeleteStatement(_name(children[0]), children[1], _span(meta))

    def match_delete(self, meta: Meta, children: list[Any]) -> ast.MatchDeleteStatement:
        match, *variables = children
        return ast.MatchDeleteStatement(
            match.clauses, tuple(_name(v) for v in variables), _span(meta)
        )

    # --- clauses

    def binding(self, meta: Meta, children: list[Any]) -> ast.BindingClause:
        variable, type_name, *matches = children
        return ast.BindingClause(_name(variable), _name(type_name), tuple(matches), _span(meta))

    def property_value(self, _meta: Meta, children: list[Any]) -> ast.PropertyValue:
        return ast.PropertyValue(_name(children[0]), children[1])

    def traversal(self, meta: Meta, children: list[Any]) -> ast.TraversalClause:
        source, edge, target = children
        return ast.TraversalClause(_name(source), edge, _name(target), span=_span(meta))

    def path(self, meta: Meta, children: list[Any]) -> ast.TraversalClause:
        shortest = _is(children[1], "SHORTEST")
        path, source, edge, target = [c for c in children if not _is(c, "SHORTEST")]
        return ast.TraversalClause(
            _name(source), edge, _name(target), _name(path), shortest, _span(meta)
        )

    def edge(self, meta: Meta, children: list[Any]) -> ast.EdgePattern:
        variable = _name(children[0]) if _is(children[0], "EDGE_VARIABLE") else None
        edges: _EdgeNames = children[1] if variable else children[0]
        hops = children[-1] if isinstance(children[-1], ast.Hops) else None
        return ast.EdgePattern(edges.names, edges.undirected, variable, hops, _span(meta))

    def directed(self, _meta: Meta, children: list[Token]) -> _EdgeNames:
        return _EdgeNames(tuple(_name(child) for child in children), undirected=False)

    def undirected(self, _meta: Meta, children: list[Token]) -> _EdgeNames:
        names = tuple(_name(child) for child in children if child.type == "NAME")
        return _EdgeNames(names, undirected=True)

    def hops(self, meta: Meta, children: list[Token]) -> ast.Hops:
        bounds = [self._integer(child, meta) for child in children]
        return ast.Hops(bounds[0], bounds[1] if len(bounds) > 1 else None, _span(meta))

    def negation(self, meta: Meta, children: list[Any]) -> ast.NegationClause:
        return ast.NegationClause(tuple(children), _span(meta))

    def optional(self, meta: Meta, children: list[Any]) -> ast.OptionalClause:
        return ast.OptionalClause(tuple(children), _span(meta))

    def filter(self, meta: Meta, children: list[Any]) -> ast.FilterClause:
        self.may_have_hops |= bool(_variables_of_a_hop(children[0]))
        return ast.FilterClause(children[0], _span(meta))

    # --- expressions

    def or_expression(self, meta: Meta, children: list[Any]) -> ast.ConnectiveExpr:
        return ast.ConnectiveExpr("or", tuple(children), _span(meta))

    def and_expression(self, meta: Meta, children: list[Any]) -> ast.ConnectiveExpr:
        return ast.ConnectiveExpr("and", tuple(children), _span(meta))

    def negated(self, meta: Meta, children: list[Any]) -> ast.Expr:
        *nots, operand = children
        for _ in nots:
            operand = ast.NotExpr(operand, _span(meta))
        result: ast.Expr = operand
        return result

    def comparison(self, meta: Meta, children: list[Any]) -> ast.ComparisonExpr:
        left, operator, right = children
        return ast.ComparisonExpr(str(operator), left, right, _span(meta))

    def membership(self, meta: Meta, children: list[Any]) -> ast.ComparisonExpr:
        return self.comparison(meta, children)

    def null_test(self, meta: Meta, children: list[Any]) -> ast.NullTestExpr:
        return ast.NullTestExpr(children[0], len(children) > 1, _span(meta))

    def sum(self, _meta: Meta, children: list[Any]) -> ast.Expr:
        return _left_to_right(children)

    def product(self, _meta: Meta, children: list[Any]) -> ast.Expr:
        return _left_to_right(children)

    def negative(self, meta: Meta, children: list[Any]) -> ast.Expr:
        operand = children[1]
        value = operand.value if isinstance(operand, ast.LiteralExpr) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return ast.LiteralExpr(-value, _span(meta))
        return ast.NegativeExpr(operand, _span(meta))

    def integer(self, meta: Meta, children: list[Token]) -> ast.LiteralExpr:
        return ast.LiteralExpr(self._integer(children[0], meta), _span(meta))

    def float(self, meta: Meta, children: list[Token]) -> ast.LiteralExpr:
        value = float_value(children[0])
        if value is None:
            self.problems.error(codes.SYNTAX, "this number is too large", _span(meta))
        return ast.LiteralExpr(value, _span(meta))

    def string(self, meta: Meta, children: list[Token]) -> ast.LiteralExpr:
        return ast.LiteralExpr(string_value(children[0]), _span(meta))

    def true(self, meta: Meta, _children: list[Token]) -> ast.LiteralExpr:
        return ast.LiteralExpr(True, _span(meta))

    def false(self, meta: Meta, _children: list[Token]) -> ast.LiteralExpr:
        return ast.LiteralExpr(False, _span(meta))

    def null(self, meta: Meta, _children: list[Token]) -> ast.LiteralExpr:
        return ast.LiteralExpr(None, _span(meta))

    def list(self, meta: Meta, children: Any) -> ast.ListExpr:
        return ast.ListExpr(tuple(children), _span(meta))

    def property(self, meta: Meta, children: Any) -> ast.PropertyExpr:
        return ast.PropertyExpr(_name(children[0]), _name(children[1]), _span(meta))

    def variable(self, meta: Meta, children: Any) -> ast.VariableExpr:
        return ast.VariableExpr(children[0][1:], _span(meta))

    def name(self, meta: Meta, children: Any) -> ast.NameExpr:
        return ast.NameExpr(str(children[0]), _span(meta))

    def call(self, meta: Meta, children: Any) -> ast.CallExpr:
        function, *rest = children
        return ast.CallExpr(
            str(function),
            tuple(c for c in rest if not isinstance(c, (Token, _Option))),
            any(_is(c, "DISTINCT") for c in rest),
            any(_is(c, "STAR") for c in rest),
            tuple((c.name, c.value) for c in rest if isinstance(c, _Option)),
            _span(meta),
        )

    def case(self, meta: Meta, children: Any) -> ast.CaseExpr:
        parts = [c for c in children if not _is(c, "CASE")]
        branches = tuple(c for c in parts if isinstance(c, ast.CaseBranch))
        has_else = len(branches) < len(parts)
        return ast.CaseExpr(branches, parts[-1] if has_else else None, _span(meta))

    def when(self, _meta: Meta, children: Any) -> ast.CaseBranch:
        return ast.CaseBranch(children[0], children[1])

    def exists(self, meta: Meta, children: Any) -> ast.ExistsExpr:
        return ast.ExistsExpr(tuple(c for c in children if not _is(c, "EXISTS")), _span(meta))

    def option(self, _meta: Meta, children: Any) -> _Option:
        return _Option(str(children[0]), children[1])

    def _integer(self, token: Token, meta: Meta) -> int:
        value = integer_value(token)
        if value is None:
            self.problems.error(codes.SYNTAX, "this number is too large", _span(meta))
            return 0
        return value


# What some rules give to the rule above them; not part of the syntax tree.


@dataclass(frozen=True, slots=True)
class _Match:
    clauses: tuple[ast.Clause, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class _Returns:
    distinct: bool
    projections: tuple[ast.Projection, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class _ReadPart:
    """`where`, `order`, `limit` or `offset` of a read, by the field of `ReadBody`."""

    name: str
    value: Any
    span: Span


@dataclass(frozen=True, slots=True)
class _EdgeNames:
    names: tuple[Name, ...]
    undirected: bool


@dataclass(frozen=True, slots=True)
class _Option:
    """`k=60` among the arguments of a call."""

    name: str
    value: ast.Expr


def _left_to_right(children: list[Any]) -> ast.Expr:
    result: ast.Expr = children[0]
    for operator, operand in zip(children[1::2], children[2::2], strict=True):
        span = Span(result.span.start, operand.span.end)
        result = ast.ArithmeticExpr(str(operator), result, operand, span)
    return result


def with_hops(query: ast.Query) -> ast.Query:
    """The query with the hops that were read as filters: `$folder contains $file`."""
    parameters = {parameter.name.text for parameter in query.parameters}
    return replace(query, body=_with_hops(query.body, parameters))


def _with_hops(node: Any, parameters: set[str]) -> Any:
    if isinstance(node, tuple):
        return tuple(_with_hops(item, parameters) for item in node)
    if not is_dataclass(node) or isinstance(node, (Span, Name, type)):
        return node
    if isinstance(node, ast.FilterClause) and (names := _variables_of_a_hop(node.predicate)):
        return node if names & parameters else _as_hop(node)
    parts = {field.name: getattr(node, field.name) for field in fields(node)}
    return replace(node, **{name: _with_hops(part, parameters) for name, part in parts.items()})


def _variables_of_a_hop(predicate: ast.Expr) -> set[str]:
    """The names of `$folder contains $file` and `$file in $folder`; no name for other filters.

    When neither is a parameter, this is a hop: a node contains nothing and is in no list, so a
    filter would have no meaning there.
    """
    match predicate:
        case ast.ComparisonExpr("contains" | "in", ast.VariableExpr(left), ast.VariableExpr(right)):
            return {left, right}
        case _:
            return set()


def _as_hop(clause: ast.FilterClause) -> ast.TraversalClause:
    written: Any = clause.predicate
    between = Span(written.left.span.end, written.right.span.start)
    return ast.TraversalClause(
        Name(written.left.name, written.left.span),
        ast.EdgePattern((Name(written.operator, between),), span=between),
        Name(written.right.name, written.right.span),
        span=clause.span,
    )
