"""Property values in JSON: blobs as text, dates and moments in ISO form.

Data files and printed results use the same forms, so a printed result can be loaded again.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import math
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.values.temporal import write_moment

BLOB_PREFIX = "base64:"


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
    """One value that `json` itself cannot write; meant for `json.dumps(default=…)`."""
    match value:
        case dt.datetime():
            # Arrow returns moments without a zone; they are in UTC.
            return write_moment(value if value.tzinfo else value.replace(tzinfo=dt.UTC))
        case dt.date():
            return value.isoformat()
        case bytes():
            return write_blob(value)
        case _ if callable(getattr(value, "to_dict", None)):
            return value.to_dict()
        case set() | frozenset():
            return sorted(value)
        case _:
            return str(value)


def finite(value: Any) -> Any:
    """The same value with NaN and infinities as null, because JSON cannot write them."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: finite(item) for key, item in value.items()}
        case list() | tuple():
            return [finite(item) for item in value]
        case _:
            return value


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON as `load` reads it: RFC 3339 times, `base64:` bytes, finite numbers."""
    try:
        return json.dumps(
            value, ensure_ascii=False, indent=indent, default=json_form, allow_nan=False
        )
    except ValueError:
        return json.dumps(finite(value), ensure_ascii=False, indent=indent, default=json_form)


def parse_blob(text: str) -> bytes:
    """The bytes of a `base64:…` value. Any other text is refused as an external URI."""
    if not text.startswith(BLOB_PREFIX):
        shown = text if len(text) <= 60 else f"{text[:60]}…"
        raise InvalidArgument(
            f"a blob is written as {BLOB_PREFIX!r} and its bytes; {shown!r} would be an "
            "external URI, which this graph does not allow",
            uri=shown,
        )
    try:
        return base64.b64decode(text[len(BLOB_PREFIX) :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument(f"a blob's {BLOB_PREFIX!r} text is not base64: {error}") from None


def write_blob(content: bytes) -> str:
    """The `base64:…` text of these bytes; `parse_blob` reads it back."""
    return BLOB_PREFIX + base64.b64encode(content).decode("ascii")
