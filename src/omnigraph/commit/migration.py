"""Bring a graph of an older format to the current one, in place, when it is opened for writing.

Format 2 is the first that was released, so there is no step yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from omnigraph.errors import FormatUnknown
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import CURRENT_FORMAT

Migration = Callable[[Store], None]

MIGRATIONS: Mapping[int, Migration] = {}
"""The step from format n to n + 1, by n.

A step that is killed must leave a graph that can be read and migrated again. It must be harmless
when it runs twice, or in two processes at once. Its last act is to write the new stamp of main.
"""


def migrate(store: Store, read: Callable[[], int]) -> None:
    """Run every step from the stamp of the graph to the current one; `read` returns the stamp."""
    while (stamp := read()) < CURRENT_FORMAT:
        step = MIGRATIONS.get(stamp)
        if step is None:
            raise FormatUnknown(f"this release cannot migrate a graph of format {stamp}")
        step(store)
        if read() <= stamp:
            raise FormatUnknown(f"the migration of format {stamp} did not write its stamp")
