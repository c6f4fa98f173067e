"""Hypothesis strategies for query syntax trees that can be written as text."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.query import ast
from omnigraph.query.tree_reader import annotation_problem
from omnigraph.syntax.source_text import Name

_WORDS = "and or not in is contains starts_with true false null as asc desc distinct optional"
RESERVED = frozenset(_WORDS.split(" "))
_NO_FUNCTIONS = frozenset({"where", "when", "then", "else", "end"})

_KEYWORDS = st.sampled_from(["case", "when", "then", "else", "end", "exists"])
identifiers = st.from_regex(r"[a-z_][a-zA-Z0-9_]{0,6}", fullmatch=True) | _KEYWORDS
type_names = st.from_regex(r"[A-Z][a-zA-Z0-9_]{0,6}", fullmatch=True)
bare_words = identifiers.filter(lambda word: word not in RESERVED | {"k", "weights"})
edge_words = identifiers.filter(lambda word: word not in RESERVED)
names = st.builds(Name, identifiers)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.one_of(
    texts,
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
)


def _is_number(expression: ast.Expr) -> bool:
    return isinstance(expression, ast.LiteralExpr) and type(expression.value) in (int, float)


def expressions(bare: bool) -> st.SearchStrategy[ast.Expr]:
    """Any expression. `bare` allows bare words, which not every place can read back."""
    leaves: st.SearchStrategy[ast.Expr] = st.one_of(
        st.builds(ast.LiteralExpr, values),
        st.builds(ast.VariableExpr, identifiers),
        st.builds(ast.PropertyExpr, names, names),
    )
    if bare:
        leaves |= st.builds(ast.NameExpr, bare_words)
    return st.recursive(leaves, _composed, max_leaves=8)


def _composed(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    functions = bare_words.filter(lambda word: word not in _NO_FUNCTIONS)
    branches = st.lists(st.builds(ast.CaseBranch, inner, inner), min_size=1, max_size=2).map(tuple)
    arguments = st.lists(inner, max_size=3).map(tuple)
    options = st.sampled_from([(), ("k",), ("weights",), ("k", "weights")])
    return st.one_of(
        st.builds(ast.ListExpr, st.lists(inner, max_size=3).map(tuple)),
        st.builds(ast.CallExpr, functions, arguments),
        st.builds(ast.CallExpr, functions, star=st.just(True)),
        st.builds(ast.CallExpr, functions, st.tuples(inner), distinct=st.just(True)),
        st.builds(
            lambda name, args, keys, value: ast.CallExpr(
                name, args, options=tuple((key, value) for key in keys)
            ),
            functions,
            arguments,
            options,
            inner,
        ),
        st.builds(ast.NegativeExpr, inner.filter(lambda e: not _is_number(e))),
        st.builds(ast.ArithmeticExpr, st.sampled_from("+-*/%"), inner, inner),
        st.builds(
            ast.ComparisonExpr,
            st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in"]),
            inner,
            inner,
        ),
        st.builds(ast.NullTestExpr, inner, st.booleans()),
        st.builds(ast.NotExpr, inner),
        st.builds(ast.ConnectiveExpr, st.sampled_from(["and", "or"]), several),
        st.builds(ast.CaseExpr, branches, st.none() | inner),
        st.builds(
            ast.ExistsExpr, st.lists(_clauses_with(inner), min_size=1, max_size=2).map(tuple)
        ),
    )


def _is_hop_in_disguise(predicate: ast.Expr) -> bool:
    return (
        isinstance(predicate, ast.ComparisonExpr)
        and predicate.operator in ("contains", "in")
        and isinstance(predicate.left, ast.VariableExpr)
        and isinstance(predicate.right, ast.VariableExpr)
    )


hops = st.none() | st.builds(ast.Hops, st.integers(0, 9), st.none() | st.integers(0, 9))
edges = st.builds(
    ast.EdgePattern,
    st.lists(st.builds(Name, edge_words), min_size=1, max_size=3).map(tuple),
    st.booleans(),
    st.none() | names,
    hops,
)


def _clauses_with(values: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Clause]:
    """Clauses without blocks, over these expressions."""
    matches = st.lists(st.builds(ast.PropertyValue, names, values), max_size=2).map(tuple)
    return st.one_of(
        st.builds(ast.BindingClause, names, st.builds(Name, type_names), matches),
        st.builds(ast.TraversalClause, names, edges, names),
        st.builds(ast.TraversalClause, names, edges, names, names, st.booleans()),
        st.builds(ast.FilterClause, values.filter(lambda e: not _is_hop_in_disguise(e))),
    )


plain = expressions(bare=False)
worded = expressions(bare=True)
assignments = st.lists(st.builds(ast.PropertyValue, names, worded), max_size=3).map(tuple)
simple_clauses = _clauses_with(plain)
clauses = st.recursive(
    simple_clauses,
    lambda inner: st.one_of(
        st.builds(ast.NegationClause, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(ast.OptionalClause, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)
blocks = st.lists(clauses, min_size=1, max_size=4).map(tuple)
counts = st.one_of(
    st.none(),
    st.builds(ast.LiteralExpr, st.integers(0, 999)),
    st.builds(ast.VariableExpr, identifiers),
)
reads = st.builds(
    ast.ReadBody,
    blocks,
    st.lists(st.builds(ast.Projection, worded, st.none() | names), min_size=1, max_size=3).map(
        tuple
    ),
    st.booleans(),
    st.none() | worded,
    st.lists(st.builds(ast.Ordering, worded, st.none() | st.booleans()), max_size=2).map(tuple),
    counts,
    counts,
)
_types = st.builds(Name, type_names)
constructive = st.one_of(
    st.builds(ast.InsertStatement, _types, assignments, st.booleans()),
    st.builds(ast.UpdateStatement, _types, assignments, worded),
)
destructive = st.one_of(
    st.builds(ast.DeleteStatement, _types, worded),
    st.builds(ast.MatchDeleteStatement, blocks, st.lists(names, min_size=1, max_size=2).map(tuple)),
)
mutations = st.one_of(
    st.builds(ast.MutationBody, st.lists(constructive, min_size=1, max_size=3).map(tuple)),
    st.builds(ast.MutationBody, st.lists(destructive, min_size=1, max_size=3).map(tuple)),
)
parameter_types = st.one_of(
    st.builds(ast.ParameterType, type_names, st.booleans(), st.booleans()),
    st.builds(ast.ParameterType, st.just("Vector"), st.booleans(), width=st.integers(0, 999)),
)
annotation_settings = st.tuples(identifiers, st.one_of(texts, st.booleans()))
query_annotations = st.one_of(
    st.builds(ast.QueryAnnotation, identifiers, texts),
    st.builds(
        ast.QueryAnnotation,
        identifiers,
        settings=st.lists(annotation_settings, min_size=1, max_size=2).map(tuple),
    ),
).filter(lambda made: annotation_problem(made) is None)
queries = st.builds(
    ast.Query,
    names,
    st.one_of(reads, mutations),
    st.lists(
        st.builds(ast.Parameter, names, parameter_types),
        max_size=3,
        unique_by=lambda p: p.name.text,
    ).map(tuple),
    st.lists(query_annotations, max_size=2).map(tuple),
)
query_files = st.lists(queries, max_size=2, unique_by=lambda q: q.name.text).map(
    lambda found: ast.QueryFile(tuple(found))
)
