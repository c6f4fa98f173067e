"""Older commits: packed into immutable `__history` segments so that heads stay small.

A level-0 segment holds commit rows and the pins after the last of them; when enough segments of one
level stand side by side, an index segment gathers them. The head thus names a handful of segments
however long the history is, and nothing is ever rewritten.
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
from omnigraph.manifest.publication import undo_commits
from omnigraph.manifest.records import HistorySegment, StoredCommit, TablePin
from omnigraph.settings.models import HistorySettings
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.clock import Clock


@dataclass(frozen=True, slots=True)
class CommitPage:
    """The content of a level-0 segment."""

    commits: tuple[StoredCommit, ...]
    tables: tuple[TablePin, ...]


_Content = CommitPage | tuple[HistorySegment, ...]

# Commits that were looked at are parsed, which takes some five times the memory of their text.
_SEGMENTS = 2048
_SEGMENT_BYTES = 32 * 1024**2


@dataclass(frozen=True, slots=True)
class PackedHead:
    """A state whose window is small again, and the objects to write before it is published."""

    state: BranchState
    objects: tuple[tuple[str, bytes], ...] = ()


def pack(state: BranchState, settings: HistorySettings, clock: Clock) -> PackedHead:
    """Move old commit rows out of the head when there are too many or too large ones."""
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
    """Reads segments; they never change, so they are kept."""

    def __init__(self, files: ControlFiles) -> None:
        self._files = files
        self._known: BoundedCache[str, _Content] = BoundedCache(_SEGMENTS, _SEGMENT_BYTES)

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
        """The id of the first commit that was packed; None when none was."""
        if not segments:
            return None
        content = self._load(segments[0].segment_id)
        return (
            content.commits[0].commit_id
            if isinstance(content, CommitPage)
            else self.oldest(content)
        )

    def page(self, segment_id: str) -> CommitPage:
        """One page by its id: what a merge brought in."""
        content = self._load(segment_id)
        if not isinstance(content, CommitPage):
            raise FormatUnknown(f"history segment {segment_id} is no page", segment=segment_id)
        return content

    def with_children(
        self, segments: tuple[HistorySegment, ...]
    ) -> Iterator[tuple[HistorySegment, CommitPage | None]]:
        """Every segment at every level; those of commits with their page."""
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
    return CommitPage(
        tuple(StoredCommit(i, tuple(parents), text) for i, parents, text in body["commits"]),
        tuple(TablePin.from_json(pin) for pin in body["tables"]),
    )


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
    """Where the last `fan_out` segments begin, if they are all of one level."""
    tail = history[-fan_out:]
    full = len(tail) == fan_out and len({s.level for s in tail}) == 1
    return len(history) - fan_out if full else None


def encode_page(page: CommitPage) -> bytes:
    """The object form of a level-0 segment."""
    body = {
        "commits": [[c.commit_id, list(c.parents), c.text] for c in page.commits],
        "tables": [pin.to_json() for pin in page.tables],
    }
    return _encode(body)


def _encode(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
