"""The canonical text of a query syntax tree; parsing it gives the same tree."""

from __future__ import annotations

import re
from collections.abc import Iterable

from omnigraph.query import ast
from omnigraph.syntax.layout import FormattedLine, find_comments, write_lines
from omnigraph.syntax.source_text import SourceText, Span, write_literal, write_string

# A block whose items fit on one line of this length is written on one line.
_ONE_LINE = 80

# How strongly each construct binds; an operand that binds less than its place gets parentheses.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(8)

_ARITHMETIC = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}


def format_queries(queries: ast.QueryFile, source: SourceText | None = None) -> str:
    """Canonical text; with the source it was parsed from, comments are kept."""
    lines: list[FormattedLine] = []
    for query in queries.queries:
        if lines:
            lines.append(FormattedLine("", lines[-1].start))
        lines += _query(query)
    return write_lines(lines, find_comments(source) if source else ())


def format_type(ref: ast.ParameterType) -> str:
    base = f"Vector({ref.width})" if ref.width is not None else ref.base
    return f"{f'[{base}]' if ref.is_list else base}{'?' if ref.nullable else ''}"


def _query(query: ast.Query) -> list[FormattedLine]:
    parameters = ", ".join(f"${p.name.text}: {format_type(p.type)}" for p in query.parameters)
    annotations = "".join(f" {_annotation(a)}" for a in query.annotations)
    start = query.span.start
    return [
        FormattedLine(f"query {query.name.text}({parameters}){annotations} {{", start),
        *_body(query.body),
        FormattedLine("}", max(query.span.end - 1, 0), closes=True),
    ]


def _annotation(annotation: ast.QueryAnnotation) -> str:
    settings = ", ".join(f"{name}: {write_literal(v)}" for name, v in annotation.settings)
    return f"@{annotation.name}({settings or write_string(annotation.text)})"


def _body(body: ast.ReadBody | ast.MutationBody) -> list[FormattedLine]:
    if isinstance(body, ast.ReadBody):
        return _read(body)
    return [line for statement in body.statements for line in _statement(statement)]


def _read(read: ast.ReadBody) -> list[FormattedLine]:
    lines = _match(read.clauses, read.match_span.start, read.match_span.end - 1)
    keyword = "return distinct" if read.distinct else "return"
    at = read.return_span.start
    lines += _block(keyword, [(_projection(p), p.span.start) for p in read.projections], at)
    if read.having is not None:
        at = read.having.span.start
        lines.append(FormattedLine(f"where {format_expression(read.having)}", at, 1))
    if read.order:
        at = read.order[0].span.start
        lines += _block("order", [(_ordering(o), o.span.start) for o in read.order], at)
    for keyword, count in (("limit", read.limit), ("offset", read.offset)):
        if count is not None:
            at = max(at, count.span.start)
            lines.append(FormattedLine(f"{keyword} {format_expression(count)}", at, 1))
    return lines


def _block(keyword: str, items: list[tuple[str, int]], start: int) -> list[FormattedLine]:
    one_line = f"{keyword} {{ {', '.join(text for text, _ in items)} }}"
    if len(one_line) <= _ONE_LINE:
        return [FormattedLine(one_line, start, 1)]
    inner = [FormattedLine(f"{text},", at, 2) for text, at in items]
    return [
        FormattedLine(f"{keyword} {{", start, 1),
        *inner,
        FormattedLine("}", items[-1][1], 1, closes=True),
    ]


def _match(clauses: tuple[ast.Clause, ...], start: int, end: int) -> list[FormattedLine]:
    """A match block; `start` and `end` are the offsets of its first and last character."""
    return [
        FormattedLine("match {", start, 1),
        *_clauses(clauses, 2),
        FormattedLine("}", max(end, 0), 1, closes=True),
    ]


def _clauses(clauses: Iterable[ast.Clause], indent: int) -> list[FormattedLine]:
    lines: list[FormattedLine] = []
    for clause in clauses:
        match clause:
            case ast.NegationClause(inner):
                lines += _nested("not", inner, clause.span, indent)
            case ast.OptionalClause(inner):
                lines += _nested("optional", inner, clause.span, indent)
            case ast.FilterClause(ast.ExistsExpr(inner)):
                lines += _nested("exists", inner, clause.span, indent)
            case ast.FilterClause(ast.NotExpr(ast.ExistsExpr(inner))):
                lines += _nested("not exists", inner, clause.span, indent)
            case _:
                lines.append(FormattedLine(_clause(clause), clause.span.start, indent))
    return lines


