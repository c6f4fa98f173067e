"""Query parameters from the command line: `--params` as JSON, `--param name=value` as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.cli.source_files import read_source
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from omnigraph.query.params import ParameterDecl


def read_params(
    given: str | None, pairs: Sequence[str] | None, declared: Iterable[ParameterDecl]
) -> dict[str, Any]:
    """All parameters; what `--param` says in text is read by the type the query declares."""
    values = _from_json(given) if given is not None else {}
    types = {parameter.name: parameter for parameter in declared}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        name = name.removeprefix("$")
        if not equals or not name:
            raise InvalidArgument(f"--param {pair!r}: write it as name=value", parameter=name)
        if name in values:
            raise InvalidArgument(f"parameter ${name} is given twice", parameter=name)
        values[name] = _from_text(text, types.get(name))
    return values


def _from_text(text: str, parameter: ParameterDecl | None) -> Any:
    """Texts and moments as they are; numbers, booleans and lists as JSON writes them."""
    from omnigraph.values.scalars import TEMPORAL_KINDS, BlobType, ScalarKind, ScalarType

    if parameter is None or isinstance(parameter.type, BlobType):
        return text
    kind = parameter.type.kind if isinstance(parameter.type, ScalarType) else None
    if kind is ScalarKind.STRING:
        return text
    if text == "null" and parameter.optional:
        return None
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text  # binding says which type was expected
    return text if kind in TEMPORAL_KINDS and not isinstance(value, int) else value


def _from_json(given: str) -> dict[str, Any]:
    name, text = "--params", given
    if given.startswith("@"):
        source = read_source(given[1:])
        name, text = source.file, source.text
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidArgument(
            f"{name}:{error.lineno}:{error.colno}: this is not JSON: {error.msg}",
            line=error.lineno,
            column=error.colno,
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name}: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArgument(f'{name}: parameters are a JSON object like {{"name": "Ada"}}')
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is given twice")
        found[name] = value
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")
