"""Exports that are read while they are made, for as long as their reader takes.

Cleanup keeps what was current within `MaintenanceSettings.minimum_age_seconds`. So the files of a
head stay while an export of it is young. An older export, and one of an earlier commit, posts a
hold, and a cleanup waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from omnigraph.commit.arming import IntentHold, hold_intent
from omnigraph.export.export_graph import Exporter
from omnigraph.graph.engine import Engine
from omnigraph.graph.managed import marked_export
from omnigraph.manifest.records import MAIN_REF
from omnigraph.manifest.snapshot import Snapshot

_SMALLEST_MEMORY = 128 * 1024 * 1024
_MEMORY_SHARE = 4
_YOUNG_SHARE = 0.5


def ndjson_stream(
    engine: Engine,
    snapshot: Snapshot,
    types: Sequence[str] | None = None,
    *,
    is_head: bool,
    actor: str | None = None,
    may_hold: bool = True,
    every_id: bool = True,
) -> Iterator[bytes]:
    """The lines of a snapshot, by default with all ids. Without `may_hold` nothing is posted."""
    # Several exports run side by side, so each sorts in a part of the memory.
    memory = max(_SMALLEST_MEMORY, engine.settings.load.memory_bytes // _MEMORY_SHARE)
    settings = replace(engine.settings.load, memory_bytes=memory)
    chunks = Exporter(engine.store, snapshot, settings, types).ndjson_chunks(every_id=every_id)
    with marked_export(engine, actor):
        yield from held_chunks(engine, chunks, is_head=is_head, actor=actor, may_hold=may_hold)


def held_chunks(
    engine: Engine, chunks: Iterator[bytes], *, is_head: bool, actor: str | None, may_hold: bool
) -> Iterator[bytes]:
    """The same chunks; cleanup is kept away while their files might be removed."""
    young = engine.settings.maintenance.minimum_age_seconds * _YOUNG_SHARE if is_head else 0.0
    hold_at = engine.clock.monotonic() + young
    with ExitStack() as held:
        hold: IntentHold | None = None
        while True:
            if may_hold and hold is None and engine.clock.monotonic() >= hold_at:
                write = engine.settings.write
                intent = hold_intent(MAIN_REF, actor, engine.clock.new_ulid(), write)
                hold = held.enter_context(IntentHold(engine.board, intent))
            chunk = next(chunks, None)
            if chunk is None:
                return
            if hold is not None:
                hold.check()
            yield chunk
