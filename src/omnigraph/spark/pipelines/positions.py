"""Increments: what every source has for the next run, and the position after it.

The last run recorded its positions in its commit (`Commit.details`), which the mark of the
pipeline's stream names. So a position becomes valid together with the rows of its run, and
finding it costs the same for any length of history.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import omnigraph
from omnigraph.errors import InvalidArgument, NotFound, OmnigraphError, PipelineFailed
from omnigraph.manifest.processed_files import ProcessedFiles
from omnigraph.manifest.records import PIPELINE, StreamMark, stream_details
from omnigraph.spark.pipelines.files import FoundFile, find_files
from omnigraph.spark.pipelines.model import Incremental, Pipeline, PipelineSource
from omnigraph.values.temporal import micros_of

MOST_SERVED_FILES = 1000
"""Files of one source that a run through a server can record: all of them are in the commit."""


def stream_of(name: str) -> str:
    """The stream of which every run of a pipeline is a batch."""
    return f"pipeline:{name}"


@dataclass(frozen=True, slots=True)
class LastRun:
    """What the last commit of a pipeline on a branch recorded."""

    mark: StreamMark | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The number of the last run; -1 before the first one."""
        return -1 if self.mark is None else self.mark.batch

    def source(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.details.get("sources", {}).get(name, {})
        return found


def is_served(graph: omnigraph.Graph) -> bool:
    """The graph is on a server, so its storage is out of reach."""
    return isinstance(graph, omnigraph.RemoteGraph)


def last_run(graph: omnigraph.Graph, branch: str, name: str) -> LastRun:
    """The last run of a pipeline on a branch."""
    if is_served(graph):
        for newest in graph.commits.list(branch, 1, pipeline=name):
            found = newest.details[PIPELINE]
            return LastRun(StreamMark(found["number"], newest.graph_commit_id), found)
        return LastRun()
    engine = graph.engine
    _, state = engine.reader.branch(branch)
    mark = state.streams.get(stream_of(name))
    if mark is None:
        return LastRun()
    commit = engine.commits.find_in(state, mark.commit_id)
    details = stream_details(commit, stream_of(name)) if commit is not None else None
    return LastRun(mark, details or {})


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What a run reads: the next increment, everything, or a range again."""

    full: bool = False
    since: str | None = None
    until: str | None = None

    @property
    def is_backfill(self) -> bool:
        return self.since is not None or self.until is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIncrement:
    """What a run reads from one source."""

    source: PipelineSource
    files: tuple[FoundFile, ...] = ()
    known_files: int = 0
    commit: str | None = None
    """Of a graph: the state to read."""
    since_commit: str | None = None
    """Of a graph: only what changed after this commit."""
    processed: ProcessedFiles = field(default_factory=ProcessedFiles)
    """Files that earlier runs processed."""
    columns: Any = None
    """The schema of the source as the last run recorded it."""
    is_empty: bool = False
    """An incremental source without anything new."""

    @property
    def is_incremental(self) -> bool:
        return self.source.incremental is not None


def increments(
    pipeline: Pipeline, graph: omnigraph.Graph | None, last: LastRun, wanted: ReadRange
) -> dict[str, SourceIncrement]:
    """What the next run would read, by source; starts no Spark."""
    return {
        name: _increment(pipeline, graph, source, last, wanted)
        for name, source in pipeline.sources.items()
    }


def _increment(
    pipeline: Pipeline,
    graph: omnigraph.Graph | None,
    source: PipelineSource,
    last: LastRun,
    wanted: ReadRange,
) -> SourceIncrement:
    recorded = last.source(source.name)
    columns = recorded.get("columns")
    if source.files:
        return _file_increment(pipeline, graph, source, recorded, wanted)
    if source.graph is not None:
        return _graph_increment(pipeline, source, recorded, wanted)
    return SourceIncrement(source=source, columns=columns)


def _file_increment(
    pipeline: Pipeline,
    graph: omnigraph.Graph | None,
    source: PipelineSource,
    recorded: Mapping[str, Any],
    wanted: ReadRange,
) -> SourceIncrement:
    found = find_files(pipeline.name, source)
    columns = recorded.get("columns")
    if source.incremental is None:
        if not found:
            patterns = ", ".join(source.files)
            raise PipelineFailed(
                f"source {source.name}: no file matches {patterns}",
                pipeline=pipeline.name,
                source=source.name,
                file=source.files[0],
            )
        return SourceIncrement(source=source, files=tuple(found), columns=columns)
    processed = ProcessedFiles()
    known: set[bytes] = set()
    if "processed" in recorded and graph is not None:
        processed = ProcessedFiles.from_json(recorded["processed"])
        known = _digests(pipeline, source, graph, processed)
    if wanted.is_backfill:
        low, high = _micros(wanted.since, "since"), _micros(wanted.until, "until")
        new = [
            file
            for file in found
            if (low is None or file.modified_micros >= low)
            and (high is None or file.modified_micros < high)
        ]
    elif wanted.full:
        new = found
    else:
        new = [file for file in found if file.digest not in known]
    return SourceIncrement(
        source=source,
        files=tuple(new),
        known_files=len(known),
        processed=processed,
        columns=columns,
        is_empty=not new,
    )


def _digests(
    pipeline: Pipeline, source: PipelineSource, graph: omnigraph.Graph, processed: ProcessedFiles
) -> set[bytes]:
    """All processed files. Lists of them are objects of the store, which a server does not show."""
    if not is_served(graph):
        return processed.digests(graph.engine.store.files)
    if processed.lists:
        raise PipelineFailed(
            f"source {source.name}: earlier runs recorded its files in the store of the graph; "
            "run the pipeline there, with --store",
            pipeline=pipeline.name,
            source=source.name,
        )
    return set(processed.newest)


def _graph_increment(
    pipeline: Pipeline, source: PipelineSource, recorded: Mapping[str, Any], wanted: ReadRange
) -> SourceIncrement:
    assert source.graph is not None
    try:
        with omnigraph.open(source.graph, read_only=True) as other:
            name = source.commit or source.tag or source.branch
            commit = other.commits.show(name, source.branch).graph_commit_id
            if source.incremental is not Incremental.COMMITS:
                return SourceIncrement(source=source, commit=commit)
            since = None if wanted.full else recorded.get("commit")
            if wanted.until is not None:
                commit = other.commits.show(wanted.until, source.branch).graph_commit_id
            if wanted.since is not None:
                since = other.commits.show(wanted.since, source.branch).graph_commit_id
    except OmnigraphError as error:
        raise PipelineFailed(
            f"source {source.name}: {error.message}",
            pipeline=pipeline.name,
            source=source.name,
            file=source.graph,
            cause=error.to_dict(),
        ) from error
    return SourceIncrement(
        source=source, commit=commit, since_commit=since, is_empty=since == commit
    )


def _micros(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"{option} {text!r} of a source of files is a moment, like 2026-04-14 or "
            "2026-04-14T10:00:00Z",
            option=option,
        ) from None
    return micros_of(moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC))


def position_after(
    pipeline: Pipeline, each: SourceIncrement, graph: omnigraph.Graph, wanted: ReadRange
) -> dict[str, Any]:
    """What the commit records about a source, apart from its columns and rows."""
    source = each.source
    found: dict[str, Any] = {}
    if source.files:
        found["files"] = len(each.files)
        if source.incremental is not None:
            known = each.processed
            new = [file.digest for file in each.files]
            if wanted.full or wanted.is_backfill:  # some of these files are known already
                before = _digests(pipeline, source, graph, known)
                new = [digest for digest in new if digest not in before]
            found["processed"] = _with_files(pipeline, source, graph, known, new).to_json()
    elif source.graph is not None:
        found["graph"] = source.graph
        found["commit"] = each.commit
    elif source.format is not None:
        found["format"] = source.format
    return found


def _with_files(
    pipeline: Pipeline,
    source: PipelineSource,
    graph: omnigraph.Graph,
    known: ProcessedFiles,
    new: Sequence[bytes],
) -> ProcessedFiles:
    if not is_served(graph):
        engine = graph.engine
        return known.with_files(new, engine.store.files, engine.clock)
    after = ProcessedFiles(newest=(*known.newest, *new))
    if after.count > MOST_SERVED_FILES:
        raise PipelineFailed(
            f"source {source.name}: it has {after.count:,} files, and through a server a commit "
            f"records at most {MOST_SERVED_FILES:,} of them; join files, or run the pipeline on "
            "the store of the graph, with --store",
            pipeline=pipeline.name,
            source=source.name,
        )
    return after


def lists_of(sources: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The objects that the positions of a run name; cleanup keeps them."""
    return [
        name
        for source in sources.values()
        for name, _ in source.get("processed", {}).get("lists", ())
    ]


def branch_exists(graph: omnigraph.Graph, name: str) -> bool:
    try:
        graph.branches.show(name)
    except NotFound:
        return False
    return True
