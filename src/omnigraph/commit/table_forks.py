"""Give a branch its own physical lineage of a table before it is first written.

A step of its own: the physical branch has a name nobody used before, and its pin is published by
the manifest's swap. Of two first writers one wins; the loser's branch is garbage for cleanup.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.lance_store.dataset_branches import create_branch, physical_name
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.publication import Publication, TableMove
from omnigraph.manifest.publisher import Published, Publisher
from omnigraph.manifest.records import BranchRef, TablePin
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey


def fork_unowned(
    store: Store,
    publisher: Publisher,
    clock: Clock,
    head: tuple[BranchRef, BranchState],
    tables: Iterable[TableKey],
) -> BranchState:
    """The state in which `ref` owns all of `tables`."""
    ref, state = head
    unowned = [p for k in tables if (p := state.tables.get(k)) and p.owner != ref.incarnation]
    if not unowned:
        return state
    moves = tuple(TableMove(pin, _fork(store, clock, ref, pin)) for pin in unowned)
    failpoints.hit("commit.after_fork_branch")
    publication = Publication(clock.new_ulid(), state.version, moves=moves)
    published = publisher.publish(ref, publication)
    failpoints.hit("commit.after_fork_publish")
    assert isinstance(published, Published)
    return published.state


def _fork(store: Store, clock: Clock, ref: BranchRef, pin: TablePin) -> TablePin:
    forked = create_branch(store, pin.at, physical_name(ref.name, clock.new_ulid()))
    return replace(pin, branch=forked.branch, version=forked.version, owner=ref.incarnation)
