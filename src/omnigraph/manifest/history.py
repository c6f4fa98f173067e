"""Older commits, packed into immutable `__history` segments so that heads stay small.

A segment of level 0 holds commits and the pins after the last of them. When there are enough
segments of one level in a row, a segment of the next level lists them. So the head names only a few
segments, however long the history is, and no segment is ever rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.errors import FormatUnknown, SnapshotReclaimed
from omnigraph.lance_store.objects.control_files import ControlFiles
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.layout import history_object
from omnigraph.manifest.packed_commits import pack_commits, unpack_commits
from omnigraph.manifest.publication import undo_commits
from omnigraph.manifest.records import HistorySegment, StoredCommit, TablePin
from omnigraph.settings.models import HistorySettings
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.clock import Clock


@dataclass(frozen=True, slots=True)
class CommitPage:
    """The content of a segment of level 0: commits, and the pins after the last of them."""

    commits: tuple[StoredCommit, ...]
    tables: tuple[TablePin, ...]


_PACKED = "packed"

_Content = CommitPage | tuple[HistorySegment, ...]

# Commits that were looked at are parsed, which takes some five times the memory of their text.
_SEGMENTS = 2048
_SEGMENT_BYTES = 32 * 1024**2
_KEY_SETS = 65_536
_KEYS = 1_000_000


@dataclass(frozen=True, slots=True)
class PackedHead:
    """A state with few commits, and the objects to write before it is published."""

    state: BranchState
    objects: tuple[tuple[str, bytes], ...] = ()


def pack(state: BranchState, settings: HistorySettings, clock: Clock) -> PackedHead:
    """Move old commits out of the head when they are too many or too large."""
    size = sum(len(stored.text) for stored in state.commits)
    if len(state.commits) <= settings.window_high and size <= settings.window_bytes:
        return PackedHead(state)
    kept = _kept_commits(state.commits, settings)
    old, recent = state.commits[:-kept], state.commits[-kept:]
    if not old:
        return PackedHead(state)
    tables = undo_commits(state.tables.values(), reversed(recent))
    segment = _segment(clock.new_ulid(), old)
    page = CommitPage(old, tuple(tables.values()))
    objects = [(history_object(segment.segment_id), encode_page(page))]
    history = [*state.history, segment]
    while (run := _full_run(history, settings.fan_out)) is not None:
        parent = _gathered(clock.new_ulid(), history[run:])
        body = {"segments": [s.to_json() for s in history[run:]]}
        objects.append((history_object(parent.segment_id), _encode(body)))
        history[run:] = [parent]
    return PackedHead(replace(state, commits=recent, history=tuple(history)), tuple(objects))


class HistoryReader:
    """Reads segments and caches them, because they never change."""

    def __init__(self, files: ControlFiles) -> None:
        self._files = files
        self._known: BoundedCache[str, _Content] = BoundedCache(_SEGMENTS, _SEGMENT_BYTES)
        self._keys: BoundedCache[str, frozenset[str]] = BoundedCache(_KEY_SETS, _KEYS)

    def pages(
        self,
        segments: tuple[HistorySegment, ...],
        wanted: Callable[[HistorySegment], bool] = lambda _: True,
    ) -> Iterator[CommitPage]:
        """Pages whose segment, and every segment above it, `wanted` accepts; newest first."""
        for segment in reversed(segments):
            if not wanted(segment):
                continue
            content = self._load(segment.segment_id)
            if isinstance(content, CommitPage):
                yield content
            else:
                yield from self.pages(content, wanted)

    def oldest(self, segments: tuple[HistorySegment, ...]) -> str | None:
        """The id of the oldest packed commit; None when no commit was packed."""
        if not segments:
            return None
        content = self._load(segments[0].segment_id)
        return (
            content.commits[0].commit_id
            if isinstance(content, CommitPage)
            else self.oldest(content)
        )

    def page(self, segment_id: str) -> CommitPage:
        """One page by its id, such as the page of the commits that a merge brought in."""
        content = self._load(segment_id)
        if not isinstance(content, CommitPage):
            raise FormatUnknown(
                f"history segment {segment_id} lists segments, not commits", segment=segment_id
            )
        return content

    def keys(self, segment_id: str) -> frozenset[str]:
        """The idempotency keys of a page. Every write with a key looks for it in many pages."""
        found = self._keys.get(segment_id)
        if found is None:
            commits = (stored.commit for stored in self.page(segment_id).commits)
            found = frozenset(c.idempotency_key for c in commits if c.idempotency_key is not None)
            self._keys.put(segment_id, found, len(found))
        return found

    def with_children(
        self, segments: tuple[HistorySegment, ...]
    ) -> Iterator[tuple[HistorySegment, CommitPage | None]]:
        """Every segment of every level; a segment of level 0 comes with its page."""
        for segment in segments:
            content = self._load(segment.segment_id)
            if isinstance(content, CommitPage):
                yield segment, content
            else:
                yield segment, None
                yield from self.with_children(content)

    def _load(self, segment_id: str) -> _Content:
        found = self._known.get(segment_id)
        return found if found is not None else self._read(segment_id)

    def _read(self, segment_id: str) -> _Content:
        data = self._files.get(history_object(segment_id))
        if data is None:
            raise SnapshotReclaimed(
                f"history segment {segment_id} is not in storage any more", segment=segment_id
            )
        try:
            content = _segment_content(json.loads(data))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FormatUnknown(
                f"history segment {segment_id} cannot be read: {error!r}", segment=segment_id
            ) from error
        self._known.put(segment_id, content, len(data))
        return content


def _segment_content(body: dict[str, Any]) -> _Content:
    if "segments" in body:
        return tuple(HistorySegment.from_json(s) for s in body["segments"])
    if _PACKED in body:
        about, commits = unpack_commits(body[_PACKED])
        return CommitPage(commits, _pins(about["tables"]))
    # A page that format 2 or 3 wrote. Pages are immutable, so a migration leaves them.
    old = (StoredCommit(i, tuple(parents), text) for i, parents, text in body["commits"])
    return CommitPage(tuple(old), _pins(body["tables"]))


def _pins(tables: list[dict[str, Any]]) -> tuple[TablePin, ...]:
    return tuple(TablePin.from_json(pin) for pin in tables)


def _kept_commits(commits: tuple[StoredCommit, ...], settings: HistorySettings) -> int:
    kept, size = 0, 0
    for stored in reversed(commits):
        size += len(stored.text)
        if kept and (kept >= settings.window_low or size > settings.window_bytes // 2):
            break
        kept += 1
    return kept


def _segment(segment_id: str, commits: tuple[StoredCommit, ...]) -> HistorySegment:
    parsed = [stored.commit for stored in commits]
    return HistorySegment(
        segment_id=segment_id,
        level=0,
        count=len(parsed),
        first_created_at=parsed[0].created_at,
        last_created_at=parsed[-1].created_at,
        keyed=any(c.idempotency_key is not None for c in parsed),
    )


def _gathered(segment_id: str, children: list[HistorySegment]) -> HistorySegment:
    return HistorySegment(
        segment_id=segment_id,
        level=children[0].level + 1,
        count=sum(c.count for c in children),
        first_created_at=children[0].first_created_at,
        last_created_at=children[-1].last_created_at,
        keyed=any(c.keyed for c in children),
    )


def _full_run(history: list[HistorySegment], fan_out: int) -> int | None:
    """The position of the last `fan_out` segments when all of them have one level."""
    tail = history[-fan_out:]
    full = len(tail) == fan_out and len({s.level for s in tail}) == 1
    return len(history) - fan_out if full else None


def encode_page(page: CommitPage) -> bytes:
    """The bytes of a segment of level 0."""
    about = {"tables": [pin.to_json() for pin in page.tables]}
    return _encode({_PACKED: pack_commits(about, page.commits)})


def _encode(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
