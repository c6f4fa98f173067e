"""The format stamp of a graph: which releases can read its files."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.errors import FormatTooNew, FormatUnknown

CURRENT = 2
_KEY = b"omnigraph:format"


def read_stamp(schema: pa.Schema) -> int:
    """The stamp in a manifest's schema metadata."""
    text = (schema.metadata or {}).get(_KEY)
    if text is None or not text.isdigit():
        raise FormatUnknown(
            "this is no OmniGraph manifest: its format stamp is missing or unreadable. A graph of "
            "the Rust original comes in by `export` there and `load` here."
        )
    return int(text)


def check_readable(stamp: int) -> None:
    if stamp > CURRENT:
        raise FormatTooNew(
            f"the graph has format {stamp}, this release reads up to {CURRENT}: "
            "upgrade omnigraph first",
            found=stamp,
            supported=CURRENT,
        )
