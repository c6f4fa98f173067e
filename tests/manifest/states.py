"""Builders of branch states."""

from __future__ import annotations

from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.publication import (
    CommitDraft,
    Publication,
    TableMove,
    apply_publication,
)
from omnigraph.manifest.records import MAIN_REF, TablePin
from omnigraph.values.identifiers import node_table


def pin(name: str = "A", version: int = 1, epoch: str = "e0") -> TablePin:
    return TablePin(node_table(name), f"nodes/{name}", None, version, version * 10, "main", epoch)


def empty_state() -> BranchState:
    return BranchState(version=0, tables={}, schema_id="s0", commits=())


def first_state(*names: str) -> BranchState:
    created = tuple(pin(name) for name in names or ("A", "B"))
    publication = Publication("i0", 0, commit=CommitDraft("c0", "init"), created=created)
    return apply_publication(empty_state(), publication, MAIN_REF, 1_000)[0]


def write(state: BranchState, commit_id: str, *names: str, key: str | None = None) -> Publication:
    """A content write of these tables."""
    moves = []
    for name in names:
        before = state.tables[node_table(name)]
        after = before.changed_to(before.version + 1, before.row_count + 1, commit_id)
        moves.append(TableMove(before, after, f"uuid-{commit_id}-{name}"))
    draft = CommitDraft(commit_id, "apply", actor_id="ada", idempotency_key=key)
    return Publication(f"i-{commit_id}", state.version, commit=draft, moves=tuple(moves))


def physical(state: BranchState, name: str) -> Publication:
    """A compaction of one table: same rows, later version."""
    before = state.tables[node_table(name)]
    return Publication(
        "i-physical", state.version, moves=(TableMove(before, before.moved_to(before.version + 2)),)
    )


def after(state: BranchState, publication: Publication, now: int = 2_000) -> BranchState:
    return apply_publication(state, publication, MAIN_REF, now)[0]


def chain(count: int, *, keys: dict[int, str] | None = None) -> BranchState:
    """A state with `count` commits on top of the first, alternating between two tables."""
    state = first_state()
    for number in range(1, count + 1):
        name = "AB"[number % 2]
        draft = write(state, f"c{number}", name, key=(keys or {}).get(number))
        state = after(state, draft, 1_000 + number)
    return state
