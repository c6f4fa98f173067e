"""Property values in JSON: blobs as text, dates and moments in ISO form.

Data files and printed results use the same forms, so a printed result can be loaded again.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

from omnigraph.values.blob_values import write_blob
from omnigraph.values.temporal import write_moment


def json_value(value: Any) -> Any:
    """A property value in JSON: moments in RFC 3339, bytes as `base64:…` or an external URI."""
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


def utf8_form(value: Any) -> Any:
    r"""The same value with `\udXXX` for half of a surrogate pair, because UTF-8 cannot write it."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {utf8_form(key): utf8_form(item) for key, item in value.items()}
        case list() | tuple():
            return [utf8_form(item) for item in value]
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
