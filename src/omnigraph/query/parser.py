"""From query text to the syntax tree, with limits on the size of a query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

from lark import Tree

from omnigraph.errors import ParseError
from omnigraph.query import ast, codes
from omnigraph.query.tree_reader import QueryTreeReader, with_hops
from omnigraph.syntax.diagnostics import Diagnostic, Diagnostics, language_error
from omnigraph.syntax.grammar import (
    MAX_NESTING,
    Grammar,
    GrammarSpec,
    SyntaxTree,
    misspelt_keyword,
)
from omnigraph.syntax.grammar_tables import BARE, START
from omnigraph.syntax.source_text import NO_SPAN, Name, SourceText, Span

_TERMINAL_NAMES = {
    "TYPE_NAME": "a type name",
    "NAME": "a name",
    "PROPERTY": "a property",
    "VARIABLE": "a variable",
    "EDGE_VARIABLE": "an edge variable",
    "PATH_VARIABLE": "a path variable",
    "FUNCTION": "a function",
    "OPTION": "an option",
    "ANNOTATION": "an annotation",
    "INTEGER": "an integer",
    "FLOAT": "a number",
    "STRING": "a string",
    "VECTOR": "'Vector('",
    "COMPARE": "a comparison",
    "IN": "'in'",
    "SKIP": "'on match skip'",
    "NULLABLE": "'?'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "STAR": "'*'",
    "SLASH": "'/'",
    "PERCENT": "'%'",
    "LESS": "'<'",
    "UNDIRECTED": "'<'",
    "GREATER": "'>'",
    "EQUAL": "'='",
    "VBAR": "'|'",
    "DOT": "'.'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COLON": "':'",
    "COMMA": "','",
    "$END": "the end of the text",
}
_KEYWORDS = re.findall(
    r"\w+",
    "query match return where order limit offset insert update delete set not and or is null as "
    "asc desc distinct shortest optional true false case when then else end exists",
)
_TERMINAL_NAMES |= {word.upper(): f"'{word}'" for word in _KEYWORDS}


def _terminals(names: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", names))


_OPERAND = _terminals(
    "INTEGER FLOAT STRING TRUE FALSE NULL LSQB FUNCTION VARIABLE NAME CASE EXISTS LPAR MINUS"
)
_GROUPS = (
    (_OPERAND | {"NOT"}, "an expression"),
    (_OPERAND, "a value"),
    (_OPERAND - {"MINUS"}, "a value"),
    (_terminals("COMPARE LESS GREATER EQUAL IN IS"), "a comparison"),
    (_terminals("PLUS MINUS STAR SLASH PERCENT"), "an operator"),
    (_terminals("PLUS STAR SLASH PERCENT"), "an operator"),
    (frozenset({"AND", "OR"}), "'and' or 'or'"),
    (frozenset({"TYPE_NAME", "VECTOR", "LSQB"}), "a type"),
)
# Notations of other languages -> the notation of this one.
_HABITS = (
    (r"==", "equality is written `=`"),
    (r"<>", "inequality is written `!=`"),
    (r"&&", "write `and`"),
    (r"\|\|", "write `or`"),
    (r"!(?!=)", "write `not`"),
    (r"'", "strings are written in double quotes"),
    (r"#|--", "comments start with //"),
    (r";", "clauses need no separator"),
    (r"->|-\[|<-", "a hop is written `$a knows $b`"),
    (r"(?i:where)\b", "filters are written in the match block; `where` follows `return`"),
    (r"(?i:by)\b", "write `order { … }`"),
    (r"(?i:skip)\b", "write `offset`"),
    (r"[0-9]+\.\.", "hop bounds are written `{1,3}`"),
)
# Expected terminals, text before the error, text from the error on -> the help.
_SITUATIONS = (
    ({"TYPE_NAME"}, r"", r"[a-z_]", "type names start with an upper-case letter"),
    ({"TYPE_NAME"}, r"delete\s*", r"\$", "write `match { … } delete $x`"),
    ({"PROPERTY"}, r"", r"[a-z_]\w*", "values are written `name: value`"),
    ({"PROPERTY"}, r"", r"[A-Z]", "property names start with a lower-case letter"),
    ({"SET"}, r"", r"", "write `update T set { … } where …`"),
    ({"NAME"}, r"\.\s*", r"\*", "`return { $x }` gives every property of $x"),
    ({"LBRACE", "DISTINCT"}, r"", r"", "write `return { … }`"),
    ({"RBRACE"}, r"[\s{][a-z_]\w*\s*", r":", "variables start with $"),
    ({"PATH_VARIABLE"}, r"", r",", "clauses need no separator"),
    (set[str](), r"(?<![.$])\bcase\s+", r"", "write `case when … then … else … end`"),
    (set[str](), r"(?<![.$])\bcase\s[^{}]*", r"when\b", "write `case when $x.p = 1 then … end`"),
    ({"LPAR"}, r"query\s+\w+\s*", r"", "a query is written `query name() { … }`"),
)

# Later passes are recursive; these limits keep them within Python's stack.
MAX_DEPTH = 100
MAX_STEPS = 150

_STEPS = (
    ast.BindingClause,
    ast.TraversalClause,
    ast.FilterClause,
    ast.NegationClause,
    ast.OptionalClause,
    ast.ExistsExpr,
)
_RANKINGS = frozenset({"nearest", "bm25", "rrf"})


_BARE_TEXT = re.compile(
    r"(?:\s++|//[^\n]*+|/\*.*?\*/)*+(?:match|insert|update|delete)\b", re.DOTALL
)


def parse_queries(source: SourceText, *, may_be_bare: bool = False) -> ast.QueryFile:
    """The syntax tree of a text; raises `ParseError` with all syntax errors.

    With `may_be_bare` the text may be the body of one query, without `query name() { … }`. The
    query is then called `ad_hoc`.
    """
    bare = may_be_bare and _BARE_TEXT.match(source.text)
    parsed = _grammar().parse(source, BARE if bare else START)
    if parsed.tree is None:
        raise language_error(ParseError, parsed.diagnostics, source)
    deep = _deep_case(parsed.tree) if source.text.count("case") > MAX_NESTING else None
    if deep is not None:
        raise language_error(ParseError, [deep], source)
    reader = QueryTreeReader()
    queries: ast.QueryFile = reader.transform(parsed.tree)
    found = Diagnostics(reader.problems)
    _check_queries(queries, found)
    if found:
        raise language_error(ParseError, found, source)
    if reader.may_have_hops:
        return ast.QueryFile(tuple(map(with_hops, queries.queries)))
    return queries


def _deep_case(tree: SyntaxTree) -> Diagnostic | None:
    """An error when cases are nested as deep as brackets must not be.

    The tree is read recursively, so this is checked before. Only `case` has no brackets.
    """
    stack = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        depth += node.data == "case"
        if depth > MAX_NESTING:
            return Diagnostic(
                codes.SYNTAX,
                f"`case` is nested deeper than {MAX_NESTING} levels",
                Span(node.meta.start_pos, node.meta.end_pos),
                "write more `when … then …` in one `case`",
            )
        stack += [(child, depth) for child in node.children if isinstance(child, Tree)]
    return None


@cache
def _grammar() -> Grammar:
    return Grammar(
        GrammarSpec(
            path=Path(__file__).with_name("query.lark"),
            parse_code=codes.SYNTAX,
            terminal_names=_TERMINAL_NAMES,
            groups=_GROUPS,
            restart=re.compile(r"^[ \t]*query\b(?=[ \t]+\w)", re.MULTILINE),
            find_help=_find_help,
        )
    )


def _find_help(before: str, rest: str, expected: frozenset[str]) -> str | None:
    for pattern, help_text in _HABITS:
        # The first character of a foreign operator may be a token of this language: `=` of `==`.
        if re.match(pattern, rest) or re.match(f"{pattern}(?<=..)", before[-1:] + rest):
            return help_text
    for needed, behind, ahead, help_text in _SITUATIONS:
        if needed <= expected and re.search(f"{behind}$", before) and re.match(ahead, rest):
            return help_text
    if expected >= {"NAME", "UNDIRECTED"} and (word := re.match(r"[A-Z]\w*", rest)):
        name = word.group()
        return f"edges are written in lower case: `{name[:1].lower()}{name[1:]}`"
    opened = re.search(r"\b(return|order|insert|update|query)\b[^{}]*$", before)
    if rest.startswith("{") and opened:
        return f"a '}}' is missing before `{opened.group(1)}`"
    if expected == {"QUERY", "$END"}:
        return "a text holds `query name() { … }` declarations"
    return misspelt_keyword(rest, expected)


def _check_queries(queries: ast.QueryFile, found: Diagnostics) -> None:
    seen: set[str] = set()
    for query in queries.queries:
        if query.name.text in seen:
            found.error(
                codes.SYNTAX, f"query '{query.name.text}' is declared twice", query.name.span
            )
        seen.add(query.name.text)
        _check_parameters(query, found)
        _check_kind(query, found)
        _check_size(query, found)


def _check_size(query: ast.Query, found: Diagnostics) -> None:
    depth, span = deepest(query)
    if depth > MAX_DEPTH:
        found.error(
            codes.SYNTAX,
            f"this expression has more than {MAX_DEPTH} levels",
            span,
            "use `in [ … ]`, or split it",
        )
    elif steps(query) > MAX_STEPS:
        found.error(
            codes.SYNTAX,
            f"query '{query.name.text}' has more than {MAX_STEPS} clauses and searches",
            query.name.span,
            "join conditions with `and`, use `in [ … ]`, or split the query",
        )


def deepest(query: ast.Query) -> tuple[int, Span]:
    """The greatest depth of nested syntax nodes, and its place."""
    best = (0, NO_SPAN)
    for node, depth in _nodes(query):
        if depth > best[0]:
            best = (depth, getattr(node, "span", best[1]))
    return best


def steps(query: ast.Query) -> int:
    """An upper bound for the length of the chain of operators in the plan of a query."""
    count = 0
    for node, _ in _nodes(query):
        if isinstance(node, ast.BindingClause):
            count += len(node.matches)
        if isinstance(node, _STEPS) or (
            isinstance(node, ast.CallExpr) and node.function in _RANKINGS
        ):
            count += 1
    return count


def _nodes(query: ast.Query) -> Iterator[tuple[object, int]]:
    stack: list[tuple[object, int]] = [(query.body, 0)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack += [(child, depth + 1) for child in _children(node)]


def _children(node: object) -> Iterator[object]:
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if isinstance(value, tuple):
            yield from (item for item in value if is_dataclass(item))
        elif is_dataclass(value) and not isinstance(value, (Span, Name)):
            yield value


def _check_parameters(query: ast.Query, found: Diagnostics) -> None:
    seen: set[str] = set()
    for parameter in query.parameters:
        if parameter.name.text in seen:
            found.error(
                codes.SYNTAX,
                f"parameter ${parameter.name.text} is declared twice",
                parameter.name.span,
            )
        seen.add(parameter.name.text)


def _check_kind(query: ast.Query, found: Diagnostics) -> None:
    """A query either writes or deletes, because a mix could delete what it has just written."""
    if not isinstance(query.body, ast.MutationBody):
        return
    destructive = [
        isinstance(statement, (ast.DeleteStatement, ast.MatchDeleteStatement))
        for statement in query.body.statements
    ]
    if any(destructive) and not all(destructive):
        odd_one = query.body.statements[destructive.index(not destructive[0])]
        found.error(
            codes.SYNTAX,
            f"query '{query.name.text}' mixes delete with insert or update",
            odd_one.span,
            f"split it: `query {query.name.text}_write(…)` with the inserts and updates, "
            f"`query {query.name.text}_delete(…)` with the deletes",
        )
