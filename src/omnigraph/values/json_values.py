"""Values in the JSON forms that data files use; what is printed can be loaded again."""

from __future__ import annotations

import base64
import datetime as dt
import math
from typing import Any

from omnigraph.values.temporal import write_moment


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
