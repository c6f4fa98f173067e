"""The arguments of a tool: their JSON Schema, and the check of what a model sends.

The SDK does not check arguments. An error names the argument, what was expected, and the names that
exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.values.coercion import describe
from omnigraph.values.known_names import did_you_mean

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
FLAG: Json = {"type": "boolean"}
OBJECT: Json = {"type": "object"}
TEXTS: Json = {"type": "array", "items": {"type": "string"}}
OBJECTS: Json = {"type": "array", "items": {"type": "object"}}

_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list, tuple),
    "object": (dict,),
}
_LONGEST_KEY = 128


def choice(*values: str) -> Json:
    return {"type": "string", "enum": list(values)}


def count(most: int, least: int = 1) -> Json:
    return {"type": "integer", "minimum": least, "maximum": most}


@dataclass(frozen=True, slots=True)
class ToolArgument:
    """One argument of a tool."""

    name: str
    schema: Json
    description: str
    required: bool = False
    default: Any = None
    checked: bool = True
    """False for a parameter of a query, which the query checks by its declared type."""


def input_schema(arguments: Sequence[ToolArgument]) -> Json:
    """The JSON Schema of a tool; arguments that it does not name are refused."""
    properties = {}
    for argument in arguments:
        told = {"description": argument.description} if argument.description else {}
        default = {} if argument.default is None else {"default": argument.default}
        properties[argument.name] = {**argument.schema, **told, **default}
    found: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [argument.name for argument in arguments if argument.required]
    return {**found, "required": required} if required else found


def check_arguments(
    tool: str, arguments: Sequence[ToolArgument], given: Mapping[str, Any] | None
) -> Json:
    """Every argument by name, with defaults; raises `InvalidArgument`."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidArgument(f"the arguments of {tool} are a JSON object, not {describe(given)}")
    known = {argument.name: argument for argument in arguments}
    sent = dict(given or {})
    for name in sent:
        if name not in known:
            hint = did_you_mean(name, known) or "it takes none"
            raise InvalidArgument(f"{tool} has no argument '{name}'; {hint}", option=name)
    found: Json = {}
    for argument in arguments:
        value = sent.get(argument.name)
        if value is None:
            if argument.required:
                raise InvalidArgument(_missing(tool, argument, sent), option=argument.name)
            value = argument.default
        elif argument.checked:
            problem = _problem(value, argument.schema)
            if problem is not None:
                raise InvalidArgument(
                    f"argument '{argument.name}' of {tool}: {problem}", option=argument.name
                )
        found[argument.name] = value
    return found


def check_key(key: str | None) -> str | None:
    """An idempotency key: at most 128 visible ASCII characters, as over HTTP."""
    if key is None:
        return None
    if not 1 <= len(key) <= _LONGEST_KEY or not all("!" <= letter <= "~" for letter in key):
        raise InvalidArgument(
            f"idempotency_key is 1 to {_LONGEST_KEY} visible ASCII characters", option="key"
        )
    return key


def _missing(tool: str, argument: ToolArgument, sent: Json) -> str:
    kind = "null" if argument.name in sent else "missing"
    wanted = argument.description.partition(".")[0] or argument.schema.get("type", "a value")
    return f"{tool} needs '{argument.name}', which is {kind}: {wanted}"


def _problem(value: Any, schema: Json) -> str | None:
    kind = schema.get("type")
    if kind is None:
        return None
    fits = isinstance(value, _KINDS[kind]) and isinstance(value, bool) == (kind == "boolean")
    if not fits:
        return f"{_shown(value)} is not {_article(kind)}"
    if "enum" in schema and value not in schema["enum"]:
        hint = did_you_mean(str(value), schema["enum"]) or ""
        listed = ", ".join(schema["enum"])
        close = f"; {hint}" if hint.startswith("did you mean") else ""
        return f"{_shown(value)} is none of {listed}{close}"
    if kind == "integer":
        least, most = schema.get("minimum"), schema.get("maximum")
        if (least is not None and value < least) or (most is not None and value > most):
            return f"{value} is not between {least} and {most}"
    if kind == "array" and "items" in schema:
        for place, item in enumerate(value):
            problem = _problem(item, schema["items"])
            if problem is not None:
                return f"item {place}: {problem}"
    return None


def _article(kind: str) -> str:
    names = {"integer": "an integer", "array": "a list", "object": "an object"}
    return names.get(kind, f"a {kind}")


def _shown(value: Any) -> str:
    if isinstance(value, str | int | float | bool | list | dict | None):
        return describe(value)
    return json.dumps(value, default=str)[:40]
