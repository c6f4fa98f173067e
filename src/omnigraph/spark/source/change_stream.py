"""The change feed as a Spark stream: an offset is a commit, a batch the commits between two.

Spark plans offsets in a process beside the driver and reads batches in executors. Both open the
graph where they run.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

import omnigraph
from omnigraph.catalog.model import SOURCE, TARGET, EntityType
from omnigraph.diff.change import Change, ChangedType, ChangeOp
from omnigraph.diff.entity_rows import images
from omnigraph.errors import FeedGap, InvalidArgument, SnapshotReclaimed
from omnigraph.feed import BEGINNING, NOW, FeedBlock
from omnigraph.manifest.records import Commit
from omnigraph.spark.column_types import spark_arrow_schema, spark_schema
from omnigraph.spark.failures import errors_for_spark
from omnigraph.spark.source.source_options import ChangesRequest, TableRequest
from omnigraph.spark.source.table_reader import PinnedTable, pin
from omnigraph.values.identifiers import EntityKind
from omnigraph.values.json_values import json_value

_CHANGES_PER_TASK = 50_000
_CHANGES_PER_PAGE = 16_384
_AFTER = "after:"
_BASELINE = "baseline"
_COMMIT = "commit"
_BEGINS = "begins"
_BEGUN = "begun"

Offset = dict[str, str | None]
"""The commit that was read last.

A stream that begins at the head of its branch stores that head in the offset of a first batch.
Spark asks for the initial offset again when it repeats that batch, and then the head may be
another commit.
"""


@dataclass(frozen=True, slots=True)
class CommitRange(InputPartition):
    """What one task reads: the commits after `after` (None: from the first one) up to `until`."""

    after: str | None
    until: str


@dataclass(frozen=True, slots=True)
class BaselinePart(InputPartition):
    """What one task reads of a baseline: some fragments of one type."""

    table: PinnedTable
    fragments: tuple[int, ...]


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Changes in the order of commits; a restart goes on after the last finished batch."""

    def __init__(self, request: ChangesRequest, schema: Any) -> None:
        self._request = request
        self._schema = schema
        self._last: str | None = None
        """With `availableNow`: the head when the query began."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def initialOffset(self) -> Offset:
        with errors_for_spark():
            if self._request.start not in (NOW, _BASELINE):
                return {_COMMIT: _first_position(self._request)}
            head = self._last or _head_commit(self._request)
            return {_COMMIT: head, _BEGINS: self._request.start}

    def prepareForTriggerAvailableNow(self) -> None:
        with errors_for_spark():
            self._last = _head_commit(self._request)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        if _BEGINS in start:
            return {_COMMIT: start[_COMMIT], _BEGUN: start[_BEGINS]}
        with errors_for_spark():
            position = _next_position(self._request, start[_COMMIT], self._last)
            return start if position == start[_COMMIT] else {_COMMIT: position}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        with errors_for_spark():
            if start == end:
                return []
            if _BEGUN in end:
                return self._first_batch(end)
            return list(_ranges(self._request, start[_COMMIT], end[_COMMIT]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted = spark_arrow_schema(self._schema)
        with errors_for_spark():
            if isinstance(partition, BaselinePart):
                yield from _baseline_batches(self._request, partition, wanted)
            elif isinstance(partition, CommitRange):
                yield from _change_batches(self._request, partition, wanted)

    def _first_batch(self, end: Offset) -> list[InputPartition]:
        commit = end[_COMMIT]
        if end[_BEGUN] != _BASELINE or commit is None:
            return []
        tables = _baseline_tables(self._request, commit)
        return [BaselinePart(replace(t, groups=()), group) for t in tables for group in t.groups]


def feed_schema(request: ChangesRequest) -> Any:
    """One row a change; images are structs of one type, or JSON when types are mixed."""
    text = spark.StringType()
    image = text
    if request.type_name is not None:
        catalog = _open(request).snapshot(request.branch).catalog
        image = _image_type(catalog.resolve(request.type_name))
    return spark.StructType(
        [
            spark.StructField("commit", text, nullable=False),
            spark.StructField("committed_at", spark.TimestampType(), nullable=False),
            *(spark.StructField(n, text, nullable=False) for n in ("kind", "type", "id", "op")),
            spark.StructField("before", image),
            spark.StructField("after", image),
        ]
    )


def _image_type(entity: EntityType) -> Any:
    """Every field may be NULL: an older image does not have properties that were added later."""
    fields = spark_schema(entity).fields
    return spark.StructType([spark.StructField(f.name, f.dataType, True) for f in fields])


# Positions in the history of the branch


def _open(request: ChangesRequest) -> omnigraph.Graph:
    return omnigraph.open(request.uri, actor=request.actor, read_only=True, policy=request.policy)


def _first_position(request: ChangesRequest) -> str | None:
    """The commit after which a stream begins that names its start; None: before the first one."""
    if request.start == BEGINNING:
        return None
    if not request.start.startswith(_AFTER):
        raise InvalidArgument(
            f"start {request.start!r} is none of now, baseline, beginning, after:<commit id>",
            option="start",
        )
    commit = request.start.removeprefix(_AFTER)
    _commits_after(_open(request), request, commit)
    return commit


def _head_commit(request: ChangesRequest) -> str:
    return _open(request).snapshot(request.branch).graph_commit_id


def _next_position(request: ChangesRequest, after: str | None, last: str | None) -> str | None:
    """At most `max_commits` further, and never beyond `last`."""
    waiting = _commits_after(_open(request), request, after)
    ids = [commit.graph_commit_id for commit in waiting]
    if last is not None:
        ids = ids[: ids.index(last) + 1] if last in ids else []
    return ids[: request.max_commits][-1] if ids else after


def _ranges(request: ChangesRequest, after: str | None, until: str | None) -> Iterator[CommitRange]:
    """The commits of a batch, cut into ranges with enough changes for a task each."""
    if until is None or until == after:
        return
    begin, size = after, 0
    for commit in _up_to(_commits_after(_open(request), request, after), request, until):
        size += sum(c.inserted + c.updated + c.deleted for c in commit.changes)
        if size >= _CHANGES_PER_TASK or commit.graph_commit_id == until:
            yield CommitRange(begin, commit.graph_commit_id)
            begin, size = commit.graph_commit_id, 0


def _commits_after(
    graph: omnigraph.Graph, request: ChangesRequest, after: str | None
) -> list[Commit]:
    """Later commits of the branch, oldest first."""
    engine = graph.engine
    newest_first: list[Commit] = []
    for stored in engine.commits.walk(engine.reader.branch(request.branch)[1]):
        if stored.commit_id == after:
            return newest_first[::-1]
        newest_first.append(stored.commit)
    if after is not None:
        raise FeedGap(
            f"commit {after} is not in the history of branch {request.branch!r}: begin again with "
            'a new checkpoint and .option("start", "baseline")',
            branch=request.branch,
        )
    return newest_first[::-1]


def _up_to(commits: Sequence[Commit], request: ChangesRequest, until: str) -> list[Commit]:
    for number, commit in enumerate(commits):
        if commit.graph_commit_id == until:
            return list(commits[: number + 1])
    raise FeedGap(
        f"commit {until} is not in the history of branch {request.branch!r}", branch=request.branch
    )


# Rows


def _change_batches(
    request: ChangesRequest, commits: CommitRange, wanted: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The changes of a range of commits."""
    for commit, changes in _changes(request, commits):
        if changes:
            yield _rows(request, commit, changes, wanted)


