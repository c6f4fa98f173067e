"""Values in the JSON forms that data files use; what is printed can be loaded again."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.values.temporal import write_moment

MANAGED = "base64:"


def parse_blob(text: str) -> bytes:
    """The bytes of a managed `base64:…` value; an external URI is refused with the way out."""
    if not text.startswith(MANAGED):
        shown = text if len(text) <= 60 else f"{text[:60]}…"
        raise InvalidArgument(
            f"a blob is written as {MANAGED!r} and its bytes; {shown!r} would be an external URI, "
            "which this graph does not allow",
            uri=shown,
        )
    try:
        return base64.b64decode(text[len(MANAGED) :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument(f"a blob's {MANAGED!r} text is not base64: {error}") from None


def write_blob(content: bytes) -> str:
    """The managed text of these bytes; `parse_blob` reads it back."""
    return MANAGED + base64.b64encode(content).decode("ascii")


def json_value(value: Any) -> Any:
    """A property value in JSON: moments in RFC 3339, bytes as `base64:…`."""
    match value:
        case list() | tuple():
            return [json_value(item) for item in value]
        case dict():
            return {name: json_value(item) for name, item in value.items()}
        case dt.date() | bytes():
            return json_form(value)
        case _:
            return value


def json_form(value: Any) -> Any:
    """One value that `json` itself cannot write; fit for `json.dumps(default=…)`."""
    match value:
        case dt.datetime():
            # Arrow gives moments without a zone; they are UTC.
            return write_moment(value if value.tzinfo else value.replace(tzinfo=dt.UTC))
        case dt.date():
            return value.isoformat()
        case bytes():
            return "base64:" + base64.b64encode(value).decode("ascii")
        case _ if callable(getattr(value, "to_dict", None)):
            return value.to_dict()
        case set() | frozenset():
            return sorted(value)
        case _:
            return str(value)


def finite(value: Any) -> Any:
    """The same value with NaN and infinities, for which JSON has no word, as null."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: finite(item) for key, item in value.items()}
        case list() | tuple():
            return [finite(item) for item in value]
        case _:
            return value
