"""Every code the query language reports, and what it means."""

from __future__ import annotations

SYNTAX = "Q000"
UNKNOWN_NODE_TYPE = "T1"
UNKNOWN_BINDING_PROPERTY = "T2"
BINDING_VALUE = "T3"
UNKNOWN_EDGE = "T4"
ENDPOINT_TYPE = "T5"
UNBOUND = "T6"
OPERAND_TYPES = "T7"
AGGREGATE_OPERAND = "T8"
SHAPE = "T9"
MUTATION_TYPE = "T10"
MUTATION_PROPERTY = "T11"
REQUIRED_MISSING = "T12"
DUPLICATE = "T13"
MUTATION_VARIABLE = "T14"
HOPS_OR_NEAREST = "T15"
NEAREST_LIMIT = "T17"
TEXT_ARGUMENTS = "T19"
BM25_ARGUMENTS = "T20"
RRF_LIMIT = "T21"
UNDIRECTED = "T22"
EDGE_BINDING = "T23"
BLOB_VALUE = "T24"

NEVER_UPDATED = "L201"
HARD_CODED = "L202"
UNUSED_PARAMETER = "L203"
UNUSED_BINDING = "L204"
CARTESIAN = "L205"
UNINDEXED_SEARCH = "L206"

MEANINGS = {
    SYNTAX: "the text does not follow the grammar, or calls a function that does not exist",
    UNKNOWN_NODE_TYPE: "unknown node type or interface in a binding",
    UNKNOWN_BINDING_PROPERTY: "unknown property in a binding",
    BINDING_VALUE: "a value of the wrong type in a binding",
    UNKNOWN_EDGE: "unknown edge",
    ENDPOINT_TYPE: "the edge does not connect these types",
    UNBOUND: "variable or column not bound, or property not there",
    OPERAND_TYPES: "operands of the wrong type",
    AGGREGATE_OPERAND: "an aggregate cannot work on this operand",
    SHAPE: "aggregate, negation, exists or ordering in a place where it is not allowed",
    MUTATION_TYPE: "unknown type in a mutation, or nothing assigned",
    MUTATION_PROPERTY: "a property a mutation cannot set, or a value of the wrong type",
    REQUIRED_MISSING: "an insert without a required property or endpoint",
    DUPLICATE: "a property assigned twice, or two result columns of one name",
    MUTATION_VARIABLE: "a variable in a mutation that is no parameter",
    HOPS_OR_NEAREST: "wrong hop bounds, or wrong arguments of nearest",
    "T16": "unused: edge updates are legal here",
    NEAREST_LIMIT: "ordering by nearest without a limit",
    "T18": "unused",
    TEXT_ARGUMENTS: "wrong arguments of search, fuzzy or match_text",
    BM25_ARGUMENTS: "wrong arguments of bm25",
    RRF_LIMIT: "ordering by rrf without a limit, or wrong arguments of rrf",
    UNDIRECTED: "an undirected hop over an edge whose endpoints differ in type",
    EDGE_BINDING: "an edge or path variable in a place where it is not allowed",
    BLOB_VALUE: "a blob used as a value",
    NEVER_UPDATED: "a nullable property that no update in the file ever sets",
    HARD_CODED: "a mutation without parameters",
    UNUSED_PARAMETER: "a parameter nothing uses",
    UNUSED_BINDING: "a variable nothing uses",
    CARTESIAN: "patterns that nothing connects: every row of one meets every row of the other",
    UNINDEXED_SEARCH: "search over a property without @index: correct, but a scan",
}
