"""`Graph`: the object that users hold. Every operation on a graph begins in one of its methods.

A method checks and names its arguments and calls one operation of another package. The operations
of `graph.branches`, `graph.tags`, `graph.commits` and `graph.schema` are in `graph.collections`,
those of `graph.queries` in `graph.stored_queries`.
A method imports what it calls, because a process seldom needs all of them.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

import pyarrow as pa

from omnigraph.errors import NotFound, OmnigraphError
from omnigraph.graph import reads
from omnigraph.graph.access import Access, Gate
from omnigraph.graph.admission import Admission
from omnigraph.graph.collections import Branches, Commits, Schema, Tags
from omnigraph.graph.engine import Engine, open_store
from omnigraph.graph.stored_queries import Queries
from omnigraph.manifest.commit_graph import CommitName, is_commit_id, name_text
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.policy.actions import (
    ADMIN,
    BRANCH_CREATE,
    BRANCH_DELETE,
    BRANCH_MERGE,
    CHANGE,
    EXPORT,
    READ,
)
from omnigraph.values.identifiers import MAIN
from omnigraph.values.known_names import LOCAL, require_engine
from omnigraph.values.query_request import QueryBounds

if TYPE_CHECKING:
    from omnigraph.commit.request import WriteReceipt
    from omnigraph.diff.change import ChangePage
    from omnigraph.execute.query_types import QueryResult
    from omnigraph.export.export_graph import ExportReceipt
    from omnigraph.feed import FeedPage
    from omnigraph.graph.external_blob import ExternalBlob
    from omnigraph.graph.reads import QuerySource
    from omnigraph.lance_store.reads.blob_reads import StoredBlob
    from omnigraph.load.options import LoadOptions, LoadReceipt
    from omnigraph.maintain.backup import BackupReport
    from omnigraph.maintain.cleanup import CleanupReport
    from omnigraph.maintain.repair import RepairReport
    from omnigraph.maintain.status import GraphStatus, IndexStatus
    from omnigraph.maintain.verify import VerifyReport
    from omnigraph.manifest.records import RecoveryAudit, StreamBatch
    from omnigraph.merge.conflicts import MergePreview, MergeResult
    from omnigraph.mutate.mutation import MutationReceipt
    from omnigraph.plan.plan_text import QueryPlan
    from omnigraph.stored_queries.registry import QueryRegistry
    from omnigraph.vectors.embedder import EmbedReceipt
    from omnigraph.writes.shape import Edit


OptionsT = TypeVar("OptionsT", bound="LoadOptions")


class Graph:
    """An open graph. Threads may share it; it sees the commits of other processes at once."""

    def __init__(
        self,
        engine: Engine,
        actor: str | None,
        *,
        read_only: bool,
        queries: QueryRegistry | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._use(Access(engine, actor, read_only=read_only, gate=gate, queries=queries))

    def _use(self, access: Access) -> None:
        self._access = access
        self.branches = Branches(self._access)
        self.tags = Tags(self._access)
        self.commits = Commits(self._access)
        self.schema = Schema(self._access)
        self.queries = Queries(self._access, self.query, partial(self._mutate, is_stored=True))

    def __repr__(self) -> str:
        access = self._access
        told = [access.uri]
        if access.actor is not None:
            told.append(f"actor {access.actor!r}")
        if access.read_only:
            told.append("read-only")
        return f"<Graph {', '.join([*told, self._head_text()])}>"

    def _head_text(self) -> str:
        """The head for `repr`, which must not raise when the storage is out of reach."""
        if self._access.closed:
            return "closed"
        if not self._access.allows(READ, MAIN):
            return "head not readable"
        try:
            return f"{MAIN} at {self.engine.reader.branch(MAIN)[1].head_commit_id}"
        except OmnigraphError as error:
            return f"head unknown ({error.code})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def as_actor(
        self,
        actor: str | None,
        *,
        gate: Gate | None = None,
        admission: Admission | None = None,
    ) -> Graph:
        """The same open graph under another name, which its commits carry.

        Caches are shared, so this costs nothing. The new handle is closed with this one. `gate`
        and `admission` bound what it may do; by default the bounds of this handle.

        Example:
            >>> graph.as_actor("ada").mutate('insert Person { name: "Ada" }')
        """
        handle = Graph.__new__(Graph)
        handle._use(self._access.for_actor(actor, gate, admission))  # noqa: SLF001
        return handle

    def require(
        self,
        action: str,
        branch: str | None = None,
        target: str | None = None,
        query: str | None = None,
    ) -> None:
        """Raise `PolicyDenied` unless this handle may do that; without a policy it may do all."""
        self._access.require(action, branch, target, query)

    def close(self) -> None:
        """Stop the upkeep thread and let go of all handles and caches.

        Results that were returned stay readable. Every later call raises `GraphClosed`, except
        another `close`.

        Example:
            >>> with omnigraph.open("people.omni") as graph:
            ...     graph.query("match { $p: Person } return { count($p) as people }")
        """
        self._access.close()

    @property
    def actor(self) -> str | None:
        """The name that commits of this handle carry."""
        return self._access.actor

    @property
    def read_only(self) -> bool:
        return self._access.read_only

    @property
    def access(self) -> Access:
        """What this handle may do, for servers that run parts of an operation themselves."""
        return self._access

    @property
    def engine(self) -> Engine:
        """The parts behind this handle, for tests and tools that look below the operations.

        No policy holds there.
        """
        return self._access.engine

    @property
    def uri(self) -> str:
        return self._access.uri

    @property
    def format_version(self) -> int:
        """The format stamp of the files; this release writes `branch_state.CURRENT_FORMAT`."""
        return self.engine.reader.format_version

    # Reading

    def snapshot(self, branch: str = MAIN, *, at: CommitName | None = None) -> Snapshot:
        """One consistent state: the head of `branch`, or `at` a commit, tag, moment or branch.

        `at` is a commit id or a unique prefix of one, a tag, a branch, a moment (a datetime or RFC
        3339 text, of `branch`), `HEAD`, or `NAME~N`: N first parents above one of these.
        """
        return self.state(READ, branch, at=at)

    def state(self, action: str, branch: str = MAIN, *, at: CommitName | None = None) -> Snapshot:
        """The state that an action of this handle works on, with what its rules show of it.

        `snapshot` is the state for `read`. An export may see another part than a read.
        """
        return self._access.snapshot(branch, at, action)

    def seen(self, snapshot: Snapshot, action: str = READ) -> Snapshot:
        """A state of this graph with what the rules of this handle show of it."""
        return self._access.seen(snapshot, action)

    def read(
        self,
        type_name: str,
        branch: str = MAIN,
        *,
        at: CommitName | None = None,
        ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Entities of one type: all of them, or those with the given ids."""
        snapshot = self.snapshot(branch, at=at)
        with self._access.slot():
            return reads.read_type(self.engine, snapshot, type_name, ids, columns)

    def blob(
        self,
        kind: str,
        type: str,
        id: str,
        property: str,
        branch: str = MAIN,
        *,
        at: CommitName | None = None,
    ) -> StoredBlob | ExternalBlob:
        """A blob: `size`, and `read(offset, length)` of any range.

        `uri` is None, or the address of a blob outside of the graph. Such a blob can be read if
        its address lies below a base that the graph was opened with (`external_blobs=`).

        Example:
            >>> graph.blob("node", "Person", "ada", "photo").read(0, 16)
        """
        snapshot = self.snapshot(branch, at=at)
        return reads.blob(self.engine, snapshot, kind, type, id, property)

    def query(
        self,
        source: QuerySource,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = MAIN,
        *,
        at: CommitName | None = None,
        timeout: float | None = None,
        cancel: threading.Event | None = None,
        engine: str = LOCAL,
        names: str = reads.NAMES_THEN,
    ) -> QueryResult:
        """Run one query; `at` is a commit, tag, moment or branch.

        The query uses the names of types and properties that the state `at` has. With
        `names="current"` it uses those of the head of `branch`; a property that did not exist then
        is NULL.

        `source` is the text of one or more queries, the path of a `.gq` file, or one query without
        `query name() { … }`, which then has no parameters.

        After `timeout` seconds, or when another thread sets `cancel`, it ends with `ResourceLimit`.
        With `engine="spark"` Spark's executors do the work, for graphs larger than one machine:
        the query runs when its rows are first read, or not here at all with `to_spark()`.

        Example:
            >>> graph.query("people.gq", "friends_of", {"name": "Ada"})
            >>> graph.query("match { $p: Person } return { $p.name }").to_pylist()
        """
        require_engine(engine, "query")
        opened = self.engine
        text = reads.query_text(source, name, params, name_text(at))
        if names != reads.NAMES_THEN:
            text = reads.by_names(text, names, lambda: self.snapshot(branch))
        runner = opened.queries if engine == LOCAL else opened.spark_queries
        snapshot = self._access.snapshot(branch, at)
        with self._access.slot():
            result = runner.run(snapshot, text, QueryBounds(timeout, cancel))
        result.frame_of = opened.spark_frame_of
        return result

    def kept_answer(
        self,
        source: QuerySource,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = MAIN,
    ) -> QueryResult | None:
        """The answer of `query`, if the setting `answer_bytes` has kept it since the last commit.

        Nothing is computed. On an object store it is always None, because to look at the head is
        a request there.
        """
        opened = self.engine
        if opened.store.location.path is None:
            return None
        snapshot = self._access.snapshot(branch, None)
        with self._access.slot():
            return opened.queries.kept(snapshot, reads.query_text(source, name, params))

    def explain(
        self,
        source: QuerySource,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = MAIN,
        *,
        at: CommitName | None = None,
        names: str = reads.NAMES_THEN,
    ) -> QueryPlan:
        """The plan of a query; `str()` of it is one operator on each line, in the order rows flow.

        `params` are only checked.

        Example:
            >>> print(graph.explain("people.gq", "friends_of"))
        """
        text = reads.query_text(source, name, params)
        text = reads.by_names(text, names, lambda: self.snapshot(branch))
        snapshot = self.snapshot(branch, at=at)
        return self.engine.queries.explain(snapshot, text)

    def profile(
        self,
        source: QuerySource,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = MAIN,
        *,
        at: CommitName | None = None,
        timeout: float | None = None,
        cancel: threading.Event | None = None,
        names: str = reads.NAMES_THEN,
    ) -> QueryPlan:
        """Run a query; its plan with the rows and the time of every operator, and in total."""
        text = reads.query_text(source, name, params)
        text = reads.by_names(text, names, lambda: self.snapshot(branch))
        snapshot = self.snapshot(branch, at=at)
        with self._access.slot():
            return self.engine.queries.profile(snapshot, text, QueryBounds(timeout, cancel))

    def export(
        self,
        path: str | os.PathLike[str] | BinaryIO | None = None,
        branch: str = MAIN,
        *,
        at: CommitName | None = None,
        types: Sequence[str] | None = None,
        format: str = "ndjson",
        engine: str = LOCAL,
    ) -> ExportReceipt:
        """Write a branch, or `at` a commit, tag or moment, so that a load gives the same graph.

        `path` is a file for `ndjson` and a directory with one file per type for `csv` and
        `parquet`. None is stdout, which gets `ndjson`, or `csv` of one type. With
        `engine="spark"` it is a directory of parts that executors write side by side.
        """
        from omnigraph.graph import bulk

        snapshot = self.state(EXPORT, branch, at=at)
        return bulk.export(
            self.engine,
            snapshot,
            path,
            types,
            file_format=format,
            engine=engine,
            actor=self.actor,
        )

    # Writing

    def mutate(
        self,
        source: QuerySource,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = MAIN,
        *,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationReceipt:
        """Run one mutation: all of its statements in one commit, or nothing.

        `source` is as for `query`.

        Example:
            >>> graph.mutate('insert Person { name: "Ada" }').affected_nodes
            1
            >>> graph.mutate("people.gq", "birthday", {"name": "Ada"})
        """
        return self._mutate(
            source,
            name,
            params,
            branch,
            message=message,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
        )

    def _mutate(
        self,
        source: QuerySource,
        name: str | None,
        params: Mapping[str, object] | None,
        branch: str,
        *,
        message: str | None,
        if_commit: str | None,
        idempotency_key: str | None,
        is_stored: bool = False,
    ) -> MutationReceipt:
        from omnigraph.mutate.mutation import Mutation

        given = reads.query_source(source)
        mutation = Mutation(
            branch=branch,
            actor=self.actor,
            message=message,
            if_commit=self._expected(if_commit, branch),
            idempotency_key=idempotency_key,
            source=given.text,
            file=given.file,
            name=name,
            is_stored=is_stored,
            params=params,
            judge=self._access.judge(branch),
            view=self._access.writer(branch),
        )

        def estimate() -> int:
            return len(given.text) + len(json.dumps(params, default=str) if params else "")

        with self._access.writing(CHANGE, branch, estimate=estimate) as engine:
            if idempotency_key is None:
                return engine.mutator.run(mutation)
            from omnigraph.graph import keyed_writes

            return keyed_writes.mutate(engine, mutation)

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
        from omnigraph.graph.edits import apply_edits
        from omnigraph.graph.keyed_writes import details_of, keyed, write_receipt_replay

        request = keyed("apply", self.actor, idempotency_key, branch, edits, message, if_commit)
        terms = CommitTerms(
            branch=branch,
            actor=self.actor,
            message=message,
            if_commit=self._expected(if_commit, branch),
            idempotency_key=idempotency_key,
            details=details_of(request),
            judge=self._access.judge(branch),
        )
        with self._access.writing(CHANGE, branch) as engine:

            def run() -> WriteReceipt:
                return apply_edits(engine, edits, terms, self._access.writer(branch))

            if request is None:
                return run()
            return engine.requests.once(request, run, write_receipt_replay(branch))[0]

    def load(
        self,
        data: Any,
        mode: str | Mapping[str, str] = "append",
        branch: str = MAIN,
        *,
        scope: str | Mapping[str, str] | None = None,
        from_branch: str | None = None,
        engine: str = "auto",
        type: str | None = None,
        map: Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
        delimiter: str | None = None,
        quote: str | None = None,
        encoding: str | None = None,
        on_error: str = "fail",
        max_errors: int | None = None,
        rejects: str | os.PathLike[str] | None = None,
        progress: bool | Callable[[int, int], None] | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        stream_batch: StreamBatch | None = None,
        details: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        before_commit: Callable[[LoadReceipt], object] | None = None,
    ) -> LoadReceipt:
        """Load files or tables as one commit: all of it, or nothing and an error with its place.

        Args:
            data: A path, glob or directory (`.ndjson .json .csv .tsv .parquet .arrow .feather`,
                text also as `.gz` and `.zst`), an open binary file of NDJSON, an Arrow table or
                reader, a pandas or polars frame, rows as dicts, or a list of these; a Spark
                DataFrame; or a dict of them by type.
            mode: `append` refuses ids that exist, `merge` replaces whole entities, `patch` changes
                only what the input has and leaves other properties as they are, `overwrite`
                replaces the types that occur in the input, `mirror` merges and removes entities
                that the input does not have. A dict has the mode of each type, and `data` is then
                a dict by type, too.
            scope: With `mirror`: a condition, as after `delete … where`; entities for which it is
                not true are not removed. A dict has the condition of each type.
            branch: The branch that gets the entities.
            from_branch: If `branch` does not exist, the load forks it from this branch.
            engine: `local` runs in this process, `spark` on Spark; `auto` chooses by the size.
            type: The type of a table, of JSON rows or dicts that do not name theirs, or of a file
                whose name does not say it.
            map: Names of columns in the input -> properties.
            columns: The older name of `map`.
            delimiter: The character between the cells of CSV files. By default a comma, a tab in
                `.tsv` files, or the `;`, tab or `|` of a header without a comma.
            quote: The character around cells of CSV files; by default `"`.
            encoding: The encoding of text files; by default UTF-8, or what their first bytes say.
            on_error: `fail` refuses an input with a row that breaks a rule. `skip` loads the other
                rows, without edges of rejected nodes and what else depends on a rejected row.
            max_errors: With `skip`: a load with more rejected rows fails. By default 1,000; 0 is no
                limit.
            rejects: A file that gets the rejected rows as NDJSON, also when the load fails.
            progress: True shows a bar on stderr, None shows one on terminals only; a function
                gets (bytes, rows) of every block.
            message: The message of the commit.
            if_commit: The load is refused unless this commit is the head of the branch.
            idempotency_key: A second load with the same key returns the first commit.
            stream_batch: The batch of a stream that this load commits; a batch that was committed
                before changes nothing.
            details: What `Commit.details` of the commit records: a JSON object by subject.
            dry_run: Check the input and count what would change, without a commit. The receipt
                says `dry_run` and has no commit; violations are raised as by the load itself.
            before_commit: Called with the receipt of the planned write, which has no commit yet.
                An exception that it raises stops the load. It is called again if another writer
                changed the counts since.
        """
        from omnigraph.graph import bulk
        from omnigraph.load.commit_details import details_to_record
        from omnigraph.load.input_files import TextForm
        from omnigraph.load.modes import LoadModes
        from omnigraph.load.options import LoadOptions, OnError

        if stream_batch is not None and message is None:
            message = f"stream {stream_batch.stream}, batch {stream_batch.batch}"
        options = LoadOptions(
            branch=branch,
            actor=self.actor,
            message=message,
            if_commit=self._expected(if_commit, branch),
            idempotency_key=idempotency_key,
            modes=LoadModes.parse(mode, scope),
            type_name=type,
            columns=map if map is not None else columns,
            text=TextForm(encoding, delimiter, quote),
            stream_batch=stream_batch,
            details=details_to_record(details),
            on_error=OnError.parse(on_error),
            max_errors=max_errors,
            rejects=rejects,
            dry_run=dry_run,
            before_commit=before_commit,
        )
        options = self._bounded(options)
        with self._access.writing(CHANGE, branch, estimate=lambda: bulk.estimate(data)) as parts:
            if from_branch is not None and bulk.is_missing(parts, branch):
                self._access.require(BRANCH_CREATE, from_branch, branch)
                self._access.require(READ, from_branch)

            def run() -> LoadReceipt:
                return bulk.load(
                    parts,
                    data,
                    options,
                    from_branch=from_branch,
                    engine=engine,
                    progress=progress,
                )

            if idempotency_key is None or dry_run:
                return run()
            from omnigraph.commit.keyed_requests import KeyedRequest
            from omnigraph.graph import keyed_writes

            request = KeyedRequest("load", self.actor, idempotency_key, None, branch)
            return keyed_writes.load(parts, request, run)

    def load_options(self, options: OptionsT) -> OptionsT:
        """Options of a load with the rules of this handle, for loads in which Spark moves rows."""
        self._access.require(CHANGE, options.branch)
        return self._bounded(options)

    def _bounded(self, options: OptionsT) -> OptionsT:
        from omnigraph.load.modes import SHRINKING

        modes, access = options.modes, self._access
        judge = access.judge(options.branch, lambda name: modes.of_type(name) in SHRINKING)
        return replace(options, judge=judge, view=access.writer(options.branch))

    def embed(
        self,
        branch: str = MAIN,
        types: Sequence[str] | None = None,
        *,
        message: str | None = None,
        engine: str = LOCAL,
    ) -> EmbedReceipt:
        """Fill missing and outdated vectors of `@embed` properties in one commit; resumable.

        `engine="spark"` asks the provider from all cores of the Spark session.
        """
        from omnigraph.vectors.embedder import EmbedRequest

        wanted = tuple(types) if types is not None else None
        judge, view = self._access.judge(branch), self._access.writer(branch)
        request = EmbedRequest(branch, wanted, self.actor, message, engine, judge, view)
        with self._access.writing(CHANGE, branch) as parts:
            return parts.embedder.run(request)

    def _expected(self, name: str | None, branch: str) -> str | None:
        """The id that `if_commit` means. A name of no commit is left to fail as a precondition."""
        if name is None or is_commit_id(name):
            return name
        self._access.require(CHANGE, branch)
        try:
            return self._access.commits().resolve(name, branch)
        except NotFound:
            return name

    # Merging

    def merge(
        self,
        source: str,
        into: str = MAIN,
        strategy: str = "fail",
        resolutions: object = None,
        preview: bool = False,
        delete_branch: bool = False,
        message: str | None = None,
        engine: str = "auto",
        *,
        idempotency_key: str | None = None,
    ) -> MergeResult | MergePreview:
        """Bring what `source` changed into `into`, property by property, as one commit.

        `strategy` decides every conflict for `ours` (the target) or `theirs` (the source);
        `resolutions` decides single ones: a list, or a JSON or YAML file, of `{type_name,
        entity_id, property?, take: base|ours|theirs|delete}` or `{…, value: …}`. An entry
        `{type_name, property?, take: ours|theirs}` decides about the schema. Conflicts that
        neither decides raise `MergeConflicts`. `preview=True` returns the list of conflicts
        instead, with `outcome` and `changes`, and writes nothing. `delete_branch=True` removes
        `source` afterwards, unless it moved during the merge. With `engine="spark"` executors merge
        the rows; `auto` uses them from `PipelineSettings.spark_merge_from_rows` rows on, if a
        session is up. The result is the same.

        Example:
            >>> graph.merge("review/x", into="main", strategy="theirs").outcome
        """
        if preview:
            return self.preview_merge(source, into, strategy, resolutions)
        from omnigraph.graph import keyed_writes
        from omnigraph.merge.decisions import Decisions, read_resolutions
        from omnigraph.merge.operation import MergeRequest, merge_branches

        asked = (source, strategy, resolutions, delete_branch, message)
        keyed = keyed_writes.keyed("merge", self.actor, idempotency_key, into, *asked)

        def may_delete() -> None:
            self._access.require(BRANCH_DELETE, None, source)

        decisions = Decisions(strategy, read_resolutions(resolutions, self.engine.external))
        self._access.require(READ, source)
        with self._access.writing(BRANCH_MERGE, source, into) as parts:

            def run() -> MergeResult:
                seen = self._access.whole_types(into, source)
                decisions.refuse_hidden(seen)
                request = MergeRequest(
                    source=source,
                    target=into,
                    decisions=decisions,
                    actor_id=self.actor,
                    message=message,
                    delete_branch=delete_branch,
                    may_delete=may_delete,
                    idempotency_key=idempotency_key,
                    details=keyed_writes.details_of(keyed),
                    judge=self._access.judge(into, seen=seen),
                )
                return merge_branches(parts.merge_context(engine), request)

            return keyed_writes.merge(parts, keyed, source, into, run, delete_branch=delete_branch)

    def preview_merge(
        self, source: str, into: str = MAIN, strategy: str = "fail", resolutions: object = None
    ) -> MergePreview:
        """`merge(preview=True)`: the conflicts, with `outcome` and `changes`."""
        from omnigraph.merge.decisions import Decisions, read_resolutions
        from omnigraph.merge.operation import MergeRequest, preview_merge

        request = MergeRequest(
            source=source,
            target=into,
            decisions=Decisions(strategy, read_resolutions(resolutions, self.engine.external)),
            actor_id=self.actor,
        )
        self._access.require(READ, into)
        with self._access.reading(READ, source) as parts:
            seen = self._access.whole_types(into, source)
            request.decisions.refuse_hidden(seen)
            return preview_merge(parts.merge_context(), request, seen)

    def revert(
        self,
        commit_id: CommitName,
        branch: str = MAIN,
        *,
        strategy: str = "fail",
        resolutions: object = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> WriteReceipt:
        """Undo what a commit changed, as a new commit on `branch`.

        Later changes of the same properties are conflicts (*theirs* = the state before the
        commit). Reverting a merge undoes all it brought. `commit` of the receipt is None when
        nothing of the commit is left.
        """
        from omnigraph.merge.picks import REVERT

        asked = (commit_id, strategy, resolutions, message)
        return self._pick(REVERT, branch, asked, idempotency_key)

    def cherry_pick(
        self,
        commit_id: CommitName,
        onto: str = MAIN,
        *,
        strategy: str = "fail",
        resolutions: object = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> WriteReceipt:
        """Make the changes of one commit, of any branch, again on `onto`."""
        from omnigraph.merge.picks import CHERRY_PICK

        asked = (commit_id, strategy, resolutions, message)
        return self._pick(CHERRY_PICK, onto, asked, idempotency_key)

    def _pick(
        self,
        operation: str,
        branch: str,
        asked: tuple[CommitName, str, object, str | None],
        key: str | None,
    ) -> WriteReceipt:
        from omnigraph.graph.keyed_writes import details_of, keyed, write_receipt_replay
        from omnigraph.merge.decisions import Decisions, read_resolutions
        from omnigraph.merge.picks import PickRequest, pick

        commit_id, strategy, resolutions, message = asked
        repeatable = keyed(operation, self.actor, key, branch, *asked)
        with self._access.writing(CHANGE, branch) as parts:
            decisions = Decisions(strategy, read_resolutions(resolutions, self.engine.external))

            def run() -> WriteReceipt:
                # Not looked up for a repetition: the branch of the commit may be gone by then.
                found = self._access.commits().resolve(commit_id, branch)
                seen = self._seen_by_pick(found, branch)
                decisions.refuse_hidden(seen)
                request = PickRequest(
                    commit_id=found,
                    branch=branch,
                    operation=operation,
                    decisions=decisions,
                    actor_id=self.actor,
                    message=message,
                    idempotency_key=key,
                    details=details_of(repeatable),
                    judge=self._access.judge(branch, seen=seen),
                )
                return pick(parts.merge_context(), request)

            return parts.requests.once(repeatable, run, write_receipt_replay(branch))[0]

    def _seen_by_pick(self, commit_id: str, branch: str) -> frozenset[str] | None:
        """The types whose entities a revert or cherry-pick may show in conflicts; None: all."""
        if self._access.gate is None:
            return None
        return self._access.whole_types(branch, self._access.commits().find(commit_id, branch))

    # Comparing and following

    def diff(
        self,
        a: CommitName | None = None,
        b: CommitName | None = None,
        types: Sequence[str] | None = None,
        *,
        base: CommitName | None = None,
        branch: CommitName | None = None,
        kinds: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ChangePage:
        """`diff(a, b)`: what turns `a` into `b`. `diff(base=…, branch=…)`: what `branch` changed.

        The second form compares `branch` with the merge base: the newest commit that `base`
        (default main) and `branch` have in common. So changes that only `base` has are not in it.
        Each state is a branch, commit, tag or moment of main.

        A list of changes (nodes before edges, by type and id) with `before` and `after` images.
        With `limit` the list has a `next_cursor`: pass it to get the next page of the same two
        commits, even if the branches have moved since.

        Example:
            >>> [(c.op, c.id) for c in graph.diff("v1", "main", types=["Person"])]
            >>> [(c.op, c.id) for c in graph.diff(base="main", branch="review")]
        """
        from omnigraph.diff.change import ChangeFilter
        from omnigraph.graph import commit_history

        self._access.require_somewhere(READ)
        commits = self._access.commits()
        states = commit_history.diff_states(self.engine, commits, a, b, base, branch, cursor)
        wanted = ChangeFilter.of(types, kinds, ops)
        seen = commit_history.DiffStates(
            self._access.seen(states.before), self._access.seen(states.after)
        )
        with self._access.slot():
            return commit_history.diff(self.engine, seen, wanted, limit, cursor)

    def changes(
        self,
        branch: str = MAIN,
        cursor: str | None = None,
        start: str = "now",
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
        limit: int = 1000,
    ) -> FeedPage:
        """What happened on a branch since `cursor`, commit by commit, at most `limit` changes.

        Without a cursor: from `start`, which is `now`, `beginning` or `after:<commit id>`. Go on
        with `page.cursor`, at once while `page.has_more`. A cursor is bound to the graph, this
        branch and the filter. `FeedGap` means: take a new `baseline`.
        """
        from omnigraph.diff.change import ChangeFilter
        from omnigraph.feed import FeedRequest, poll

        request = FeedRequest(
            branch,
            ChangeFilter.of(types, kinds, ops),
            limit,
            seen=self._access.seen,
            shown=self._access.shown,
        )
        with self._access.reading(READ, branch) as engine:
            return poll(engine.reader, request, cursor, start)

    def baseline(
        self,
        branch: str = MAIN,
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
        limit: int = 1000,
    ) -> FeedPage:
        """All entities of a branch now, as inserts, and a cursor for `changes` behind them.

        Pass the cursor (and the same filter) to `changes`: it returns the rest of the baseline
        first, then what happened after it. Nothing is missed and nothing comes twice.
        """
        from omnigraph.diff.change import ChangeFilter
        from omnigraph.feed import FeedRequest, baseline

        request = FeedRequest(
            branch,
            ChangeFilter.of(types, kinds, None),
            limit,
            seen=partial(self._access.seen, action=EXPORT),
            goes_on=self._access.seen,
            shown=self._access.shown,
        )
        with self._access.reading(EXPORT, branch) as engine:
            return baseline(engine.reader, request)

    # Upkeep

    def optimize(
        self,
        branch: str | None = None,
        types: Sequence[str] | None = None,
        *,
        engine: str = LOCAL,
    ) -> list[str]:
        """Compact and index one branch, or all; returns the types that were busy with writers.

        Without a branch they are named as `branch: type`. With `engine="spark"` executors rewrite
        the files of a table, and build its indexes, side by side.
        """
        with self._access.writing(ADMIN) as parts:
            return parts.upkeep(self.actor, engine).optimize(branch, types)

    def ensure_indices(
        self,
        branch: str = MAIN,
        types: Sequence[str] | None = None,
        *,
        engine: str = LOCAL,
    ) -> list[str]:
        """Build the indexes that the schema declares; returns the types busy with writers.

        With `engine="spark"` executors build the parts of an index side by side.
        """
        with self._access.writing(ADMIN) as parts:
            return parts.upkeep(self.actor, engine).ensure_indices(branch, types)

    def index_status(self, branch: str = MAIN) -> list[IndexStatus]:
        """Every declared index: how many rows it covers and how many it does not yet.

        With a policy, those of types that the caller sees whole.
        """
        from omnigraph.maintain.status import index_status

        found = index_status(self.engine.store, self.snapshot(branch))
        whole = self._access.whole_types(branch)
        return [index for index in found if whole is None or index.type_name in whole]

    def status(self) -> GraphStatus:
        """Fragments, coverage, history, writers in flight and bytes, per branch and type."""
        from omnigraph.maintain.status import graph_status

        self._access.require(ADMIN)
        engine = self.engine
        return graph_status(engine.reader, engine.board, engine.settings.maintenance)

    def cleanup(
        self,
        keep: int | None = None,
        older_than: str | dt.timedelta | None = None,
        *,
        confirm: bool = False,
    ) -> CleanupReport:
        """Remove what no branch, tag or writer needs; without `confirm` only report it.

        A commit's snapshot stays readable when it is among the newest `keep` of a branch or was
        its head less than `older_than` ago (`"7d"`). Without either the cluster of the graph
        decides, else the settings, by which all stay readable if they say nothing. The commit log
        stays.

        Example:
            >>> graph.cleanup(keep=100, older_than="7d").bytes
        """
        from omnigraph.graph.managed import declared_retention
        from omnigraph.maintain.garbage import Retention, chosen_retention

        retention = chosen_retention(
            Retention.of(keep, older_than),
            declared_retention(self.engine.store),
            self.engine.settings.maintenance,
        )
        if confirm:
            with self._access.writing(ADMIN) as engine:
                return engine.cleanup.run(retention, self.actor)
        self._access.require(ADMIN)
        return self.engine.cleanup.preview(retention)

    def verify(self, commits: int = 20, *, full: bool = False) -> VerifyReport:
        """Check every invariant, and the newest `commits` of each branch against their snapshots.

        Sorted indexes of columns with many values are compared with scans on a sample of them;
        `full` compares all.

        Example:
            >>> graph.verify().ok
        """
        from omnigraph.maintain.verify import verify_graph

        self._access.require(ADMIN)
        engine = self.engine
        return verify_graph(engine.reader, engine.board, engine.cleanup, commits, full=full)

    def repair(self, *, confirm: bool = False, force: bool = False) -> RepairReport:
        """Report tables whose HEAD differs from the manifest; `confirm` puts them right.

        `force` also moves intents aside that cannot be read.
        """
        self._access.require(ADMIN)
        if confirm:
            return self._access.writable().repair.run(self.actor, force=force)
        return self.engine.repair.preview()

    def for_repair(self) -> Graph:
        """The same graph, writable without recovery.

        An intent that cannot be read makes recovery fail, and with it every other way to open the
        graph for writing.
        """
        self._access.require(ADMIN)
        handle = Graph.__new__(Graph)
        handle._use(self._access.for_repair())  # noqa: SLF001
        return handle

    def backup(self, target: str | os.PathLike[str]) -> BackupReport:
        """Copy the graph with branches, tags and history to an empty place; writers go on.

        Example:
            >>> graph.backup("s3://backups/people-2026-01-01").bytes
        """
        self._access.require(ADMIN)
        engine = self._access.writable()
        return engine.backup.run(open_store(target, engine.settings), self.actor)

    def refresh(self) -> int:
        """Recover what dead writers left; returns the number of their intents."""
        self._access.require(ADMIN)
        return self._access.writable().recovery.sweep()

    def recoveries(self) -> list[RecoveryAudit]:
        """One record per recovery, newest first."""
        from omnigraph.commit.recovery.audit import read_audits

        self._access.require(ADMIN)
        return read_audits(self.engine.store)
