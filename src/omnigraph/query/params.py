"""Parameters of a query: their declared types, and given values converted to these types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.query import ast, codes
from omnigraph.syntax.diagnostics import Diagnostics
from omnigraph.values.coercion import coerce
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.regular_expressions import pattern_problem
from omnigraph.values.scalars import (
    INTEGER_BOUNDS,
    INTEGER_KINDS,
    MAX_VECTOR_WIDTH,
    BlobType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

_SCALARS = {kind.value: kind for kind in ScalarKind}
_PLAIN: dict[ScalarKind | None, type] = {ScalarKind.STRING: str, ScalarKind.BOOL: bool}


@dataclass(frozen=True, slots=True)
class ParameterDecl:
    """One declared parameter. An optional one may be left out; its value is then NULL."""

    name: str
    type: ValueType
    optional: bool
    plain: Any = field(init=False, repr=False, compare=False)
    """The Python type whose values need no conversion, or None.

    Integers must also be in `bounds`.
    """
    bounds: tuple[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kind = self.type.kind if isinstance(self.type, ScalarType) else None
        plain = _PLAIN.get(kind, int if kind in INTEGER_KINDS else None)
        object.__setattr__(self, "plain", plain)
        bounds = (0, 0) if kind is None else INTEGER_BOUNDS.get(kind, (0, 0))
        object.__setattr__(self, "bounds", bounds)

    def __str__(self) -> str:
        return f"${self.name}: {self.type}{'?' if self.optional else ''}"


def declare(query: ast.Query, found: Diagnostics) -> tuple[ParameterDecl, ...]:
    """The parameters of a query; an unknown type is reported."""
    declared = []
    for parameter in query.parameters:
        kind = _resolve(parameter.type, found)
        if kind is not None:
            declared.append(ParameterDecl(parameter.name.text, kind, parameter.type.nullable))
    return tuple(declared)


def _resolve(ref: ast.ParameterType, found: Diagnostics) -> ValueType | None:
    if ref.width is not None:
        if 1 <= ref.width <= MAX_VECTOR_WIDTH:
            return VectorType(ref.width)
        found.error(codes.SYNTAX, f"a vector has 1 to {MAX_VECTOR_WIDTH} dimensions", ref.span)
        return None
    if ref.base == "Blob" and not ref.is_list:
        return BlobType()
    kind = _SCALARS.get(ref.base)
    if kind is None:
        found.error(
            codes.SYNTAX,
            f"there is no parameter type '{ref.base}'",
            ref.span,
            did_you_mean(ref.base, [*_SCALARS, "Vector"]),
        )
        return None
    return ListType(kind) if ref.is_list else ScalarType(kind)


def bind(
    declared: tuple[ParameterDecl, ...],
    given: Mapping[str, object],
    patterns: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """A value for every parameter, converted to its type; errors name the parameter.

    The values of `patterns` must be regular expressions.
    """
    if not patterns and len(given) == len(declared):
        plain = _plain_values(declared, given)
        if plain is not None:
            return plain
    known = {parameter.name: parameter for parameter in declared}
    # A name with `$` is accepted too, because it is copied from the query text.
    values = {name.removeprefix("$"): value for name, value in given.items()}
    for name in values:
        if name not in known:
            hint = did_you_mean(name, known) or "this query takes none"
            raise InvalidArgument(f"unknown parameter ${name}; {hint}", parameter=name)
    bound = {name: _bind_one(parameter, values) for name, parameter in known.items()}
    for name in sorted(patterns):
        _check_pattern(known[name], bound[name])
    return bound


def _plain_values(
    declared: tuple[ParameterDecl, ...], given: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The given values, if none needs a conversion. A query that is repeated takes this path."""
    values = {}
    for parameter in declared:
        name, plain = parameter.name, parameter.plain
        value: Any = given.get(name)
        if plain is None or type(value) is not plain:
            return None
        if plain is int:
            low, high = parameter.bounds
            if not low <= value <= high:
                return None
        values[name] = value
    return values


def _check_pattern(parameter: ParameterDecl, value: str | None) -> None:
    problem = None if value is None else pattern_problem(value)
    if problem is not None:
        raise InvalidArgument(
            f"parameter {parameter}: this is not a regular expression: {problem}",
            parameter=parameter.name,
            expected="a regular expression (RE2)",
        )


def _bind_one(parameter: ParameterDecl, values: Mapping[str, object]) -> Any:
    value = values.get(parameter.name)
    if value is None:
        if parameter.optional:
            return None
        missing = parameter.name not in values
        raise InvalidArgument(
            f"parameter {parameter} is missing" if missing else f"parameter {parameter} is null",
            parameter=parameter.name,
            expected=str(parameter.type),
        )
    try:
        return coerce(value, parameter.type)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"parameter {parameter}: {error.message}",
            parameter=parameter.name,
            expected=str(parameter.type),
        ) from None
