"""What typer says about a wrong command line, in the words of the rest."""

from __future__ import annotations

from typing import Any

import typer


def clarify(error: typer.TyperException) -> None:
    """Rewrite the message of an error that is about to be shown."""
    details = getattr(error.__cause__, "errors", None)
    if details is not None:
        first = details()[0]
        error.message = _of_value(first) or error.message
        return
    command = getattr(getattr(error, "ctx", None), "command", None)
    if command is not None and "unexpected extra argument" in error.message:
        names = {parameter.name for parameter in command.params}
        options = [("query", "-q FILE"), ("data", "--data FILE"), ("store", "--store URI")]
        wanted = [option for name, option in options if name in names]
        if wanted:
            error.message += f"; name files and graphs with {', '.join(wanted)}"


def _of_value(found: dict[str, Any]) -> str | None:
    """A value that does not fit its option, as pydantic reports it."""
    given, context = found["input"], found.get("ctx", {})
    match found["type"]:
        case "value_error":
            return f"{context['error']}"
        case "int_parsing" | "int_from_float":
            return f"{given!r} is not a whole number"
        case "float_parsing":
            return f"{given!r} is not a number"
        case "greater_than_equal":
            return f"{given} is less than {context['ge']:g}"
        case "less_than_equal":
            return f"{given} is more than {context['le']:,}"
        case _:
            return None
