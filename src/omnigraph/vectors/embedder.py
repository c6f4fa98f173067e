"""Fill missing and stale vectors of a branch in one commit, a block of entities at a time.

A journal on local disk keeps the vectors of a run that has not committed yet. A run that dies is
continued by the next one, so that no text is sent, and paid for, twice.
"""

from __future__ import annotations

import hashlib
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, Catalog, EntityType
from omnigraph.commit.request import Claims, Judge, WriteReceipt, WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.embed.provider import EmbeddingProvider, Vector, check_model
from omnigraph.lance_store.reads.row_lookup import find_sorted
from omnigraph.lance_store.staging.written_fragments import write_to
from omnigraph.manifest.changed_ids import ChangeListWriter, Op
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import tell
from omnigraph.scoping.write_scopes import WriterView
from omnigraph.settings.models import EmbeddingSettings
from omnigraph.values.clock import Clock
from omnigraph.values.known_names import LOCAL, SPARK, require_engine
from omnigraph.vectors.missing_vectors import (
    OPERATION,
    EmbedTarget,
    History,
    embed_targets,
    rows_to_embed,
)
from omnigraph.vectors.vector_requests import (
    RateLimit,
    ThreadRequests,
    VectorRequests,
)
from omnigraph.writes.changeset import AdoptRows, ChangeSet

_BLOCK = 20_000
_LOOKUP = 500


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """The branch and the types to embed, and the terms of the commit."""

    branch: str
    types: tuple[str, ...] | None = None
    actor_id: str | None = None
    message: str | None = None
    engine: str = LOCAL
    judge: Judge | None = None
    """None: the actor may change everything."""
    view: WriterView | None = None
    """What the request may name; None: everything."""


@dataclass(frozen=True, slots=True)
class EmbedReceipt:
    """`requested` texts were sent to the provider; `resumed` ones were in the journal."""

    write: WriteReceipt
    embedded: int
    requested: int
    resumed: int
    engine: str = LOCAL

    def to_dict(self) -> dict[str, Any]:
        counts = {"requested": self.requested, "resumed": self.resumed}
        return {**self.write.to_dict(), "engine": self.engine, "embedded": self.embedded, **counts}


@dataclass(slots=True)
class _EmbedRun:
    """What one run shares between its blocks, and between builds if it is built again."""

    requests: VectorRequests
    journal: VectorJournal
    scratch: Path
    embedded: int = 0
    requested: int = 0
    resumed: int = 0


@dataclass(frozen=True)
class Embedder:
    """The parts of an open graph that a run uses."""

    history: History
    transaction: Transaction
    provider: EmbeddingProvider
    settings: EmbeddingSettings
    spark_requests: Callable[[], VectorRequests]
    clock: Clock

    def run(self, request: EmbedRequest) -> EmbedReceipt:
        """Commit all vectors or none. Vectors in the journal of a run that died are used."""
        snapshot = self.history.reader.snapshot(*self.history.reader.branch(request.branch))
        if request.view is not None:
            embed_targets(request.view.named(snapshot.catalog), request.types)
        self._targets(snapshot, request)

        def claims_by(catalog: Catalog) -> Claims:
            targets = embed_targets(catalog, request.types)
            return Claims(tuple(dict.fromkeys(t.entity.table_key for t in targets)))

        write = WriteRequest(
            branch=request.branch,
            operation=OPERATION,
            tables=claims_by(snapshot.catalog).tables,
            claims_by=claims_by,
            actor_id=request.actor_id,
            message=request.message,
            long_build=True,
            judge=request.judge,
        )
        requests = self._requests(request.engine)
        directory = Path(self.settings.journal_dir or Path.home() / ".cache/omnigraph/embeddings")
        uri = self.history.store.location.uri
        with (
            VectorJournal(directory, uri, self.provider.model) as journal,
            tempfile.TemporaryDirectory(prefix="omnigraph-embed-") as scratch,
        ):
            run = _EmbedRun(requests, journal, Path(scratch))

            def build(current: Snapshot) -> ChangeSet:
                run.embedded = 0
                return self._build(current, request, run)

            receipt = self.transaction.run(write, build)
        return EmbedReceipt(receipt, run.embedded, run.requested, run.resumed, request.engine)

    def _requests(self, engine: str) -> VectorRequests:
        require_engine(engine, "embed")
        if engine == SPARK:
            return self.spark_requests()
        limit = RateLimit(self.settings.requests_per_minute, self.clock)
        return ThreadRequests(self.provider, limit, self.settings.parallel_requests)

    def _targets(self, snapshot: Snapshot, request: EmbedRequest) -> list[EmbedTarget]:
        targets = embed_targets(snapshot.catalog, request.types)
        for target in targets:
            check_model(self.provider, target.model, target.width)
        return targets

    def _build(self, snapshot: Snapshot, request: EmbedRequest, run: _EmbedRun) -> ChangeSet:
        targets = self._targets(snapshot, request)
        work = [(t, rows_to_embed(self.history, snapshot, t)) for t in targets]
        total = sum(rows.num_rows for _, rows in work)
        effects = []
        for entity in dict.fromkeys(t.entity for t, _ in work):
            ours = [(t, rows) for t, rows in work if t.entity == entity and rows.num_rows]
            if ours:
                effects.append(self._write(snapshot, entity, ours, run, total))
        return ChangeSet(tuple(effects))

    def _write(
        self,
        snapshot: Snapshot,
        entity: EntityType,
        work: list[tuple[EmbedTarget, pa.Table]],
        run: _EmbedRun,
        total: int,
    ) -> AdoptRows:
        """Rows of one type with their new vectors; `total` counts the texts of all types."""
        pin = snapshot.pin(entity.table_key)
        dataset = self.history.store.open(pin.at)
        changes = ChangeListWriter(run.scratch / f"{self.clock.new_ulid()}.arrow")
        schema = table_schema(entity)
        fragments: list[str] = []
        for ids in _blocks([rows for _, rows in work]):
            # Cast to the schema of the catalog, because a scan returns blobs as plain bytes.
            rows = find_sorted(dataset, ids, schema.names).select(schema.names).cast(schema)
            for target, wanted in work:
                part = wanted.filter(pc.is_in(wanted.column(ID), value_set=ids))
                rows = _with_vectors(rows, target, part, self._vectors(part, run))
                run.embedded += part.num_rows
                tell("embedding", run.embedded, total, "texts")
            fragments += write_to(dataset, rows)
            changes.add(Op.UPDATE, rows.column(ID))
        return AdoptRows(
            entity.table_key, pin.location, pin.branch, tuple(fragments), changes.finish()
        )

    def _vectors(self, part: pa.Table, run: _EmbedRun) -> dict[str, Vector]:
        texts = part.column("text").unique().to_pylist()
        found = run.journal.known(texts)
        run.resumed += len(found)
        unknown = [text for text in texts if text not in found]
        size = self.settings.batch_size
        batches = [unknown[i : i + size] for i in range(0, len(unknown), size)]

        def keep(fresh: dict[str, Vector]) -> None:
            run.journal.add(fresh)
            found.update(fresh)

        run.requests.ask(batches, keep)
        run.requested += len(unknown)
        return found