def _baseline_tables(request: ChangesRequest, commit: str) -> list[PinnedTable]:
    """Every wanted type at a commit, cut into tasks."""
    try:
        catalog = _open(request).snapshot(request.branch, at=commit).catalog
        names = (e.name for e in catalog.entity_types())
        wanted = [request.type_name] if request.type_name else names
        actor, policy = request.actor, request.policy
        return [
            pin(TableRequest(request.uri, name, at=commit, actor=actor, policy=policy))
            for name in wanted
        ]
    except SnapshotReclaimed as error:
        raise FeedGap(
            f"cleanup removed the baseline of this stream ({error.message}): begin again with a "
            "new checkpoint",
            branch=request.branch,
        ) from error


def _baseline_batches(
    request: ChangesRequest, part: BaselinePart, wanted: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The entities of some fragments as changes that insert them."""
    table = part.table
    commit = _open(request).commits.show(table.graph_commit_id)
    kind = table.entity.table_key.kind.value
    named = ChangedType(table.entity.identity, table.entity.name)
    for rows in table.rows(part.fragments):
        inserts = [
            Change(kind, named, image["id"], ChangeOp.INSERT.value, None, image)
            for image in images(rows)
        ]
        yield _rows(request, commit, inserts, wanted)


def _changes(
    request: ChangesRequest, commits: CommitRange
) -> Iterator[tuple[Commit, Sequence[Change]]]:
    graph = _open(request)
    after = commits.after
    wanted = _up_to(_commits_after(graph, request, after), request, commits.until)
    inside = {commit.graph_commit_id for commit in wanted}
    types = (request.type_name,) if request.type_name is not None else None
    start = _AFTER + after if after else BEGINNING
    cursor = None
    while True:
        page = graph.changes(request.branch, cursor, start, types=types, limit=_CHANGES_PER_PAGE)
        mine: list[FeedBlock] = list(
            takewhile(lambda block: block.commit.graph_commit_id in inside, page.blocks)
        )
        for block in mine:
            yield block.commit, block.changes
        if not page.has_more or len(mine) < len(page.blocks):
            return
        cursor = page.cursor


def _rows(
    request: ChangesRequest, commit: Commit, changes: Sequence[Change], wanted: pa.Schema
) -> pa.RecordBatch:
    typed = request.type_name is not None
    rows = [_row(commit, change, typed=typed) for change in changes]
    return pa.RecordBatch.from_pylist(rows, schema=wanted)


def _row(commit: Commit, change: Change, *, typed: bool) -> dict[str, Any]:
    image = _struct if typed else _text
    return {
        "commit": commit.graph_commit_id,
        "committed_at": dt.datetime.fromtimestamp(0, dt.UTC)
        + dt.timedelta(microseconds=commit.created_at),
        "kind": change.kind,
        "type": change.type.name,
        "id": change.id,
        "op": change.op,
        "before": image(change, change.before),
        "after": image(change, change.after),
    }


def _text(change: Change, image: dict[str, Any] | None) -> str | None:
    return None if image is None else json.dumps(json_value(image), ensure_ascii=False)


def _struct(change: Change, image: dict[str, Any] | None) -> dict[str, Any] | None:
    """The image with the ends of an edge named as in the frames of its type."""
    if image is None or change.kind != EntityKind.EDGE.value:
        return image
    return {**image, SOURCE: image["from"], TARGET: image["to"]}
