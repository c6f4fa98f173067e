"""`Graph`: the object users hold; delegates, owns no logic."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from omnigraph.errors import ReadOnlyGraph
from omnigraph.graph import reads
from omnigraph.graph.branching import Branching
from omnigraph.graph.collections import Branches, Commits, Schema, Tags
from omnigraph.graph.engine import Engine
from omnigraph.values.identifiers import MAIN

if TYPE_CHECKING:
    from omnigraph.commit.request import WriteReceipt
    from omnigraph.execute.result import QueryResult
    from omnigraph.export.export_graph import ExportReceipt
    from omnigraph.graph.indexes import IndexStatus
    from omnigraph.graph.schema_source import SchemaSource
    from omnigraph.lance_store.reads.blob_reads import StoredBlob
    from omnigraph.load.options import LoadReceipt
    from omnigraph.maintain.backup import BackupReport
    from omnigraph.maintain.cleanup import CleanupReport
    from omnigraph.maintain.repair import RepairReport
    from omnigraph.maintain.status import GraphStatus
    from omnigraph.maintain.verify import VerifyReport
    from omnigraph.manifest.records import RecoveryAudit, StreamBatch
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.mutate.mutation import MutationReceipt
    from omnigraph.vectors.embedder import EmbedReceipt
    from omnigraph.writes.shape import Edit


class Graph(Branching):
    """A graph on disk. Safe to share between threads; sees other processes' commits at once."""

    def __init__(self, engine: Engine, actor: str | None, *, read_only: bool) -> None:
        self._engine = engine
        self.actor = actor
        self.read_only = read_only
        self.branches = Branches(self)
        self.tags = Tags(self)
        self.commits = Commits(engine)
        self.schema = Schema(engine)

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def uri(self) -> str:
        return self._engine.store.location.uri

    @property
    def format_version(self) -> int:
        """The format stamp of the files; this release writes `format_stamp.CURRENT`."""
        return reads.format_version(self._engine)

    def snapshot(self, branch: str = MAIN, *, at: str | None = None) -> Snapshot:
        """One coherent state: the head of `branch`, or `at` a commit, tag, moment or branch."""
        return reads.snapshot(self._engine, branch, at)

    def read(
        self,
        type_name: str,
        branch: str = MAIN,
        *,
        at: str | None = None,
        ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Entities of one type: all of them, or those with the given ids."""
        return reads.read_type(self._engine, self.snapshot(branch, at=at), type_name, ids, columns)

    def query(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = MAIN,
        *,
        at: str | None = None,
        timeout: float | None = None,
        cancel: threading.Event | None = None,
        engine: str = "local",
    ) -> QueryResult:
        """Run one query of a text; `at` is a commit, tag, moment or branch.

        After `timeout` seconds, or when another thread sets `cancel`, it ends with `ResourceLimit`.
        With `engine="spark"` Spark's executors do the work, for graphs larger than one machine.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.name } }").to_pylist()
        """
        from omnigraph.execute.query_request import QueryBounds, QueryText
        from omnigraph.graph.query_engines import query_engine

        text = QueryText(source, name, params, at)
        bounds = QueryBounds(timeout, cancel)
        runner = query_engine(self._engine, engine)
        return runner.run(self.snapshot(branch, at=at), text, bounds)

    def explain(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = MAIN,
        *,
        at: str | None = None,
    ) -> str:
        """The plan, one operator a line, in the order rows flow; `params` are only checked."""
        from omnigraph.execute.query_request import QueryText

        text = QueryText(source, name, params)
        return self._engine.queries.explain(self.snapshot(branch, at=at), text)

    def profile(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = MAIN,
        *,
        at: str | None = None,
        timeout: float | None = None,
        cancel: threading.Event | None = None,
    ) -> str:
        """Run a query; its plan with the rows and milliseconds of every operator."""
        from omnigraph.execute.query_request import QueryBounds, QueryText

        text = QueryText(source, name, params)
        bounds = QueryBounds(timeout, cancel)
        return self._engine.queries.profile(self.snapshot(branch, at=at), text, bounds)

    def mutate(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = MAIN,
        *,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationReceipt:
        """Run one mutation of a text: all of its statements in one commit, or nothing.

        Example:
            >>> graph.mutate('query add() { insert Person { name: "Ada" } }').affected_nodes
            1
        """
        from omnigraph.mutate.mutation import Mutation

        terms = (branch, self.actor, message, if_commit, idempotency_key)
        mutation = Mutation(*terms, source=source, name=name, params=params)
        return self.writable().mutator.run(mutation)

    def apply(
        self,
        edits: Mapping[str, Edit | Mapping[str, object]],
        branch: str = MAIN,
        *,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> WriteReceipt:
        """Insert, upsert and delete entities of several types in one commit.

        Example:
            >>> graph.apply({"Person": Edit(upsert=[{"name": "Ada"}]), "Knows": Edit(delete=[e])})
        """
        from omnigraph.commit.request import CommitTerms
        from omnigraph.graph import writes

        terms = CommitTerms(branch, self.actor, message, if_commit, idempotency_key)
        return writes.apply(self.writable(), edits, terms)

    def load(
        self,
        data: Any,
        mode: str = "append",
        branch: str = MAIN,
        *,
        from_branch: str | None = None,
        engine: str = "auto",
        type: str | None = None,
        columns: Mapping[str, str] | None = None,
        progress: bool | Callable[[int, int], None] | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        stream_batch: StreamBatch | None = None,
    ) -> LoadReceipt:
        """Load files or tables as one commit: all of it, or nothing and an error with its place.

        Args:
            data: A path, glob or directory (`.ndjson .csv .parquet`), an open binary file of
                NDJSON, an Arrow table or reader, a pandas or polars frame, or a list of these; a
                Spark DataFrame, or a dict of them by type.
            mode: `append` refuses ids that exist, `merge` replaces them, `overwrite` replaces the
                types that occur in the input.
            branch: Where the entities go.
            from_branch: Fork `branch` from here when there is none.
            engine: `local` runs in this process; `auto` chooses.
            type: The type of a table, or of a Parquet or CSV file whose name does not say it.
            columns: Names in Parquet and CSV files -> properties.
            progress: True for a bar on stderr, None for one on terminals only, or a function that
                gets (bytes, rows) of every block.
            message: For the commit.
            if_commit: Refuse unless this is the head of the branch.
            idempotency_key: The same key again gives the first commit.
            stream_batch: The batch of a stream that this load commits; a batch that was committed
                before changes nothing.
        """
        from omnigraph.graph import loading
        from omnigraph.load.options import LoadMode, LoadOptions

        if stream_batch is not None and message is None:
            message = f"stream {stream_batch.stream}, batch {stream_batch.batch}"
        options = LoadOptions(
            branch,
            self.actor,
            message,
            if_commit,
            idempotency_key,
            mode=LoadMode.parse(mode),
            type_name=type,
            columns=columns,
            stream_batch=stream_batch,
        )
        return loading.load(self.writable(), data, options, from_branch, (engine, progress))

    def export(
        self,
        path: str | os.PathLike[str] | BinaryIO | None = None,
        branch: str = MAIN,
        *,
        at: str | None = None,
        types: Sequence[str] | None = None,
        format: str = "ndjson",
        engine: str = "local",
    ) -> ExportReceipt:
        """Write a branch, or `at` a commit, tag or moment, so that a load gives the same graph.

        `path` is a file for `ndjson` and a directory for `parquet`; None is stdout. With
        `engine="spark"` it is a directory of parts that workers write side by side.
        """
        from omnigraph.graph import exporting

        snapshot = self.snapshot(branch, at=at)
        return exporting.export(self._engine, snapshot, path, types, (format, engine))

    def blob(
        self,
        kind: str,
        type: str,
        id: str,
        property: str,
        branch: str = MAIN,
        *,
        at: str | None = None,
    ) -> StoredBlob:
        """A stored blob: `size`, and `read(offset, length)` of any range.

        Example:
            >>> graph.blob("node", "Person", "ada", "photo").read(0, 16)
        """
        from omnigraph.graph import exporting

        snapshot = self.snapshot(branch, at=at)
        return exporting.blob(self._engine, snapshot, (kind, type, id, property))

    def extend_schema(self, schema: SchemaSource, branch: str = MAIN) -> WriteReceipt:
        """Add types: `schema` (text, `.pg` file or catalog) holds the present ones unchanged."""
        from omnigraph.graph import writes

        return writes.extend_schema(self.writable(), schema, branch, self.actor)

    def optimize(
        self,
        branch: str | None = None,
        types: Sequence[str] | None = None,
        *,
        engine: str = "local",
    ) -> list[str]:
        """Compact and index one branch, or all; the types that writers kept us from.

        Without a branch they are named as `branch: type`. With `engine="spark"` executors rewrite
        the files of a table, and build its indexes, side by side.
        """
        from omnigraph.graph import upkeep

        how = upkeep.Upkeep(types, self.actor, engine)
        return upkeep.optimize(self.writable(), branch, how)

    def ensure_indices(
        self,
        branch: str = MAIN,
        types: Sequence[str] | None = None,
        *,
        engine: str = "local",
    ) -> list[str]:
        """Build what the schema declares; the names of the types writers kept us from.

        With `engine="spark"` executors build the parts of an index side by side.
        """
        from omnigraph.graph import indexes

        return indexes.ensure_indices(self.writable(), branch, types, self.actor, engine)

    def index_status(self, branch: str = MAIN) -> list[IndexStatus]:
        """Every declared index: how many rows it covers and how many it does not yet."""
        from omnigraph.graph import indexes

        return indexes.index_status(self._engine, branch)

    def status(self) -> GraphStatus:
        """Fragments, coverage, history, writers in flight and bytes, per branch and type."""
        from omnigraph.graph import upkeep

        return upkeep.status(self._engine)

    def embed(
        self,
        branch: str = MAIN,
        types: Sequence[str] | None = None,
        *,
        message: str | None = None,
        engine: str = "local",
    ) -> EmbedReceipt:
        """Fill missing and outdated vectors of `@embed` properties in one commit; resumable.

        `engine="spark"` asks the provider from all cores of the Spark session.
        """
        from omnigraph.vectors.embedder import EmbedRequest

        wanted = tuple(types) if types is not None else None
        request = EmbedRequest(branch, wanted, self.actor, message, engine)
        return self.writable().embedder.run(request)

    def cleanup(
        self,
        keep: int | None = None,
        older_than: str | dt.timedelta | None = None,
        *,
        confirm: bool = False,
    ) -> CleanupReport:
        """Remove what no branch, tag or writer needs; without `confirm` only report it.

        A commit's snapshot stays readable when it is among the newest `keep` of a branch or was
        its head less than `older_than` ago (`"7d"`); without either all do. The commit log stays.

        Example:
            >>> graph.cleanup(keep=100, older_than="7d").bytes
        """
        from omnigraph.graph import upkeep

        wanted = upkeep.retention(keep, older_than)
        if confirm:
            return self.writable().cleanup.run(wanted, self.actor)
        return self._engine.cleanup.preview(wanted)

    def verify(self, commits: int = 20, *, full: bool = False) -> VerifyReport:
        """Check every invariant, and the newest `commits` of each branch against their snapshots.

        Sorted indexes of columns with many values are compared with scans on a sample of them;
        `full` compares all.

        Example:
            >>> graph.verify().ok
        """
        from omnigraph.graph import upkeep

        return upkeep.verify(self._engine, commits, full=full)

    def for_repair(self) -> Graph:
        """The same graph, writable without recovery: an unreadable intent refuses every other."""
        return Graph(self._engine, self.actor, read_only=False)

    def repair(self, *, confirm: bool = False, force: bool = False) -> RepairReport:
        """Show tables whose HEAD is not what the manifest says; `confirm` puts them right.

        `force` also moves intents aside that cannot be read.
        """
        if confirm:
            return self.writable().repair.run(self.actor, force=force)
        return self._engine.repair.preview()

    def backup(self, target: str | os.PathLike[str]) -> BackupReport:
        """Copy the graph with branches, tags and history to an empty place; writers go on.

        Example:
            >>> graph.backup("s3://backups/people-2026-01-01").bytes
        """
        from omnigraph.graph import upkeep

        return upkeep.backup(self.writable(), target, self.actor)

    def refresh(self) -> int:
        """Recover what dead writers left; how many intents that were."""
        return self.writable().recovery.sweep()

    def recoveries(self) -> list[RecoveryAudit]:
        """One record per recovery, newest first."""
        from omnigraph.commit.recovery.audit import read_audits

        return read_audits(self._engine.store)

    def writable(self) -> Engine:
        if self.read_only:
            raise ReadOnlyGraph(f"{self.uri} was opened with read_only=True")
        return self._engine
