"""Opaque cursors: what a page was taken from and where it ended, as one printable word."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from omnigraph.errors import InvalidArgument


def encode_cursor(kind: str, body: dict[str, Any]) -> str:
    text = json.dumps({"kind": kind, **body}, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(kind: str, cursor: str) -> dict[str, Any]:
    """The body of a cursor of this kind; anything else is refused."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        body = json.loads(base64.b64decode(padded.encode("ascii"), b"-_", validate=True))
        if body.pop("kind") == kind:
            return dict(body)
    except (AttributeError, TypeError, ValueError, KeyError, binascii.Error):
        pass
    raise InvalidArgument(f"{cursor!r} is no {kind} cursor: pass one exactly as it was returned")
