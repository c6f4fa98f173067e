"""Blob values as texts, and as the bytes that are stored."""

from __future__ import annotations

import base64
import binascii

from omnigraph.errors import InvalidArgument
from omnigraph.values.external_blobs import (
    NONE_ALLOWED,
    ExternalBases,
    external_cell,
    external_uri,
)

BLOB_PREFIX = "base64:"


def parse_blob(text: str, external: ExternalBases = NONE_ALLOWED) -> bytes:
    """The stored bytes of a text: `base64:…`, or the URI of an external blob that is allowed."""
    if not text.startswith(BLOB_PREFIX):
        return external_cell(external.judge(text))
    try:
        return base64.b64decode(text[len(BLOB_PREFIX) :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument(f"a blob's {BLOB_PREFIX!r} text is not base64: {error}") from None


def judged_blob(value: object, external: ExternalBases) -> bytes:
    """The stored bytes of a value that a writer gave: bytes, or a text.

    Bytes that are marked as an external blob are judged like its URI, because files and tables
    carry external blobs in this form.
    """
    match value:
        case str():
            # The bytes of a managed blob may begin with the mark only if they are an allowed URI.
            return judged_blob(parse_blob(value, external), external)
        case bytes() | bytearray() | memoryview():
            content = bytes(value)
            uri = external_uri(content)
            return content if uri is None else external_cell(external.judge(uri))
        case _:
            raise InvalidArgument(f"a blob is bytes or a text, not {type(value).__name__}")


def blob_value(cell: bytes) -> bytes | str:
    """A stored blob as users see it: its bytes, or the URI of an external one."""
    return external_uri(cell) or cell


def write_blob(content: bytes) -> str:
    """The text of stored bytes: `base64:…`, or the URI; `parse_blob` reads it back."""
    return external_uri(content) or BLOB_PREFIX + base64.b64encode(content).decode("ascii")
