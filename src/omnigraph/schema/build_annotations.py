"""From annotations to the annotations of the catalog, checked where they have a meaning."""

from __future__ import annotations

import re
from collections.abc import Callable

from omnigraph.catalog.model import GENERATED_KINDS, Annotation, GeneratedDefault
from omnigraph.errors import InvalidArgument
from omnigraph.schema import ast, codes
from omnigraph.schema.build_constraints import PROPERTY_CONSTRAINTS
from omnigraph.syntax.diagnostics import Diagnostics
from omnigraph.values.coercion import coerce
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    LiteralValue,
    ScalarType,
    ValueType,
    VectorType,
)

_BODY_ONLY = frozenset({"range", "check", "card"})
_IN_BODIES = frozenset({*PROPERTY_CONSTRAINTS, "range", "check", "default", "embed"})
_REPEATABLE = frozenset({"allow", "rename_value"})
_ONCE_ON_TYPES = frozenset({"description", "instruction", "rename_from", "protected"})
_STEP_CODE = re.compile(r"OG-[A-Z]{2}-[0-9]{3}")


def type_annotations(
    annotations: tuple[ast.SchemaAnnotation, ...], found: Diagnostics, on_edge: bool = False
) -> tuple[Annotation, ...]:
    """The annotations of a type that are neither constraints nor its cardinality."""
    kept = []
    seen: set[str] = set()
    for annotation in annotations:
        name = annotation.name
        if name == "card":
            if not on_edge:
                found.error(codes.MISPLACED, "@card is for edges", annotation.span)
            continue
        if name in _IN_BODIES:
            found.error(codes.MISPLACED, f"@{name} belongs in the body of a type", annotation.span)
            continue
        if name == "rename_value":
            found.error(
                codes.MISPLACED,
                "@rename_value follows a property whose type is an enum",
                annotation.span,
            )
            continue
        if name in seen & _ONCE_ON_TYPES:
            found.error(codes.DUPLICATE_CONSTRAINT, f"@{name} is given twice", annotation.span)
        seen.add(name)
        if _is_understood(annotation, found):
            kept.append(build_annotation(annotation))
    _refuse_repeats(annotations, "allow", found)
    return tuple(kept)


def property_annotations(
    declared: ast.PropertyDecl, value_type: ValueType, found: Diagnostics
) -> tuple[Annotation, ...]:
    """The annotations of a property that are not constraints."""
    kept = []
    seen: set[str] = set()
    for annotation in declared.annotations:
        name = annotation.name
        if name in seen - _REPEATABLE:
            found.error(codes.DUPLICATE_CONSTRAINT, f"@{name} is given twice", annotation.span)
        seen.add(name)
        if name in _BODY_ONLY:
            found.error(
                codes.MISPLACED,
                f"@{name} cannot follow a property",
                annotation.span,
                "write `@card(0..5)` after the edge's endpoints"
                if name == "card"
                else f"write `@{name}({declared.name.text}, …)` on a separate line",
            )
        elif name in PROPERTY_CONSTRAINTS:
            continue
        elif name == "default":
            _check_default(annotation, declared, value_type, found)
            kept.append(build_annotation(annotation))
        elif _is_understood(annotation, found):
            _check_subject(annotation, declared, value_type, found)
            kept.append(build_annotation(annotation))
    for name in _REPEATABLE:
        _refuse_repeats(declared.annotations, name, found)
    return tuple(kept)


def build_annotation(annotation: ast.SchemaAnnotation) -> Annotation:
    positional = [a for a in annotation.arguments if a.option is None]
    return Annotation(
        annotation.name,
        tuple(
            GeneratedDefault(a.value.function)
            if isinstance(a.value, ast.CallValue)
            else plain_value(a)
            for a in positional
        ),
        tuple((a.option, plain_value(a)) for a in annotation.arguments if a.option is not None),
    )