def _nested(
    keyword: str, clauses: tuple[ast.Clause, ...], span: Span, indent: int
) -> list[FormattedLine]:
    """A block. One clause is written on the line of its keyword."""
    inner = _clauses(clauses, indent + 1)
    if len(inner) == 1 and len(inner[0].text) < _ONE_LINE:
        return [FormattedLine(f"{keyword} {{ {inner[0].text} }}", span.start, indent)]
    closing = FormattedLine("}", max(span.end - 1, 0), indent, closes=True)
    return [FormattedLine(f"{keyword} {{", span.start, indent), *inner, closing]


def _clause(clause: ast.Clause) -> str:
    """A clause on one line."""
    match clause:
        case ast.NegationClause(clauses):
            return f"not {_inline(clauses)}"
        case ast.OptionalClause(clauses):
            return f"optional {_inline(clauses)}"
        case ast.BindingClause(variable, type_name, matches):
            values = f" {{ {_values(matches)} }}" if matches else ""
            return f"${variable.text}: {type_name.text}{values}"
        case ast.TraversalClause(source, edge, target, path, shortest):
            prefix = f"${path.text} = {'shortest ' if shortest else ''}" if path else ""
            return f"{prefix}${source.text} {format_edge(edge)} ${target.text}"
        case ast.FilterClause(predicate):
            text = format_expression(predicate)
            return f"({text})" if starts_like_a_clause_part(predicate) else text


def _inline(clauses: tuple[ast.Clause, ...]) -> str:
    return f"{{ {'  '.join(map(_clause, clauses))} }}"


def format_edge(edge: ast.EdgePattern) -> str:
    names = "|".join(name.text for name in edge.names)
    hops = ""
    if edge.hops:
        maximum = "" if edge.hops.maximum is None else edge.hops.maximum
        hops = f"{{{edge.hops.minimum},{maximum}}}"
    binding = f"${edge.variable.text}:" if edge.variable else ""
    return f"{binding}{f'<{names}>' if edge.undirected else names}{hops}"


def _values(values: tuple[ast.PropertyValue, ...]) -> str:
    return ", ".join(f"{v.name.text}: {format_expression(v.value)}" for v in values)


def _projection(projection: ast.Projection) -> str:
    alias = f" as {projection.alias.text}" if projection.alias else ""
    return format_expression(projection.value) + alias


def _ordering(ordering: ast.Ordering) -> str:
    direction = {None: "", True: " desc", False: " asc"}[ordering.descending]
    return format_expression(ordering.value) + direction


def _statement(statement: ast.Statement) -> list[FormattedLine]:
    start = statement.span.start
    match statement:
        case ast.InsertStatement(type_name, assignments, skip):
            tail = " on match skip" if skip else ""
            return _assignments(f"insert {type_name.text}", assignments, tail, start)
        case ast.UpdateStatement(type_name, assignments, where):
            tail = f" where {format_expression(where)}"
            return _assignments(f"update {type_name.text} set", assignments, tail, start)
        case ast.DeleteStatement(type_name, where):
            text = f"delete {type_name.text} where {format_expression(where)}"
            return [FormattedLine(text, start, 1)]
        case ast.MatchDeleteStatement(clauses, variables):
            names = ", ".join(f"${v.text}" for v in variables)
            at = variables[0].span.start
            return [*_match(clauses, start, at - 1), FormattedLine(f"delete {names}", at, 1)]


def _assignments(
    head: str, assignments: tuple[ast.PropertyValue, ...], tail: str, start: int
) -> list[FormattedLine]:
    one_line = f"{head} {{ {_values(assignments)} }}{tail}" if assignments else f"{head} {{}}{tail}"
    if len(one_line) <= _ONE_LINE or not assignments:
        return [FormattedLine(one_line, start, 1)]
    inner = [FormattedLine(f"{_values((a,))},", a.name.span.start, 2) for a in assignments]
    closing = FormattedLine(f"}}{tail}", inner[-1].start, 1, closes=True)
    return [FormattedLine(f"{head} {{", start, 1), *inner, closing]


