"""Hypothesis strategies for catalogs."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    EdgeType,
    GeneratedDefault,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
)
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    VectorType,
)

NAMES = st.text(st.characters(categories=("L",)), min_size=1, max_size=6)
LITERALS = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
)
TYPES = st.one_of(
    st.builds(ScalarType, st.sampled_from(ScalarKind)),
    st.builds(ListType, st.sampled_from(ScalarKind)),
    st.builds(VectorType, st.integers(1, 4096)),
    st.builds(EnumType, st.lists(NAMES, min_size=1, max_size=4, unique=True).map(tuple)),
    st.just(BlobType()),
)
ANNOTATIONS = st.lists(
    st.builds(
        Annotation,
        NAMES,
        st.lists(LITERALS | st.builds(GeneratedDefault, NAMES), max_size=2).map(tuple),
        st.dictionaries(NAMES, LITERALS, max_size=2).map(lambda d: tuple(d.items())),
    ),
    max_size=2,
).map(tuple)
PROPERTY_NAMES = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
BOUNDS = st.one_of(st.none(), st.integers(), st.text(max_size=4), st.floats(allow_nan=False))
OPTIONS = st.dictionaries(
    NAMES, st.one_of(st.booleans(), st.integers(), st.text(max_size=4)), max_size=2
).map(lambda d: tuple(d.items()))
CONSTRAINTS = st.lists(
    st.one_of(
        st.builds(Key, PROPERTY_NAMES),
        st.builds(Unique, PROPERTY_NAMES),
        st.builds(Index, PROPERTY_NAMES, OPTIONS),
        st.builds(Range, NAMES, BOUNDS, BOUNDS),
        st.builds(Check, NAMES, st.text(max_size=8)),
    ),
    max_size=3,
).map(tuple)
PROPERTIES = st.lists(
    st.builds(Property, NAMES, TYPES, st.booleans(), NAMES, ANNOTATIONS),
    max_size=4,
    unique_by=lambda p: p.name,
).map(tuple)
NODES = st.builds(
    NodeType, NAMES, PROPERTIES, CONSTRAINTS, PROPERTY_NAMES, ANNOTATIONS, st.just("")
)
EDGES = st.builds(
    EdgeType,
    NAMES,
    NAMES,
    NAMES,
    PROPERTIES,
    CONSTRAINTS,
    st.none() | st.builds(Cardinality, st.integers(0, 3), st.none() | st.integers(3, 9)),
    ANNOTATIONS,
    st.just(""),
)
CATALOGS = st.builds(
    Catalog,
    st.lists(NODES, max_size=3, unique_by=lambda t: t.name).map(tuple),
    st.lists(EDGES, max_size=2, unique_by=lambda t: t.name).map(tuple),
    st.lists(st.builds(InterfaceType, NAMES, PROPERTIES, CONSTRAINTS, ANNOTATIONS), max_size=2).map(
        tuple
    ),
)
