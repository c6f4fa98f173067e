"""Property values in JSON with a note of the types that JSON does not have.

Dates, moments and blobs are texts in JSON. The note says which texts they are, so that the reader
gets the values that the writer had. Readers that do not know the note see ordinary JSON.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from omnigraph.values.blob_values import parse_blob
from omnigraph.values.json_values import finite, json_value
from omnigraph.values.temporal import parse_moment

NOTE = "value_types"
"""The member of a JSON object that has the note of its values."""

Note = str | dict[str, Any]

_DATE, _MOMENT, _BLOB = "date", "datetime", "blob"
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def plain_value(value: Any) -> Any:
    """The value in JSON: moments in RFC 3339, bytes as `base64:…`, no NaN."""
    return finite(json_value(value))


def note_of(value: Any) -> Note | None:
    """What JSON does not say about this value; None if it says everything."""
    match value:
        case dt.datetime():
            return _MOMENT
        case dt.date():
            return _DATE
        case bytes():
            return _BLOB
        case float() if not math.isfinite(value):
            return str(value)
        case list() | tuple():
            return next((note for item in value if (note := note_of(item)) is not None), None)
        case dict():
            notes = {name: note for name, item in value.items() if (note := note_of(item))}
            return notes or None
        case _:
            return None


def restored_value(value: Any, note: Note | None) -> Any:
    """The value that `plain_value` and `note_of` were made from."""
    match value, note:
        case _, None:
            return value
        case dict(), dict():
            return {name: restored_value(item, note.get(name)) for name, item in value.items()}
        case list(), _:
            return [restored_value(item, note) for item in value]
        case None, str():
            return _NUMBERS.get(note)
        case str(), str():
            return _restored_text(value, note)
        case _:
            return value


def _restored_text(text: str, note: str) -> Any:
    if note == _DATE:
        return dt.date.fromisoformat(text)
    if note == _MOMENT:
        return parse_moment(text) or text
    return parse_blob(text) if note == _BLOB else text
