"""From constraint annotations to catalog constraints, checked against the properties they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from omnigraph.catalog.model import (
    ENDPOINT_COLUMNS,
    SOURCE,
    TARGET,
    Cardinality,
    Check,
    Constraint,
    Index,
    Key,
    Property,
    Range,
    Unique,
)
from omnigraph.errors import InvalidArgument
from omnigraph.schema import ast, codes
from omnigraph.syntax.diagnostics import Diagnostics
from omnigraph.values.coercion import coerce
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.scalars import (
    NUMERIC_KINDS,
    TEMPORAL_KINDS,
    BlobType,
    ListType,
    ScalarKind,
    ScalarType,
    VectorType,
)

PROPERTY_CONSTRAINTS = frozenset({"key", "unique", "index"})


@dataclass(frozen=True, slots=True)
class Body:
    """The type that a constraint belongs to, with its properties."""

    owner: str
    properties: Mapping[str, Property]
    on_edge: bool


def build_constraints(
    members: tuple[ast.Member, ...], body: Body, found: Diagnostics
) -> tuple[Constraint, ...]:
    """All constraints in the order of the text, also those that are written after a property."""
    built: list[Constraint] = []
    for annotation in _written(members):
        constraint = _BUILDERS[annotation.name](annotation, body, found)
        if constraint is None:
            continue
        if constraint in built:
            found.error(
                codes.DUPLICATE_CONSTRAINT, f"@{annotation.name} is given twice", annotation.span
            )
        else:
            built.append(constraint)
    return tuple(built)


def build_cardinality(
    annotations: tuple[ast.SchemaAnnotation, ...], found: Diagnostics
) -> Cardinality | None:
    written = [a for a in annotations if a.name == "card"]
    if not written:
        return None
    for extra in written[1:]:
        found.error(codes.DUPLICATE_CONSTRAINT, "@card is given twice", extra.span)
    card = written[0]
    bounds = card.arguments[0].value if len(card.arguments) == 1 else None
    if not isinstance(bounds, ast.RangeValue) or not _whole(bounds):
        found.error(
            codes.BAD_ARGUMENTS, "@card takes whole numbers", card.span, "write `@card(0..5)`"
        )
        return None
    minimum, maximum = int(bounds.minimum or 0), bounds.maximum
    if minimum < 0 or (maximum is not None and int(maximum) < max(minimum, 1)):
        found.error(codes.BAD_BOUNDS, f"no source can have {_spell(bounds)} edges", card.span)
        return None
    return Cardinality(minimum, None if maximum is None else int(maximum))


def _whole(bounds: ast.RangeValue) -> bool:
    return all(type(b) is int or b is None for b in (bounds.minimum, bounds.maximum))


def _spell(bounds: ast.RangeValue) -> str:
    low = "" if bounds.minimum is None else bounds.minimum
    return f"{low}..{'' if bounds.maximum is None else bounds.maximum}"


def _written(members: tuple[ast.Member, ...]) -> list[ast.SchemaAnnotation]:
    """All constraints in one form: `x: T @key` becomes `@key(x)`."""
    out: list[ast.SchemaAnnotation] = []
    for member in members:
        if isinstance(member, ast.SchemaAnnotation):
            out.append(member)
            continue
        for annotation in member.annotations:
            if annotation.name in PROPERTY_CONSTRAINTS:
                argument = ast.Argument(ast.NameValue(member.name.text), span=annotation.span)
                out.append(ast.SchemaAnnotation(annotation.name, (argument,), annotation.span))
    return out


def _named(
    annotation: ast.SchemaAnnotation, body: Body, found: Diagnostics
) -> tuple[str, ...] | None:
    """The properties of a constraint that names only properties; an index has options too."""
    names: list[str] = []
    for argument in annotation.arguments:
        if argument.option is not None and annotation.name == "index":
            continue
        name = _property_name(argument, annotation, body, found)
        if name is None:
            return None
        if name in names:
            found.error(codes.DUPLICATE_CONSTRAINT, f"'{name}' is named twice", argument.span)
            return None
        names.append(name)
    return tuple(names)


def _property_name(
    argument: ast.Argument, annotation: ast.SchemaAnnotation, body: Body, found: Diagnostics
) -> str | None:
    value = argument.value
    name = value.text if isinstance(value, ast.NameValue) else value
    if not isinstance(name, str) or argument.option is not None:
        found.error(
            codes.BAD_ARGUMENTS,
            f"@{annotation.name} names properties",
            argument.span,
            _SHAPES[annotation.name],
        )
        return None
    if body.on_edge and name in ENDPOINT_COLUMNS:
        return ENDPOINT_COLUMNS[name]
    if name not in body.properties:
        found.error(
            codes.UNKNOWN_PROPERTY,
            f"{body.owner} has no property '{name}'",
            argument.span,
            did_you_mean(name, body.properties),
        )
        return None
    return name


def _key(annotation: ast.SchemaAnnotation, body: Body, found: Diagnostics) -> Constraint | None:
    names = _named(annotation, body, found)
    if names is None:
        return None
    ends = (SOURCE, TARGET) if body.on_edge else ()
    if any(end not in names for end in ends):
        found.error(
            codes.MISPLACED,
            "the key of an edge names both ends",
            annotation.span,
            "write `@key(src, dst)`, with more properties if parallel edges are different",
        )
        return None
    members = sorted(name for name in names if name not in ends)
    for name in members:
        declared = body.properties[name]
        if isinstance(declared.type, (BlobType, VectorType, ListType)) or declared.nullable:
            what = "nullable" if declared.nullable else f"a {declared.type}"
            found.error(
                codes.NOT_ELIGIBLE, f"'{name}' is {what} and cannot be a key", annotation.span
            )
            return None
    # Sorted, because ids must not depend on the order of declaration.
    return Key((*ends, *members))


def _unique(annotation: ast.SchemaAnnotation, body: Body, found: Diagnostics) -> Constraint | None:
    names = _named(annotation, body, found)
    if names is None or not _eligible(names, (BlobType, VectorType), annotation, body, found):
        return None
    return Unique(names)


def _index(annotation: ast.SchemaAnnotation, body: Body, found: Diagnostics) -> Constraint | None:
    names = _named(annotation, body, found)
    if names is None or not _eligible(names, (BlobType,), annotation, body, found):
        return None
    call = next((a for a in annotation.arguments if isinstance(a.value, ast.CallValue)), None)
    if call is not None:
        found.error(codes.BAD_ARGUMENTS, "@index takes no function", call.span, _SHAPES["index"])
        return None
    options = tuple(
        (a.option, a.value.text if isinstance(a.value, ast.NameValue) else a.value)
        for a in annotation.arguments
        if a.option is not None
        and not isinstance(a.value, ast.RangeValue | ast.CallValue)
        and a.value is not None
    )
    for option, value in options:
        rule = _INDEX_OPTIONS.get(option)
        if rule is not None and not rule.allows(value):
            found.error(codes.BAD_ARGUMENTS, f"{option} is {rule.expected}", annotation.span)
            return None
    return Index(names, options)


@dataclass(frozen=True, slots=True)
class _OptionRule:
    """Which values an option of `@index` allows, and how a message describes them."""

    allows: Callable[[object], bool]
    expected: str


# The options that index builds use; other options are kept without a check.
_INDEX_OPTIONS: dict[str, _OptionRule] = {
    "recall": _OptionRule(
        lambda v: isinstance(v, int | float) and not isinstance(v, bool) and 0 < v <= 1,
        "the share of true neighbours to find, above 0 and at most 1",
    ),
    "contains": _OptionRule(lambda v: isinstance(v, bool), "true or false"),
}


def _eligible(
    names: tuple[str, ...],
    refused: tuple[type, ...],
    annotation: ast.SchemaAnnotation,
    body: Body,
    found: Diagnostics,
) -> bool:
    for name in names:
        declared = body.properties.get(name)
        if declared is not None and isinstance(declared.type, refused):
            found.error(
                codes.NOT_ELIGIBLE,
                f"'{name}' is a {declared.type} and cannot be @{annotation.name}",
                annotation.span,
            )
            return False
    return True


def _range(annotation: ast.SchemaAnnotation, body: Body, found: Diagnostics) -> Constraint | None:
    declared = _subject(annotation, body, found)
    if declared is None:
        return None
    bounds = annotation.arguments[1].value
    kind = declared.type.kind if isinstance(declared.type, ScalarType) else None
    if kind not in NUMERIC_KINDS | TEMPORAL_KINDS:
        found.error(
            codes.NOT_ELIGIBLE,
            f"'{declared.name}' is {declared.type}; @range is for numbers, dates and moments",
            annotation.span,
        )
        return None
    if not isinstance(bounds, ast.RangeValue):
        found.error(codes.BAD_ARGUMENTS, "@range takes bounds", annotation.span, _SHAPES["range"])
        return None
    return _checked_range(declared, bounds, annotation, found)


def _checked_range(
    declared: Property, bounds: ast.RangeValue, annotation: ast.SchemaAnnotation, found: Diagnostics
) -> Range | None:
    values = []
    for bound in (bounds.minimum, bounds.maximum):
        try:
            values.append(None if bound is None else coerce(bound, declared.type))
        except InvalidArgument as error:
            found.error(codes.BAD_BOUNDS, f"bound of '{declared.name}': {error}", annotation.span)
            return None
    low, high = values
    if low is not None and high is not None and low > high:
        found.error(
            codes.BAD_BOUNDS, f"{bounds.minimum} is above {bounds.maximum}", annotation.span
        )
        return None
    return Range(declared.name, bounds.minimum, bounds.maximum)


def _check(annotation: ast.SchemaAnnotation, body: Body, found: Diagnostics) -> Constraint | None:
    declared = _subject(annotation, body, found)
    if declared is None:
        return None
    pattern = annotation.arguments[1].value
    if declared.type != ScalarType(ScalarKind.STRING):
        found.error(
            codes.NOT_ELIGIBLE,
            f"'{declared.name}' is {declared.type}; @check is for String",
            annotation.span,
        )
        return None
    if not isinstance(pattern, str):
        found.error(
            codes.BAD_ARGUMENTS, "@check takes a pattern", annotation.span, _SHAPES["check"]
        )
        return None
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        found.error(codes.BAD_PATTERN, f"not a regular expression: {error}", annotation.span)
        return None
    return Check(declared.name, pattern)


def _subject(annotation: ast.SchemaAnnotation, body: Body, found: Diagnostics) -> Property | None:
    """The property that a `@range` or `@check` applies to."""
    if body.on_edge:
        found.error(codes.MISPLACED, f"@{annotation.name} is for nodes, not edges", annotation.span)
        return None
    if len(annotation.arguments) != 2 or annotation.arguments[1].option is not None:
        found.error(
            codes.BAD_ARGUMENTS,
            f"@{annotation.name} takes a property and one more argument",
            annotation.span,
            _SHAPES[annotation.name],
        )
        return None
    name = _property_name(annotation.arguments[0], annotation, body, found)
    return None if name is None else body.properties[name]


_SHAPES = {
    "key": "write `@key(email)`",
    "unique": "write `@unique(name, age)`",
    "index": "write `@index(bio)`",
    "range": "write `@range(age, 0..150)`, open ends as `0..` or `..150`",
    "check": 'write `@check(email, "^[^@]+@[^@]+$")`',
}

_BUILDERS: dict[str, Callable[[ast.SchemaAnnotation, Body, Diagnostics], Constraint | None]] = {
    "key": _key,
    "unique": _unique,
    "index": _index,
    "range": _range,
    "check": _check,
}
