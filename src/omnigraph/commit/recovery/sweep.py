"""Recover dead intents: take over, classify the tables, decide, act, remove the intent."""

from __future__ import annotations

import logging
from collections import Counter

from omnigraph import failpoints
from omnigraph.commit.intents import Intent, IntentBoard, IntentKind, SeenIntent
from omnigraph.commit.recovery.act import (
    RECOVERY_OPERATION,
    RecoveryActions,
    TableStates,
    rollback_commit_id,
)
from omnigraph.commit.recovery.classify import classify
from omnigraph.commit.recovery.decide import Decision, IntentFindings, decide
from omnigraph.errors import NotFound
from omnigraph.lance_store.advance import transaction_at
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import TablePin

logger = logging.getLogger(__name__)

# The HEAD of a dataset that is missing: a version below every pin.
_NO_DATASET = 0


class Recovery:
    """Recovers dead intents. Only the process that created the next epoch of one acts on it."""

    def __init__(
        self,
        board: IntentBoard,
        reader: ManifestReader,
        publisher: Publisher,
        actions: RecoveryActions,
    ) -> None:
        self._board = board
        self._reader = reader
        self._store: Store = reader.store
        self._publisher = publisher
        self._actions = actions
        self.outcomes: Counter[str] = Counter()
        """How often this process recovered an intent, by the decision."""

    def sweep(self) -> int:
        """Recover every intent that is dead now; the number of them."""
        recovered = 0
        for seen in self._board.others():
            if self._board.is_dead(seen):
                recovered += self.recover(seen)
        self._board.remove_stray_epochs()
        return recovered

    def recover(self, seen: SeenIntent) -> bool:
        """Finish or undo one dead intent; False when another process does it."""
        takeover = self._board.take_over(seen)
        if takeover is None:
            return False
        try:
            failpoints.hit("recovery.after_takeover")
            decision = self._bring_to_end(takeover.intent)
            logger.info("intent %s: %s", takeover.intent.intent_id, decision.value)
            self.outcomes[decision.value] += 1
            self._board.remove(takeover.intent, takeover.epoch)
            failpoints.hit("recovery.after_disarm")
        finally:
            # After a failure, too, so that other processes see that this one has stopped.
            takeover.posted.release()
        return True

    def _bring_to_end(self, intent: Intent) -> Decision:
        state = self._state_of(intent)
        published = state is not None and self._is_published(intent, state)
        states: TableStates = {}
        if state is not None and not state.deleted and not published:
            # After the publication its tables may have other names.
            states = self._classify(intent, state)
        decision = decide(
            IntentFindings(
                kind=intent.kind,
                states=tuple(states.values()),
                published=published,
                cancelled=state is not None and intent.intent_id in state.cancelled,
                branch_gone=state is None,
                head_marked_deleted=state is not None and state.deleted,
                branch_untouched=state is not None and _untouched(state, intent.branch.name),
            )
        )
        self._actions.carry_out(decision, intent, states)
        return decision

    def _state_of(self, intent: Intent) -> BranchState | None:
        try:
            return self._reader.state(intent.branch)
        except NotFound:
            if self._reader.branch_refs.find(intent.branch.name) == intent.branch:
                raise  # the branch has a name but no files: this is damage, keep the intent
            return None

    def _classify(self, intent: Intent, state: BranchState) -> TableStates:
        states = {}
        for move in intent.publication.moves if intent.publication else ():
            if move.only_renames:
                continue
            head = self._head(move.after)
            found = None
            if head >= move.after.version and move.transaction_uuid is not None:
                result = DatasetVersion(move.after.location, move.after.branch, move.after.version)
                found = transaction_at(self._store, result)
            states[move] = classify(move, state.tables[move.expected.key], head, found)
        return states

    def _head(self, pin: TablePin) -> int:
        try:
            return int(self._store.open_head(pin.location, pin.branch).version)
        except NotFound:
            return _NO_DATASET

    def _is_published(self, intent: Intent, state: BranchState) -> bool:
        publication = intent.publication
        if publication is None:
            return False
        candidates = [rollback_commit_id(intent), *publication.commit_ids]
        if any(
            self._publisher.find_commit(state, c, publication.based_on) is not None
            for c in candidates
        ):
            return True
        return intent.kind is IntentKind.MAINTENANCE and all(
            state.tables.get(m.after.key) == m.after for m in publication.moves
        )


def _untouched(state: BranchState, name: str) -> bool:
    """No commit was made under this name, apart from those of recovery."""
    own = [s.commit for s in state.commits if s.commit.graph_branch == name]
    if state.name not in (None, name) or len(own) == len(state.commits):
        return False  # it was renamed, or its first commit is no longer in the head
    return all(commit.operation == RECOVERY_OPERATION for commit in own)
