"""The format stamp of a graph and the steps that bring an older graph to the current one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from omnigraph.errors import FormatTooNew, FormatUnknown
from omnigraph.lance_store.store import Store

CURRENT = 1
_KEY = b"omnigraph:format"

Migration = Callable[[Store], None]

# from stamp n to n + 1, in place; each must leave the graph whole when it is killed and must be
# harmless when it runs again. The step itself writes the new stamp as its last act.
MIGRATIONS: Mapping[int, Migration] = {}


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


def migrate(store: Store, read: Callable[[], int]) -> None:
    """Run every step from the graph's stamp to the current one; `read` gives the stamp now."""
    while (stamp := read()) < CURRENT:
        step = MIGRATIONS.get(stamp)
        if step is None:
            raise FormatUnknown(f"this release cannot migrate a graph of format {stamp}")
        step(store)
        if read() <= stamp:
            raise FormatUnknown(f"the migration of format {stamp} did not write its stamp")
