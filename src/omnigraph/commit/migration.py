"""Bring a graph of an older format to the current one, in place, when it is opened for writing.

Format 2 is the first that was released. Format 3 has commits with details, several commits in one
publication, and the intents of groups. Its rows are those of format 2, so the step writes only the
stamp: a release that does not know groups must not meet one. Format 4 keeps the head in the schema
metadata of the manifest and compresses commits, there and in the pages of history. The step swaps
each head for its new form. Older pages of history stay as they are, because they never change and
`HistoryReader` reads both forms. A blob of format 4 may be a cell that stands for an external blob.
A release that does not know such cells would take them for bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from omnigraph import failpoints
from omnigraph.errors import FormatUnknown, NotFound
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import CURRENT_FORMAT, read_stamp
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.layout import MANIFEST
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import MAIN

Migration = Callable[[Store], None]


def rewrite_every_head(store: Store) -> None:
    """Swap the head of each branch for the same head in the current format, main last.

    A swap by another process is no obstacle: either it wrote the current stamp, or this one
    repeats its own.
    """
    reader = ManifestReader(store)
    publisher = Publisher(reader, CommitGraph(reader), HistorySettings(), SYSTEM_CLOCK)
    for name in sorted(reader.branch_refs.names(), key=lambda name: name == MAIN):
        ref = reader.branch_refs.find(name)
        if ref is None:
            continue
        with suppress(NotFound):  # another process deleted the branch
            head = store.open_head(MANIFEST, ref.physical_branch)
            if read_stamp(head.schema) < CURRENT_FORMAT:
                version = reader.state(ref).version
                publisher.publish(ref, Publication(SYSTEM_CLOCK.new_ulid(), version))
                failpoints.hit("migration.after_branch")


MIGRATIONS: Mapping[int, Migration] = {2: rewrite_every_head, 3: rewrite_every_head}
"""The step from format n to a later one, by n.

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
