"""Where a stream of changes stands, and the changes themselves; opens the graph where it runs."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

import pyarrow as pa

import omnigraph
from omnigraph.catalog.model import SOURCE, TARGET
from omnigraph.diff.change import Change, ChangeFilter, ChangeOp, TypeRef
from omnigraph.diff.entity_rows import images
from omnigraph.errors import FeedGap, InvalidArgument, SnapshotReclaimed
from omnigraph.feed import BEGINNING, NOW, FeedBlock, FeedRequest, poll
from omnigraph.lance_store.reads.scan import read_fragments
from omnigraph.manifest.records import Commit
from omnigraph.spark.source.change_rows import change_schema
from omnigraph.spark.source.options import ChangesRequest, TableRequest
from omnigraph.spark.source.pin_table import pin
from omnigraph.spark.source.pinned_table import PinnedTable
from omnigraph.values.identifiers import EntityKind
from omnigraph.values.json_values import json_value

_CHANGES_PER_TASK = 50_000
_CHANGES_PER_PAGE = 16_384
_AFTER = "after:"
BASELINE = "baseline"
Span = tuple[str | None, str]
"""(commit that was seen last, commit up to which is read)."""


def feed_schema(request: ChangesRequest) -> Any:
    if request.type_name is None:
        return change_schema(None)
    return change_schema(_open(request).snapshot(request.branch).catalog.resolve(request.type_name))


def begins_at_head(request: ChangesRequest) -> bool:
    """Where such a stream begins depends on when somebody asks."""
    return request.start in (NOW, BASELINE)


def first_position(request: ChangesRequest) -> str | None:
    """The commit behind which other streams begin; None: with the first one."""
    if request.start == BEGINNING:
        return None
    if not request.start.startswith(_AFTER):
        raise InvalidArgument(
            f"start {request.start!r} is none of now, baseline, beginning, after:<commit id>",
            option="start",
        )
    commit = request.start.removeprefix(_AFTER)
    _behind(_open(request), request, commit)
    return commit


def head_commit(request: ChangesRequest) -> str:
    return _open(request).snapshot(request.branch).graph_commit_id


def next_position(request: ChangesRequest, after: str | None, last: str | None) -> str | None:
    """At most `max_commits` further, and never beyond `last`."""
    waiting = _behind(_open(request), request, after)
    ids = [commit.graph_commit_id for commit in waiting]
    if last is not None:
        ids = ids[: ids.index(last) + 1] if last in ids else []
    return ids[: request.max_commits][-1] if ids else after


def ranges(request: ChangesRequest, after: str | None, until: str | None) -> list[Span]:
    """The commits of a batch in runs that are enough for a task."""
    if until is None or until == after:
        return []
    found: list[Span] = []
    begin, size = after, 0
    for commit in _up_to(_behind(_open(request), request, after), request, until):
        size += sum(c.inserted + c.updated + c.deleted for c in commit.changes)
        if size >= _CHANGES_PER_TASK or commit.graph_commit_id == until:
            found.append((begin, commit.graph_commit_id))
            begin, size = commit.graph_commit_id, 0
    return found


def change_batches(
    request: ChangesRequest, span: Span, wanted: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The changes of some commits as Spark takes them."""
    for commit, changes in _changes(request, span):
        if changes:
            yield _rows(request, commit, changes, wanted)


def baseline_tables(request: ChangesRequest, commit: str) -> list[PinnedTable]:
    """Every wanted type as it was at a commit, cut into tasks."""
    try:
        catalog = _open(request).snapshot(request.branch, at=commit).catalog
        names = (e.name for e in catalog.entity_types())
        wanted = [request.type_name] if request.type_name else names
        return [pin(TableRequest(request.uri, name, at=commit)) for name in wanted]
    except SnapshotReclaimed as error:
        raise FeedGap(
            f"cleanup removed the baseline of this stream ({error.message}): begin again with a "
            "new checkpoint",
            branch=request.branch,
        ) from error


def baseline_batches(
    request: ChangesRequest, table: PinnedTable, fragments: Sequence[int], wanted: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The entities of some fragments as changes that insert them."""
    commit = _open(request).commits.show(table.graph_commit_id)
    kind, named = (
        table.entity.table_key.kind.value,
        TypeRef(table.entity.identity, table.entity.name),
    )
    for rows in read_fragments(table.target, fragments, table.columns):
        inserts = [
            Change(kind, named, image["id"], ChangeOp.INSERT.value, None, image)
            for image in images(rows)
        ]
        yield _rows(request, commit, inserts, wanted)


def _changes(request: ChangesRequest, span: Span) -> Iterator[tuple[Commit, Sequence[Change]]]:
    after, until = span
    graph = _open(request)
    inside = {c.graph_commit_id for c in _up_to(_behind(graph, request, after), request, until)}
    types = (request.type_name,) if request.type_name is not None else None
    asked = FeedRequest(request.branch, ChangeFilter.of(types, None, None), _CHANGES_PER_PAGE)
    cursor = None
    while True:
        page = poll(graph.engine.reader, asked, cursor, _AFTER + after if after else BEGINNING)
        mine: list[FeedBlock] = list(
            takewhile(lambda block: block.commit.graph_commit_id in inside, page.blocks)
        )
        for block in mine:
            yield block.commit, block.changes
        if not page.has_more or len(mine) < len(page.blocks):
            return
        cursor = page.cursor


def _behind(graph: omnigraph.Graph, request: ChangesRequest, after: str | None) -> list[Commit]:
    """Commits of the branch that came later, oldest first."""
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


def _open(request: ChangesRequest) -> omnigraph.Graph:
    return omnigraph.open(request.uri, read_only=True)


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
    """Ends of edges are called as in the frames of their type."""
    if image is None or change.kind != EntityKind.EDGE.value:
        return image
    return {**image, SOURCE: image["from"], TARGET: image["to"]}
