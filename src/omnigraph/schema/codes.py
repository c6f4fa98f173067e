"""Every code the schema language reports, and what it means."""

from __future__ import annotations

SYNTAX = "S000"
DUPLICATE_TYPE = "S001"
DUPLICATE_PROPERTY = "S002"
UNKNOWN_TYPE = "S003"
RESERVED_NAME = "S004"
BAD_TYPE = "S005"
UNKNOWN_PROPERTY = "S006"
MISPLACED = "S007"
NOT_ELIGIBLE = "S008"
BAD_BOUNDS = "S009"
BAD_PATTERN = "S010"
BAD_DEFAULT = "S011"
INTERFACE_CONFLICT = "S012"
DUPLICATE_CONSTRAINT = "S013"
BAD_ARGUMENTS = "S014"

MEANINGS = {
    SYNTAX: "the text does not follow the grammar",
    DUPLICATE_TYPE: "two types share a name (edge names also when only case differs)",
    DUPLICATE_PROPERTY: "two properties of one type share a name",
    UNKNOWN_TYPE: "an endpoint, interface or property type is not declared",
    RESERVED_NAME: "the engine uses this property name itself",
    BAD_TYPE: "a property type is wrong (vector width, repeated enum value, list of lists)",
    UNKNOWN_PROPERTY: "a constraint or annotation names a property that is not there",
    MISPLACED: "this constraint does not belong here "
    "(`@key` on an edge without its ends, `@card` on a node)",
    NOT_ELIGIBLE: "this property's type cannot carry the constraint",
    BAD_BOUNDS: "a range or cardinality that cannot hold",
    BAD_PATTERN: "the regular expression of a `@check` cannot be compiled",
    BAD_DEFAULT: "the `@default` is no value of the property's type",
    INTERFACE_CONFLICT: "a property differs from the interface's, or two interfaces disagree",
    DUPLICATE_CONSTRAINT: "given twice: a second key, cardinality or equal constraint",
    BAD_ARGUMENTS: "an annotation with arguments it does not take",
}