def plain_value(argument: ast.Argument) -> LiteralValue:
    match argument.value:
        case ast.NameValue(text):
            return text
        case ast.CallValue(function):
            return f"{function}()"
        case ast.RangeValue(minimum, maximum):
            low = "" if minimum is None else str(minimum)
            high = "" if maximum is None else str(maximum)
            return f"{low}..{high}"
        case literal:
            return literal


# --- annotations that types and properties have


def _is_understood(annotation: ast.SchemaAnnotation, found: Diagnostics) -> bool:
    """Whether the arguments are those of the annotation; an unknown one takes any literals."""
    call = next((a for a in annotation.arguments if isinstance(a.value, ast.CallValue)), None)
    if call is not None:
        found.error(
            codes.BAD_ARGUMENTS,
            f"@{annotation.name} takes no function",
            call.span,
            "functions are for `@default`; write a literal",
        )
        return False
    check = _ARGUMENTS.get(annotation.name)
    return check is None or check(annotation, found)


def _takes_one_text(annotation: ast.SchemaAnnotation, found: Diagnostics) -> bool:
    texts = _texts(annotation)
    if texts is not None and len(texts) == 1 and (texts[0] or annotation.name != "rename_from"):
        return True
    found.error(
        codes.BAD_ARGUMENTS,
        f"@{annotation.name} takes one string",
        annotation.span,
        f'write `@{annotation.name}("…")`',
    )
    return False


def _takes_nothing(annotation: ast.SchemaAnnotation, found: Diagnostics) -> bool:
    if annotation.arguments:
        found.error(
            codes.BAD_ARGUMENTS,
            f"@{annotation.name} takes no arguments",
            annotation.span,
            f"write `@{annotation.name}`",
        )
    return not annotation.arguments


def _takes_code_and_reason(annotation: ast.SchemaAnnotation, found: Diagnostics) -> bool:
    form = 'write `@allow(OG-DS-104, "why the data is not needed")`'
    texts = _texts(annotation)
    if texts is None or len(texts) != 2 or not isinstance(annotation.arguments[1].value, str):
        found.error(
            codes.BAD_ARGUMENTS,
            "@allow takes the code of a step and a reason in quotes",
            annotation.span,
            form,
        )
    elif not _STEP_CODE.fullmatch(texts[0]):
        found.error(
            codes.BAD_ARGUMENTS,
            f"'{texts[0]}' is not the code of a step, such as OG-DS-104",
            annotation.arguments[0].span,
            "`schema plan` shows the codes of every step",
        )
    elif not texts[1].strip():
        found.error(
            codes.BAD_ARGUMENTS,
            "the reason of @allow is empty",
            annotation.arguments[1].span,
            form,
        )
    else:
        return True
    return False


def _takes_two_values(annotation: ast.SchemaAnnotation, found: Diagnostics) -> bool:
    texts = _texts(annotation)
    if texts is None or len(texts) != 2:
        found.error(
            codes.BAD_ARGUMENTS,
            "@rename_value takes the old and the new value",
            annotation.span,
            'write `@rename_value("old", "new")`',
        )
        return False
    return True


_ARGUMENTS: dict[str, Callable[[ast.SchemaAnnotation, Diagnostics], bool]] = {
    "description": _takes_one_text,
    "instruction": _takes_one_text,
    "rename_from": _takes_one_text,
    "protected": _takes_nothing,
    "allow": _takes_code_and_reason,
    "rename_value": _takes_two_values,
}


def _texts(annotation: ast.SchemaAnnotation) -> list[str] | None:
    """The arguments, if all are strings or bare words without a name."""
    texts = []
    for argument in annotation.arguments:
        value = argument.value.text if isinstance(argument.value, ast.NameValue) else argument.value
        if argument.option is not None or not isinstance(value, str):
            return None
        texts.append(value)
    return texts