def format_expression(expression: ast.Expr) -> str:
    return _write(expression, _OR)


def starts_like_a_clause_part(expression: ast.Expr) -> bool:
    """A filter that would be read as part of the clause before it, or as another kind of clause."""
    match expression:
        case ast.VariableExpr() | ast.NameExpr() | ast.NegativeExpr():
            return True
        case ast.LiteralExpr(value):
            return isinstance(value, (int, float)) and str(value).startswith("-")
        case ast.ComparisonExpr(_, left, _) | ast.ArithmeticExpr(_, left, _):
            bare = isinstance(left, ast.VariableExpr)
            return starts_like_a_clause_part(left) and not bare
        case ast.NullTestExpr(operand):
            return starts_like_a_clause_part(operand) and not isinstance(operand, ast.VariableExpr)
        case ast.ConnectiveExpr(_, operands):
            return starts_like_a_clause_part(operands[0])
        case _:
            return False


def _write(expression: ast.Expr, place: int) -> str:
    strength, text = _spell(expression)
    return f"({text})" if strength < place else text


def _spell(expression: ast.Expr) -> tuple[int, str]:
    match expression:
        case ast.ConnectiveExpr(operator, operands):
            strength = _OR if operator == "or" else _AND
            return strength, f" {operator} ".join(_write(o, strength + 1) for o in operands)
        case ast.NotExpr(operand):
            return _NOT, f"not {_write(operand, _NOT)}"
        case ast.ComparisonExpr(operator, left, right):
            return _COMPARE, f"{_write(left, _SUM)} {operator} {_write(right, _SUM)}"
        case ast.NullTestExpr(operand, negated):
            return _COMPARE, f"{_write(operand, _SUM)} is {'not ' if negated else ''}null"
        case ast.ArithmeticExpr(operator, left, right):
            strength = _ARITHMETIC[operator]
            return strength, f"{_write(left, strength)} {operator} {_write(right, strength + 1)}"
        case ast.NegativeExpr(operand):
            return _UNARY, f"-{_write(operand, _PRIMARY)}"
        case _:
            return _spell_primary(expression)


def _spell_primary(
    expression: ast.LiteralExpr
    | ast.VariableExpr
    | ast.PropertyExpr
    | ast.NameExpr
    | ast.ListExpr
    | ast.CallExpr
    | ast.CaseExpr
    | ast.ExistsExpr,
) -> tuple[int, str]:
    match expression:
        case ast.LiteralExpr(value):
            text = write_literal(value)
            return (_UNARY if text.startswith("-") else _PRIMARY), text
        case ast.VariableExpr(name):
            return _PRIMARY, f"${name}"
        case ast.PropertyExpr(variable, property_name):
            return _PRIMARY, f"${variable.text}.{property_name.text}"
        case ast.NameExpr(name):
            return _PRIMARY, name
        case ast.ListExpr(items):
            return _PRIMARY, f"[{', '.join(_write(item, _OR) for item in items)}]"
        case ast.CallExpr():
            return _PRIMARY, _spell_call(expression)
        case ast.CaseExpr(branches, otherwise):
            return _PRIMARY, _spell_case(branches, otherwise)
        case ast.ExistsExpr(clauses):
            return _PRIMARY, f"exists {_inline(clauses)}"


def _spell_call(call: ast.CallExpr) -> str:
    arguments = [_write(argument, _OR) for argument in call.arguments]
    arguments += [f"{name}={_write(value, _OR)}" for name, value in call.options]
    inside = "*" if call.star else ", ".join(arguments)
    return f"{call.function}({'distinct ' if call.distinct else ''}{inside})"


def _spell_case(branches: tuple[ast.CaseBranch, ...], otherwise: ast.Expr | None) -> str:
    whens = [f"when {_write(b.condition, _OR)} then {_before_when(b.value)}" for b in branches]
    tail = [] if otherwise is None else [f"else {_write(otherwise, _OR)}"]
    return " ".join(["case", *whens, *tail, "end"])


def _before_when(value: ast.Expr) -> str:
    """A value that ends with the name `case` is in brackets, or `case when` would be read."""
    text = _write(value, _OR)
    return f"({text})" if re.search(r"(?<![\w.$])case$", text) else text
