"""The steps that bring a graph of an older format to the current one, in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from omnigraph.errors import FormatUnknown, NotFound
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import CURRENT, read_stamp
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.layout import MANIFEST
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import MAIN

Migration = Callable[[Store], None]


def migrate(store: Store, read: Callable[[], int]) -> None:
    """Run every step from the graph's stamp to the current one; `read` gives the stamp now."""
    while (stamp := read()) < CURRENT:
        step = MIGRATIONS.get(stamp)
        if step is None:
            raise FormatUnknown(f"this release cannot migrate a graph of format {stamp}")
        step(store)
        if read() <= stamp:
            raise FormatUnknown(f"the migration of format {stamp} did not write its stamp")


def _stamp_every_branch(store: Store) -> None:
    """From 1 to 2: commits name what a merge took, heads hold a new name and marks of streams.

    What format 1 wrote is read as it stands, so nothing is rewritten but the stamps, which keep
    releases of format 1 away: they would refuse the new fields in the middle of a read. Each stamp
    is an ordinary swap of the branch's manifest, safe beside writers of either release.
    """
    reader = ManifestReader(store)
    publisher = Publisher(reader, CommitGraph(reader), HistorySettings(), SYSTEM_CLOCK)
    # main last: its stamp is the one that says the graph is migrated.
    for name in sorted(reader.branch_refs.names(), key=lambda name: name == MAIN):
        ref = reader.branch_refs.find(name)
        if ref is not None:
            with suppress(NotFound):  # deleted meanwhile: nobody reads it any more
                _stamp(store, reader, publisher, ref)


def _stamp(store: Store, reader: ManifestReader, publisher: Publisher, ref: BranchRef) -> None:
    if read_stamp(store.open_head(MANIFEST, ref.physical_branch).schema) < CURRENT:
        version = reader.state(ref).version
        publisher.publish(ref, Publication(intent_id=SYSTEM_CLOCK.new_ulid(), based_on=version))


# From stamp n to n + 1. Each must leave the graph whole when it is killed, must be harmless when it
# runs again or beside itself, and writes main's new stamp as its last act.
MIGRATIONS: Mapping[int, Migration] = {1: _stamp_every_branch}
