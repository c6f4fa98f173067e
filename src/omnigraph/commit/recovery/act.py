"""Carry out the decision about a dead intent.

A recovery that is killed at any point can be repeated: ids are derived from the intent, so a
repeated publication is recognised.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from ulid import ULID

from omnigraph import failpoints
from omnigraph.commit.intents import Intent, IntentKind
from omnigraph.commit.recovery.audit import record_audit
from omnigraph.commit.recovery.classify import TableState
from omnigraph.commit.recovery.decide import Decision
from omnigraph.commit.restore import restore_pin
from omnigraph.errors import CommitRejected, InvariantViolation
from omnigraph.lance_store.store import Store
from omnigraph.manifest.publication import CommitDraft, Publication, TableMove
from omnigraph.manifest.publisher import Publisher, Repeated
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import RecoveryAudit
from omnigraph.values.clock import Clock

RECOVERY_ACTOR = "omnigraph:recovery"
RECOVERY_OPERATION = "recovery"

TableStates = dict[TableMove, TableState]


class RecoveryActions:
    """Finishes, undoes or drops one dead intent, and writes its audit row."""

    def __init__(self, reader: ManifestReader, publisher: Publisher, clock: Clock) -> None:
        self._reader = reader
        self._store: Store = reader.store
        self._publisher = publisher
        self._clock = clock

    def carry_out(self, decision: Decision, intent: Intent, states: TableStates) -> None:
        """Carry out one decision; afterwards the object of the intent may be removed."""
        match decision:
            case Decision.FINISHED:
                self._record_if_recovered(intent)
            case Decision.ROLL_FORWARD:
                self._roll_forward(intent, states)
            case Decision.ROLL_BACK:
                self._roll_back(intent, states)
            case Decision.FINISH_DELETE:
                self._reader.branch_refs.remove(intent.branch)
                record_audit(self._store, self._audit(decision, intent, states, None))
            case Decision.DELETE_BRANCH:
                self._delete_branch(intent)
                record_audit(self._store, self._audit(decision, intent, states, None))
            case Decision.DISCARD:
                if intent.kind not in _WITHOUT_TRACE:
                    record_audit(self._store, self._audit(decision, intent, states, None))
            case Decision.REFUSE:
                behind = [str(m.expected.key) for m, s in states.items() if s in _BEHIND]
                raise InvariantViolation(
                    f"{', '.join(behind)}: the dataset is behind what the manifest shows, so files "
                    f"were removed by another program. Nothing was changed, and intent "
                    f"{intent.intent_id} is kept; restore the files from a backup",
                    tables=behind,
                    operation_id=intent.intent_id,
                )

    def _delete_branch(self, intent: Intent) -> None:
        """Delete the branch, unless a commit is published to it in the meantime."""
        state = self._reader.state(intent.branch)
        marked = Publication(
            _derived_id("delete", intent.intent_id),
            state.version,
            marks_deleted=True,
            if_commit=state.head_commit_id,
        )
        try:
            if not state.deleted:
                self._publisher.publish(intent.branch, marked)
        except CommitRejected:
            return
        if self._reader.branch_refs.find(intent.branch.name) == intent.branch:
            self._reader.branch_refs.remove(intent.branch)

    def _roll_forward(self, intent: Intent, states: TableStates) -> None:
        publication = _publication_of(intent)
        draft = publication.commit
        commit_id = draft.commit_id if draft is not None else None
        audit = self._audit(Decision.ROLL_FORWARD, intent, states, commit_id)
        if draft is not None:
            publication = replace(publication, commit=replace(draft, recovery=audit))
        # A stalled owner may publish first. Then this publish finds its commit, and there is no
        # recovery to report.
        try:
            published = self._publisher.publish(intent.branch, publication)
        except CommitRejected:
            # A table that the write relied on has moved, so its owner would have been refused.
            self._roll_back(intent, states)
            return
        if isinstance(published, Repeated):
            # Another write has used its idempotency key, so its rows must go.
            self._roll_back(intent, states)
            return
        failpoints.hit("recovery.after_publish")
        commit = published.commit
        if commit is not None and commit.recovery is not None:
            record_audit(self._store, commit.recovery)
        failpoints.hit("recovery.after_audit")

    def _roll_back(self, intent: Intent, states: TableStates) -> None:
        publication = _publication_of(intent)
        state = self._reader.state(intent.branch)
        # Cancel first: a stalled owner cannot publish from here on, even if it still advances.
        cancel = Publication(
            _derived_id("cancel", intent.intent_id), state.version, cancels=intent.intent_id
        )
        if intent.intent_id not in state.cancelled:
            self._publisher.publish(intent.branch, cancel)
        failpoints.hit("recovery.after_cancel")
        moves = []
        for move in publication.moves:
            if move.only_renames:
                continue  # the dataset may belong to another branch
            # Restore unmoved tables, too: that makes a later commit of a stalled owner fail.
            moves.append(restore_pin(self._store, state.tables[move.expected.key]))
            failpoints.hit("recovery.after_restore_first")
        failpoints.hit("recovery.after_restore")
        commit_id = rollback_commit_id(intent)
        audit = self._audit(Decision.ROLL_BACK, intent, states, commit_id)
        draft = CommitDraft(
            commit_id,
            operation=RECOVERY_OPERATION,
            actor_id=RECOVERY_ACTOR,
            message=f"rolled back {intent.kind.value} {intent.intent_id}",
            recovery=audit,
        )
        restored_heads = Publication(
            _derived_id("restore", intent.intent_id),
            publication.based_on,
            commit=draft,
            moves=tuple(moves),
        )
        published = self._publisher.publish(intent.branch, restored_heads)
        failpoints.hit("recovery.after_publish")
        if published.commit is not None and published.commit.recovery is not None:
            record_audit(self._store, published.commit.recovery)
        failpoints.hit("recovery.after_audit")

    def _record_if_recovered(self, intent: Intent) -> None:
        """Write the audit row of a recovery that was killed after its publish.

        The commit of that recovery carries the row.
        """
        state = self._reader.state(intent.branch)
        publication = _publication_of(intent)
        for commit_id in (rollback_commit_id(intent), *publication.commit_ids):
            commit = self._publisher.find_commit(state, commit_id, publication.based_on)
            if commit is not None and commit.recovery is not None:
                record_audit(self._store, commit.recovery)

    def _audit(
        self, decision: Decision, intent: Intent, states: TableStates, commit_id: str | None
    ) -> RecoveryAudit:
        return RecoveryAudit(
            operation_id=intent.intent_id,
            recovery_kind=decision.value,
            operation_kind=intent.kind.value,
            recovery_for_actor=intent.actor_id,
            graph_branch=intent.branch.name,
            graph_commit_id=commit_id,
            tables={str(m.expected.key): s.value for m, s in states.items()},
            created_at=self._clock.now_micros(),
        )


_WITHOUT_TRACE = frozenset({IntentKind.HOLD, IntentKind.FRESH_BRANCH})
"""Intents that move no table: dropping one is no recovery and gets no audit row."""

_BEHIND = frozenset({TableState.INVARIANT_VIOLATION})


def rollback_commit_id(intent: Intent) -> str:
    """The id of the commit that rolls this intent back, the same in every process."""
    return _derived_id("rollback", intent.intent_id)


def _publication_of(intent: Intent) -> Publication:
    return intent.publication or Publication(intent.intent_id, 0)


def _derived_id(purpose: str, intent_id: str) -> str:
    """A ULID that every process derives alike, so that a repeated publication is recognised."""
    digest = hashlib.sha256(f"{purpose}:{intent_id}".encode()).digest()
    return str(ULID.from_bytes(ULID.from_str(intent_id).bytes[:6] + digest[:10]))
