"""Property declarations -> catalog properties, their types and annotations checked."""

from __future__ import annotations

from omnigraph.catalog.model import Annotation, Literal, Property
from omnigraph.errors import InvalidArgument
from omnigraph.schema import ast, codes
from omnigraph.syntax.diagnostics import Findings
from omnigraph.values.coercion import coerce
from omnigraph.values.identifiers import RESERVED_PROPERTIES
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.scalars import (
    MAX_VECTOR_WIDTH,
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

PROPERTY_CONSTRAINTS = frozenset({"key", "unique", "index"})
_BODY_ONLY = frozenset({"range", "check", "card"})
_SCALARS = {kind.value: kind for kind in ScalarKind}
_TYPE_NAMES = [*_SCALARS, "Blob", "Vector", "enum"]
# An edge's endpoints are written `from` and `to` wherever its properties are written.
_ENDPOINT_WORDS = frozenset({"from", "to"})


def build_properties(
    members: tuple[ast.Member, ...], on_edge: bool, found: Findings
) -> list[tuple[Property, ast.PropertyDecl]]:
    """The properties a body declares, each with its declaration for later messages."""
    built: dict[str, tuple[Property, ast.PropertyDecl]] = {}
    for member in members:
        if not isinstance(member, ast.PropertyDecl):
            continue
        name = member.name.text
        if name in built:
            found.error(codes.DUPLICATE_PROPERTY, f"'{name}' is declared twice", member.name.span)
            continue
        _check_name(member.name, on_edge, found)
        value_type = resolve_type(member.type, found)
        if value_type is not None:
            built[name] = (_build_property(member, value_type, found), member)
    return list(built.values())


def resolve_type(ref: ast.TypeRef, found: Findings) -> ValueType | None:
    if ref.values:
        return _enum(ref, found)
    if ref.width is not None:
        return _vector(ref, found)
    if ref.base == "Blob" and not ref.is_list:
        return BlobType()
    if ref.base == "Vector":
        found.error(codes.BAD_TYPE, "a vector needs its width", ref.span, "write `Vector(256)`")
        return None
    kind = _SCALARS.get(ref.base)
    if kind is None:
        found.error(
            codes.UNKNOWN_TYPE if ref.base != "Blob" else codes.BAD_TYPE,
            f"there is no property type '{ref.base}'"
            if ref.base != "Blob"
            else "a list holds scalars, not blobs",
            ref.span,
            did_you_mean(ref.base, _TYPE_NAMES) if ref.base != "Blob" else None,
        )
        return None
    return ListType(kind) if ref.is_list else ScalarType(kind)


def _enum(ref: ast.TypeRef, found: Findings) -> ValueType | None:
    twice = sorted({value for value in ref.values if ref.values.count(value) > 1})
    if twice:
        found.error(codes.BAD_TYPE, f"enum value '{twice[0]}' is listed twice", ref.span)
        return None
    return EnumType(ref.values)


def _vector(ref: ast.TypeRef, found: Findings) -> ValueType | None:
    width = ref.width or 0
    if not 1 <= width <= MAX_VECTOR_WIDTH:
        found.error(
            codes.BAD_TYPE,
            f"a vector has 1 to {MAX_VECTOR_WIDTH} dimensions, not {width}",
            ref.span,
        )
        return None
    return VectorType(width)


def _check_name(name: ast.Name, on_edge: bool, found: Findings) -> None:
    reserved = RESERVED_PROPERTIES | (_ENDPOINT_WORDS if on_edge else frozenset())
    if name.text in reserved or name.text.startswith("__"):
        found.error(
            codes.RESERVED_NAME,
            f"'{name.text}' is reserved",
            name.span,
            "the engine keeps id, src, dst, from and to itself"
            if not name.text.startswith("_")
            else "names of the engine start with '_row' or '__'",
        )


def _build_property(declared: ast.PropertyDecl, value_type: ValueType, found: Findings) -> Property:
    annotations = []
    seen: set[str] = set()
    for annotation in declared.annotations:
        if annotation.name in seen:
            found.error(
                codes.DUPLICATE_CONSTRAINT, f"@{annotation.name} is said twice", annotation.span
            )
        seen.add(annotation.name)
        if annotation.name in _BODY_ONLY:
            found.error(
                codes.MISPLACED,
                f"@{annotation.name} does not stand behind a property",
                annotation.span,
                "write `@card(0..5)` behind the edge's endpoints"
                if annotation.name == "card"
                else f"write `@{annotation.name}({declared.name.text}, …)` on a line of its own",
            )
        elif annotation.name not in PROPERTY_CONSTRAINTS:
            annotations.append(build_annotation(annotation))
            _check_known(annotation, declared, value_type, found)
    return Property(
        declared.name.text, value_type, declared.type.nullable, annotations=tuple(annotations)
    )


def build_annotation(annotation: ast.Annotation) -> Annotation:
    return Annotation(
        annotation.name,
        tuple(plain_value(a) for a in annotation.arguments if a.option is None),
        tuple((a.option, plain_value(a)) for a in annotation.arguments if a.option is not None),
    )


def plain_value(argument: ast.Argument) -> Literal:
    match argument.value:
        case ast.NameValue(text):
            return text
        case ast.RangeValue(minimum, maximum):
            low = "" if minimum is None else str(minimum)
            high = "" if maximum is None else str(maximum)
            return f"{low}..{high}"
        case literal:
            return literal


def _check_known(
    annotation: ast.Annotation, declared: ast.PropertyDecl, value_type: ValueType, found: Findings
) -> None:
    match annotation.name:
        case "default":
            _check_default(annotation, declared, value_type, found)
        case "rename_from" | "description" | "instruction":
            check_one_text(annotation, found)
        case "embed" if not isinstance(value_type, VectorType):
            found.error(
                codes.NOT_ELIGIBLE,
                f"@embed fills a vector, '{declared.name.text}' is {value_type}",
                annotation.span,
            )


def check_one_text(annotation: ast.Annotation, found: Findings) -> str | None:
    """The single text argument of `@rename_from`, `@description` and their like."""
    values = [a.value for a in annotation.arguments if a.option is None]
    if len(annotation.arguments) == 1 and len(values) == 1:
        value = values[0]
        if isinstance(value, str):
            return value
        if isinstance(value, ast.NameValue):
            return value.text
    found.error(
        codes.BAD_ARGUMENTS,
        f"@{annotation.name} takes one string",
        annotation.span,
        f'write `@{annotation.name}("…")`',
    )
    return None


def _check_default(
    annotation: ast.Annotation, declared: ast.PropertyDecl, value_type: ValueType, found: Findings
) -> None:
    name = declared.name.text
    if len(annotation.arguments) != 1 or annotation.arguments[0].option is not None:
        found.error(codes.BAD_ARGUMENTS, "@default takes one value", annotation.span)
        return
    value = plain_value(annotation.arguments[0])
    if value is None:
        if not declared.type.nullable:
            found.error(
                codes.BAD_DEFAULT,
                f"'{name}' is not nullable, so null is no default",
                annotation.span,
            )
        return
    if isinstance(value_type, (ListType, VectorType, BlobType)):
        found.error(
            codes.BAD_DEFAULT, f"a {value_type} has no literal, so no default", annotation.span
        )
        return
    try:
        coerce(value, value_type)
    except InvalidArgument as error:
        found.error(codes.BAD_DEFAULT, f"default of '{name}': {error.message}", annotation.span)
