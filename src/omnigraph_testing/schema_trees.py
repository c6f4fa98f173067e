"""Hypothesis strategies for schema syntax trees that can be written as text."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.schema import ast
from omnigraph.syntax.source_text import Name

_CONSTRAINTS = ("key", "unique", "index", "range", "check")
_WITH_MEANING = ("default", "rename_from", "rename_value", "protected", "allow", "embed", "card")

identifiers = st.from_regex(r"[a-z_][a-zA-Z0-9_]{0,6}", fullmatch=True)
type_words = st.from_regex(r"[A-Z][a-zA-Z0-9_]{0,6}", fullmatch=True)
names = st.builds(Name, identifiers)
type_names = st.builds(Name, type_words)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
bounds = numbers | texts
ranges = st.builds(ast.RangeValue, st.none() | bounds, st.none() | bounds).filter(
    lambda r: r.minimum is not None or r.maximum is not None
)
words = identifiers.filter(lambda word: word not in ("true", "false", "null"))
dashed_words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,3}(-[A-Za-z0-9_]{1,3}){1,2}", fullmatch=True)
argument_values = st.one_of(
    texts,
    numbers,
    st.booleans(),
    st.none(),
    st.builds(ast.NameValue, words | dashed_words),
    st.builds(ast.CallValue, words),
    ranges,
)
arguments = st.lists(
    st.builds(ast.Argument, argument_values, st.none() | identifiers), max_size=3
).map(tuple)
annotation_names = st.sampled_from(_WITH_MEANING) | identifiers.filter(
    lambda name: name not in _CONSTRAINTS
)
property_annotations = st.builds(ast.SchemaAnnotation, annotation_names, arguments) | st.builds(
    ast.SchemaAnnotation, st.sampled_from(_CONSTRAINTS)
)
type_annotations = st.lists(
    st.builds(ast.SchemaAnnotation, annotation_names, arguments), max_size=2
).map(tuple)
type_refs = st.one_of(
    st.builds(ast.PropertyType, type_words, st.booleans(), st.booleans()),
    st.builds(ast.PropertyType, st.just("Vector"), st.booleans(), width=st.integers(0, 999)),
    st.builds(
        ast.PropertyType,
        st.just("enum"),
        st.booleans(),
        values=st.lists(
            st.from_regex(r"[A-Za-z0-9_-]{1,5}", fullmatch=True), min_size=1, max_size=3
        ).map(tuple),
    ),
)
properties = st.builds(
    ast.PropertyDecl, names, type_refs, st.lists(property_annotations, max_size=2).map(tuple)
)
constraints = st.builds(
    ast.SchemaAnnotation,
    st.sampled_from(_CONSTRAINTS),
    arguments.filter(lambda given: len(given) > 0),
)
members = st.lists(properties | constraints, max_size=3).map(tuple)
declarations = st.one_of(
    st.builds(ast.InterfaceDecl, type_names, members, type_annotations),
    st.builds(
        ast.NodeDecl,
        type_names,
        members,
        st.lists(type_names, max_size=2).map(tuple),
        type_annotations,
    ),
    st.builds(ast.EdgeDecl, type_names, type_names, type_names, members, type_annotations),
)
schema_files = st.lists(declarations, max_size=3).map(lambda found: ast.SchemaFile(tuple(found)))
