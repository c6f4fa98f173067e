"""Blob values as they are written in data files and queries."""

from __future__ import annotations

import base64
import binascii

from omnigraph.errors import InvalidArgument

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