def _blocks(tables: Sequence[pa.Table]) -> Iterator[pa.Array]:
    """The distinct ids of all tables, ascending, in blocks."""
    columns = [chunk for table in tables for chunk in table.column(ID).chunks]
    ids = pc.unique(pa.chunked_array(columns, pa.string()))
    ids = ids.take(pc.array_sort_indices(ids))
    for start in range(0, len(ids), _BLOCK):
        yield ids.slice(start, _BLOCK)


def _with_vectors(
    rows: pa.Table, target: EmbedTarget, part: pa.Table, vectors: dict[str, Vector]
) -> pa.Table:
    """`rows` with new vectors for the entities in `part`; other entities keep theirs."""
    fresh = {row[ID]: vectors.get(row["text"]) for row in part.to_pylist()}
    position = rows.schema.get_field_index(target.property)
    declared = rows.schema.field(position)
    ids = rows.column(ID).to_pylist()
    stored = rows.column(position).to_pylist()
    values = [fresh.get(i) or old for i, old in zip(ids, stored, strict=True)]
    return rows.set_column(position, declared, pa.array(values, declared.type))


class VectorJournal:
    """Vectors by text, of one model for one graph, in one file that a commit removes.

    Threads may share it.
    """

    def __init__(self, directory: Path, graph_uri: str, model: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(f"{graph_uri}\0{model}".encode()).hexdigest()[:32]
        self._path = directory / f"{name}.sqlite"
        self._lock = threading.Lock()
        self._file = sqlite3.connect(self._path, check_same_thread=False, timeout=60)
        self._file.execute("CREATE TABLE IF NOT EXISTS vector (text BLOB PRIMARY KEY, value BLOB)")

    def __enter__(self) -> VectorJournal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if kind is None:
            self._path.unlink(missing_ok=True)

    def known(self, texts: Sequence[str]) -> dict[str, Vector]:
        """The vectors that the journal has of these texts."""
        digests = {_digest(text): text for text in texts}
        keys = list(digests)
        found: dict[str, Vector] = {}
        for start in range(0, len(keys), _LOOKUP):
            part = keys[start : start + _LOOKUP]
            marks = ",".join("?" * len(part))
            with self._lock:
                rows = self._file.execute(
                    f"SELECT text, value FROM vector WHERE text IN ({marks})", part
                ).fetchall()
            found |= {digests[key]: np.frombuffer(value, "<f8").tolist() for key, value in rows}
        return found

    def add(self, vectors: Mapping[str, Vector]) -> None:
        rows = [(_digest(t), np.asarray(v, "<f8").tobytes()) for t, v in vectors.items()]
        with self._lock, self._file:
            self._file.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", rows)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