def _refuse_repeats(
    annotations: tuple[ast.SchemaAnnotation, ...], name: str, found: Diagnostics
) -> None:
    """Two annotations of this name about one code or one old value."""
    seen: set[str] = set()
    for annotation in annotations:
        texts = _texts(annotation) if annotation.name == name else None
        if not texts:
            continue
        if texts[0] in seen:
            found.error(
                codes.DUPLICATE_CONSTRAINT,
                f"@{name} of '{texts[0]}' is given twice",
                annotation.span,
            )
        seen.add(texts[0])


# --- annotations that depend on the property


def _check_subject(
    annotation: ast.SchemaAnnotation,
    declared: ast.PropertyDecl,
    value_type: ValueType,
    found: Diagnostics,
) -> None:
    if annotation.name == "embed" and not isinstance(value_type, VectorType):
        found.error(
            codes.NOT_ELIGIBLE,
            f"@embed fills a vector, '{declared.name.text}' is {value_type}",
            annotation.span,
        )
    if annotation.name == "rename_value":
        _check_renamed_value(annotation, declared, value_type, found)


def _check_renamed_value(
    annotation: ast.SchemaAnnotation,
    declared: ast.PropertyDecl,
    value_type: ValueType,
    found: Diagnostics,
) -> None:
    name = declared.name.text
    if not isinstance(value_type, EnumType):
        found.error(
            codes.NOT_ELIGIBLE,
            f"@rename_value is for enums, '{name}' is {value_type}",
            annotation.span,
        )
        return
    old, new = (str(plain_value(argument)) for argument in annotation.arguments)
    if new not in value_type.values:
        found.error(
            codes.BAD_ARGUMENTS,
            f"'{new}' is not a value of '{name}'",
            annotation.arguments[1].span,
            did_you_mean(new, value_type.values),
        )
    if old in value_type.values:
        found.error(
            codes.BAD_ARGUMENTS,
            f"'{old}' is still a value of '{name}', so it cannot be renamed",
            annotation.arguments[0].span,
            f"remove '{old}' from the enum, or remove this annotation",
        )


def _check_default(
    annotation: ast.SchemaAnnotation,
    declared: ast.PropertyDecl,
    value_type: ValueType,
    found: Diagnostics,
) -> None:
    name = declared.name.text
    if len(annotation.arguments) != 1 or annotation.arguments[0].option is not None:
        found.error(codes.BAD_ARGUMENTS, "@default takes one value", annotation.span)
        return
    given = annotation.arguments[0]
    if isinstance(given.value, ast.CallValue):
        _check_generated(given, given.value.function, declared, value_type, found)
        return
    value = plain_value(given)
    if value is None:
        if not declared.type.nullable:
            found.error(
                codes.BAD_DEFAULT,
                f"'{name}' is not nullable, so its default cannot be null",
                annotation.span,
            )
        return
    if isinstance(value_type, (ListType, VectorType, BlobType)):
        found.error(
            codes.BAD_DEFAULT,
            f"a {value_type} has no literal, so it cannot have a default",
            annotation.span,
        )
        return
    try:
        coerce(value, value_type)
    except InvalidArgument as error:
        is_function = isinstance(given.value, ast.NameValue) and value in GENERATED_KINDS
        found.error(
            codes.BAD_DEFAULT,
            f"default of '{name}': {error.message}",
            annotation.span,
            f"a function is written `@default({value}())`" if is_function else None,
        )


def _check_generated(
    given: ast.Argument,
    function: str,
    declared: ast.PropertyDecl,
    value_type: ValueType,
    found: Diagnostics,
) -> None:
    kinds = GENERATED_KINDS.get(function)
    if kinds is None:
        found.error(
            codes.BAD_DEFAULT,
            f"there is no function '{function}()'",
            given.span,
            did_you_mean(function, GENERATED_KINDS),
        )
    elif not isinstance(value_type, ScalarType) or value_type.kind not in kinds:
        made = " or ".join(sorted(kind.value for kind in kinds))
        found.error(
            codes.BAD_DEFAULT,
            f"default of '{declared.name.text}': {function}() makes a {made}, not {value_type}",
            given.span,
            f"declare '{declared.name.text}' as {made}, or write a literal",
        )
