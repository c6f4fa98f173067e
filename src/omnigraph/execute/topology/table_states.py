"""Which states of tables this process has: found in memory, derived, mapped from a file, or read.

A content (`table_content`) is named by the commit that last changed its rows. When a query needs a
new state, `Topology` follows the commits back (`ContentLineage`) to an older state that it has, and
derives the new one from the ids that these commits changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from omnigraph.errors import FormatUnknown, SnapshotReclaimed
from omnigraph.execute.topology.adjacency import (
    Adjacency,
    EdgeChanges,
    EdgeContents,
    StoredAdjacency,
    patched_adjacency,
)
from omnigraph.execute.topology.builds import Builds
from omnigraph.execute.topology.cache_files import ContentName, StoredTopology
from omnigraph.execute.topology.id_changes import IdChanges, position_patch
from omnigraph.execute.topology.memory_cache import MemoryCache
from omnigraph.execute.topology.scoped_states import (
    RowRule,
    ScopedAdjacency,
    ScopedContent,
    scoped_content,
)
from omnigraph.execute.topology.table_content import PatchedContent, StoredContent, TableContent
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.manifest.changed_ids import recorded_id_sets
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import TableChanges, TablePin
from omnigraph.values.bounded_cache import BoundedCache

_MOST_TABLES = 4096
_STEPS = 4096
_STEP_IDS = 200_000


class EdgePins(NamedTuple):
    """Pins of an edge table and of the node tables at its two ends."""

    edges: TablePin
    sources: TablePin
    targets: TablePin


class EdgeRules(NamedTuple):
    """Rules about the rows of an edge table and of the node tables at its two ends."""

    edges: RowRule | None
    sources: RowRule | None
    targets: RowRule | None


@dataclass(frozen=True, slots=True)
class DeriveLimits:
    """When a new state is derived from an older one, measured by `python -m bench crossovers`."""

    smallest_table: int = 5_000
    """A smaller table is read again, because that is as fast: 2,000 rows take 2 ms either way."""

    most_ids: int = 20_000
    """With more changed ids the table is read again, because that is as fast ..."""

    most_share: float = 0.01
    """... and with a larger share of changed rows: at 1 in 100 both are equal at every size."""

    settle_ids: int = 300
    """With more changed ids a derived state is copied, so that later states are derived from it.

    Each changed id costs every later state 0.08 ms. A copy costs 25 ms, and a file per million
    edges.
    """

    steps_share: float = 1 / 4000
    """How many commits are followed back: eight, and this share of the rows.

    Following a commit takes 0.15 ms, reading a row 0.2 us. So a search without success costs at
    most a fifth of reading the table, however many small commits made it.
    """

    def steps(self, rows: int) -> int:
        return 8 + int(rows * self.steps_share)

    def changed_ids(self, rows: int) -> int:
        return min(self.most_ids, int(rows * self.most_share) + 1)


class Topology:
    """Makes the content of each table state and the adjacency of each edge state once."""

    def __init__(
        self,
        store: Store,
        memory: MemoryCache,
        stored: StoredTopology,
        lineage: ContentLineage,
        limits: DeriveLimits,
        builds: Builds,
    ) -> None:
        self._store = store
        self._memory = memory
        self._stored = stored
        self._lineage = lineage
        self._limits = limits
        self._builds = builds
        self._met: BoundedCache[str, bool] = BoundedCache(_MOST_TABLES)
        """Tables of which this process has had a state."""

    def content(self, pin: TablePin) -> TableContent:
        name = self._name(pin)
        dataset = self._store.open(pin.at)
        found: TableContent | None = self._memory.peek(name)
        if found is None:
            made = self._new_content(name, pin, dataset)
            found = self._memory.keep(name, made, _lineage(pin))
        elif found.at != pin.at:
            # The same rows in another version. Cleanup may remove the old version, and a schema
            # change may have added or removed columns.
            same = _has_same_columns(found.dataset, dataset)
            moved = found.moved(pin.at, dataset, self._stored) if same else None
            found = moved or self._new_content(name, pin, dataset)
            self._memory.replace(name, found, _lineage(pin))
        return found

    def adjacency(self, pins: EdgePins) -> Adjacency:
        key = ("adjacency", *(self._name(pin) for pin in pins))
        found: Adjacency | None = self._memory.peek(key)
        if found is None:
            found = self._memory.keep(key, self._new_adjacency(pins), _edge_lineage(pins))
        elif any(c.at != pin.at for c, pin in zip(found.contents, pins, strict=True)):
            found = found.moved(self._contents(pins))
            self._memory.replace(key, found, _edge_lineage(pins))
        return found

    def scoped_content(self, pin: TablePin, rule: RowRule | None) -> TableContent:
        """The content with only the rows that the rule keeps."""
        base = self.content(pin)
        return base if rule is None else self._in_scope(base, rule, _lineage(pin))

    def _in_scope(
        self, base: TableContent, rule: RowRule, lineage: tuple[Hashable, ...]
    ) -> ScopedContent:
        key = ("scoped", base.name, rule.name)
        found: ScopedContent | None = self._memory.peek(key)
        if found is not None and found.base is base:
            return found
        made = scoped_content(base, rule, lambda older: self._in_scope(older, rule, lineage))
        if found is None:
            kept: ScopedContent = self._memory.keep(key, made, (*lineage, rule.name))
            return kept
        # The same rows in another version. A column with the same name can be another one there.
        if _has_same_columns(found.dataset, base.dataset):
            made.take_over(found)
        self._memory.replace(key, made, (*lineage, rule.name))
        return made

    def scoped_adjacency(self, pins: EdgePins, rules: EdgeRules) -> Adjacency:
        """The adjacency with only the edges in scope whose two ends are in scope."""
        base = self.adjacency(pins)
        if not any(rules):
            return base
        names = tuple(None if rule is None else rule.name for rule in rules)
        key = ("scoped adjacency", *(self._name(pin) for pin in pins), *names)
        contents = EdgeContents(*map(self.scoped_content, pins, rules))
        found: ScopedAdjacency | None = self._memory.peek(key)
        if found is None:
            made = ScopedAdjacency(contents, base)
            found = self._memory.keep(key, made, (*_edge_lineage(pins), *names))
        elif found.base is not base or found.contents != contents:
            found = found.on(contents, base)
            self._memory.replace(key, found, (*_edge_lineage(pins), *names))
        return found

    def _name(self, pin: TablePin) -> ContentName:
        return ContentName(self._store.location.uri, pin.location, pin.content_epoch)

    def _new_content(self, name: ContentName, pin: TablePin, dataset: Dataset) -> TableContent:
        if self._may_derive(pin) and not self._stored.has_ids(name):
            older = self._lineage.back(pin, self._limits.changed_ids(pin.row_count))
            for step in islice(older, self._limits.steps(pin.row_count)):
                base = self._base(step.before, dataset)
                if base is not None:
                    derived = self._derive(pin, dataset, base, step.changes)
                    if derived is not None:
                        return derived
                    break
        fresh = StoredContent(name, pin.at, dataset, self._stored)
        if pin.row_count < self._limits.smallest_table:
            return fresh
        last: TableContent | None = self._memory.latest(_lineage(pin))
        if last is not None and last.is_loaded:
            fresh.wanted = {*last.columns, *last.wanted} & {*dataset.schema.names}
            self._builds.hurry(fresh.piece)
        return fresh

    def _may_derive(self, pin: TablePin) -> bool:
        """Whether an older state can be in memory or in files, and is worth a search."""
        possible = pin.location in self._met or self._stored.keeps_files
        self._met.put(pin.location, True)
        return possible and pin.row_count >= self._limits.smallest_table

    def _base(self, pin: TablePin, like: Dataset) -> StoredContent | None:
        """A content with loaded ids, from which others can be derived."""
        name = self._name(pin)
        found = self._memory.peek(name)
        if found is None and self._stored.has_ids(name):
            try:
                dataset = self._store.open(pin.at)
            except SnapshotReclaimed:
                return None
            made = StoredContent(name, pin.at, dataset, self._stored)
            found = self._memory.keep(name, made, _lineage(pin))
        if not isinstance(found, StoredContent) or not found.is_built:
            return None
        return found if _has_same_columns(found.dataset, like) else None

    def _derive(
        self, pin: TablePin, dataset: Dataset, base: StoredContent, changes: IdChanges
    ) -> TableContent | None:
        patch = position_patch(base, changes)
        if patch is None or patch.new_count != pin.row_count:
            return None
        derived = PatchedContent(self._name(pin), pin.at, dataset, base, patch)
        if not derived.matches_storage():
            return None
        return derived.settled(self._stored) if changes.size > self._limits.settle_ids else derived

    def _new_adjacency(self, pins: EdgePins) -> Adjacency:
        contents = self._contents(pins)
        fresh = StoredAdjacency(contents, self._stored)
        if pins.edges.row_count < self._limits.smallest_table or fresh.is_ready:
            return fresh
        steps = self._limits.steps(max(pin.row_count for pin in pins))
        for older, changes in islice(self._older_states(pins), steps):
            base = self._base_adjacency(older)
            if base is not None:
                derived = patched_adjacency(contents, base, changes)
                if derived is None:
                    break
                settle = sum(c.size for c in changes) > self._limits.settle_ids
                return derived.settled(self._stored) if settle else derived
        last: Adjacency | None = self._memory.latest(_edge_lineage(pins))
        for direction in () if last is None else last.made:
            self._builds.hurry(fresh.piece(direction))
        return fresh

    def _contents(self, pins: EdgePins) -> EdgeContents:
        return EdgeContents(*(self.content(pin) for pin in pins))

    def _base_adjacency(self, pins: EdgePins) -> StoredAdjacency | None:
        names = tuple(self._name(pin) for pin in pins)
        found = self._memory.peek(("adjacency", *names))
        if isinstance(found, StoredAdjacency) and found.is_ready:
            return found
        if not self._stored.has_neighbours(names):
            return None
        try:
            contents = self._contents(pins)
        except SnapshotReclaimed:
            return None
        mapped = StoredAdjacency(contents, self._stored)
        if not all(content.is_built for content in contents):
            return None
        kept: StoredAdjacency = self._memory.keep(
            ("adjacency", *names), mapped, _edge_lineage(pins)
        )
        return kept

    def _older_states(self, pins: EdgePins) -> Iterator[tuple[EdgePins, EdgeChanges]]:
        """Undo the newest commit that wrote one of the three tables, then the one before, ..."""
        at, changed = list(pins), [IdChanges()] * 3
        most = self._limits.changed_ids(pins.edges.row_count)
        while (left := most - sum(c.size for c in changed)) >= 0:
            newest = max(pin.content_epoch for pin in at)
            for number in range(3):
                if at[number].content_epoch == newest:
                    step = self._lineage.step(at[number], left)
                    if step is None:
                        return
                    at[number] = step.before
                    changed[number] = step.changes.then(changed[number])
            yield EdgePins(*at), EdgeChanges(*changed)


def _has_same_columns(a: Dataset, b: Dataset) -> bool:
    """Whether equal names are equal columns.

    A column that was dropped and added again has the same name, and another field id.
    """
    ids_of_a, ids_of_b = ([f.id() for f in d.lance_schema.fields()] for d in (a, b))
    return a.schema.equals(b.schema) and ids_of_a == ids_of_b


def _lineage(pin: TablePin) -> tuple[str, str, str | None]:
    """Names the states of one table on one branch."""
    return "content", pin.location, pin.branch


def _edge_lineage(pins: EdgePins) -> tuple[str, str, str | None]:
    return "adjacency", pins.edges.location, pins.edges.branch


@dataclass(frozen=True, slots=True)
class OlderState:
    """An older state of a table, and what changed since then."""

    before: TablePin
    changes: IdChanges


class ContentLineage:
    """How the rows of a table came about: one commit back at a time, by what commits recorded."""

    def __init__(self, reader: ManifestReader) -> None:
        self._reader = reader
        self._steps: BoundedCache[tuple[str, str], OlderState] = BoundedCache(_STEPS, _STEP_IDS)

    def step(self, pin: TablePin, most_ids: int) -> OlderState | None:
        """The state before the commit that made `pin`.

        None when the commit is not found, when it does not record which rows it changed, or when
        it changed more than `most_ids`: the ids of such a commit are not read.
        """
        name = (pin.location, pin.content_epoch)
        known = self._steps.get(name)
        if known is not None:
            return known if known.changes.size <= most_ids else None
        try:
            found = self._find(pin, most_ids)
        except (SnapshotReclaimed, FormatUnknown):
            found = None  # deriving a state is only a shortcut
        if found is not None:
            self._steps.put(name, found, found.changes.size)
        return found

    def back(self, pin: TablePin, most_ids: int) -> Iterator[OlderState]:
        """Older states, each with all changes from it to `pin`, the newest first."""
        changed = IdChanges()
        while (step := self.step(pin, most_ids - changed.size)) is not None:
            changed = step.changes.then(changed)
            if changed.size > most_ids:
                return
            pin = step.before
            yield OlderState(pin, changed)

    def _find(self, pin: TablePin, most_ids: int) -> OlderState | None:
        commit = self._reader.recent_commit(pin.content_epoch, pin.owner)
        if commit is None:
            return None
        moved = [
            c
            for c in commit.pins
            if c.after is not None
            and c.after.location == pin.location
            and c.after.content_epoch == pin.content_epoch
        ]
        if len(moved) != 1 or moved[0].before is None or moved[0].after is None:
            return None
        before, after = moved[0].before, moved[0].after
        listed = [c for c in commit.changes if c.key == after.key]
        if len(listed) != 1 or before.location != pin.location:
            return None
        recorded = listed[0]
        if recorded.inserted + recorded.updated + recorded.deleted > most_ids:
            return None
        ids = recorded_id_sets(self._reader.store.files, recorded)
        if ids is None:
            return None
        changes = IdChanges(*ids)
        return OlderState(before, changes) if _adds_up(before, after, recorded, changes) else None


def _adds_up(before: TablePin, after: TablePin, recorded: TableChanges, changes: IdChanges) -> bool:
    """Whether the record explains the number of rows before and after the commit."""
    counts = (len(changes.inserted), len(changes.updated), len(changes.deleted))
    if counts != (recorded.inserted, recorded.updated, recorded.deleted):
        return False
    return before.row_count + counts[0] - counts[2] == after.row_count
