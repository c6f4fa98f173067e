"""Values of results in the JSON forms that data files use."""

from __future__ import annotations

import base64
import datetime as dt
import math
from typing import Any

from omnigraph.values.temporal import write_moment


def json_form(value: Any) -> Any:
    """What `json` itself cannot write."""
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
        case set() | frozenset() | tuple():
            return list(value)
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
