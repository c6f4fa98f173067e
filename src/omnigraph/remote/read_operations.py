"""Reads of a graph on a server: states, entities, queries, blobs, exports."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from omnigraph.errors import InvalidArgument, LanguageError, NotServed, ResourceLimit
from omnigraph.execute.query_types import QueryResult
from omnigraph.export.export_graph import (
    ExportReceipt,
    chosen_types,
    exported_types,
    require_export_format,
    whole_directory,
    write_file,
)
from omnigraph.graph.reads import NAMES_THEN, QuerySource, for_pandas, query_source
from omnigraph.manifest.commit_graph import CommitName, name_text
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.plan.plan_text import QueryPlan
from omnigraph.remote import streamed_rows
from omnigraph.remote.exchanges import (
    ARROW,
    NDJSON,
    Exchange,
    NextChunk,
    RemoteAnswer,
    RemoteRequest,
    asked,
    get,
    given,
    post,
    refuse_spark,
    retold,
    segment,
)
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.identifiers import MAIN
from omnigraph.values.json_values import json_value
from omnigraph.values.known_names import require_engine
from omnigraph.wire.records import record_from_json

_UNNAMED = "<query>"


def state(branch: str, at: CommitName | None) -> Exchange[dict[str, str]]:
    """The members of a request that name a state.

    A request names a branch or a snapshot. A name that means something only on another branch than
    main, such as a moment, is looked up first.
    """
    if at is None:
        return {"branch": branch}
    name = name_text(at)
    assert name is not None
    if branch == MAIN:
        return {"snapshot": name}
    commit = yield from asked(get(f"/commits/{segment(name)}", ("branch", branch)))
    return {"snapshot": commit["graph_commit_id"]}


def named_state(branch: str, at: CommitName | None, names: str) -> Exchange[dict[str, str]]:
    """The members that name a state, and whose names of types and properties the query uses."""
    if names == NAMES_THEN:
        return (yield from state(branch, at))
    if at is None:
        return {"branch": branch, "names": names}
    where = yield from state(branch, at)
    return {**where, "branch": branch, "names": names}


def snapshot(branch: str, at: CommitName | None) -> Exchange[Snapshot]:
    where = yield from state(branch, at)
    found = yield from asked(get("/snapshot", *where.items()))
    return record_from_json(Snapshot, found)


def read(
    type_name: str,
    branch: str,
    at: CommitName | None,
    ids: Sequence[str] | None,
    columns: Sequence[str] | None,
) -> Exchange[pa.Table]:
    if isinstance(ids, str) or not all(isinstance(i, str) for i in ids or ()):
        raise InvalidArgument(f"ids must be a list of strings, got {ids!r}")
    where = yield from state(branch, at)
    body = {
        "type": type_name,
        "ids": None if ids is None else list(ids),
        "columns": None if columns is None else list(columns),
        **where,
    }
    answer = yield post("/entities", body, accept=ARROW, is_long=True)
    return for_pandas(streamed_rows.table_of(answer.content()))


def read_sorted(type_name: str, commit_id: str) -> RemoteRequest:
    """All entities of a type in the order of their ids, as exports have them."""
    body = {"type": type_name, "snapshot": commit_id, "sorted": True}
    return post("/entities", body, accept=ARROW, is_long=True, streamed=True)


# Queries


def query_members(
    source: QuerySource, name: str | None, params: Mapping[str, object] | None
) -> tuple[SourceText, dict[str, Any]]:
    text = query_source(source)
    given_params = None if params is None else {key: json_value(params[key]) for key in params}
    return text, {"query": text.text, "name": name, "params": given_params}


def labelled(error: LanguageError, source: SourceText) -> LanguageError:
    """The error with the name of the file, which the server does not know."""
    found = [
        {**d, "file": source.file if d.get("file") == _UNNAMED else d.get("file")}
        for d in error.diagnostics
    ]
    message = error.message.replace(f"{_UNNAMED}:", f"{source.file}:")
    return retold(error, message, {**error.fields, "diagnostics": found})


def _require_local(engine: str, method: str) -> None:
    require_engine(engine, method)
    refuse_spark(engine, method)


def query(
    source: QuerySource,
    name: str | None,
    params: Mapping[str, object] | None,
    branch: str,
    at: CommitName | None,
    timeout: float | None,
    cancel: threading.Event | None,
    engine: str,
    names: str,
) -> Exchange[QueryResult]:
    _require_local(engine, "query")
    text, members = query_members(source, name, params)
    where = yield from named_state(branch, at, names)
    request = query_request({**members, **where}, timeout, cancel)
    require_wanted(cancel)
    try:
        answer = yield request
    except LanguageError as error:
        raise labelled(error, text) from None
    first = bytearray()
    while chunk := (yield NextChunk(answer)):
        require_wanted(cancel)
        first += chunk
        rest = answer.rest() if len(first) > streamed_rows.KEPT_BYTES else None
        if rest is not None:
            return _streamed(bytes(first), rest, answer, request, name_text(at))
    return kept_rows(bytes(first), name_text(at))


def query_request(
    body: Mapping[str, Any], timeout: float | None, cancel: threading.Event | None
) -> RemoteRequest:
    return post(
        "/query",
        {**body, "timeout_ms": millis(timeout)},
        accept=ARROW,
        timeout=timeout,
        streamed=True,
        cancel=cancel,
    )


def millis(timeout: float | None) -> int | None:
    return None if timeout is None else max(1, round(timeout * 1000))


def require_wanted(cancel: threading.Event | None) -> None:
    if cancel is not None and cancel.is_set():
        raise ResourceLimit("the query was cancelled", limit="cancelled")


def kept_rows(content: bytes, at: str | None) -> QueryResult:
    """The result whose Arrow stream is in memory."""
    try:
        table = streamed_rows.table_of(content)
    except pa.ArrowInvalid as error:
        raise streamed_rows.cut_off(error) from error
    return streamed_rows.result_of(table, streamed_rows.heading_of(table.schema), at)


def _streamed(
    first: bytes,
    rest: Iterator[bytes],
    answer: RemoteAnswer,
    request: RemoteRequest,
    at: str | None,
) -> QueryResult:
    def again() -> Iterator[bytes]:
        """The same rows once more: the query at the commit of the first answer."""
        state = {"branch": None, "snapshot": rows.heading["graph_commit_id"]}
        return answer.repeat(replace(request, json=given({**request.json, **state})))

    rows = streamed_rows.StreamedRows(first, rest, again)
    heading = rows.heading
    return QueryResult(
        heading["query_name"], heading["graph_branch"], heading["graph_commit_id"], rows, at
    )


def explain(
    source: QuerySource,
    name: str | None,
    params: Mapping[str, object] | None,
    branch: str,
    at: CommitName | None,
    names: str,
) -> Exchange[QueryPlan]:
    where = yield from named_state(branch, at, names)
    return (yield from _planned("/explain", source, name, params, where, None, None))


def profile(
    source: QuerySource,
    name: str | None,
    params: Mapping[str, object] | None,
    branch: str,
    at: CommitName | None,
    timeout: float | None,
    cancel: threading.Event | None,
    names: str,
) -> Exchange[QueryPlan]:
    require_wanted(cancel)
    where = yield from named_state(branch, at, names)
    return (yield from _planned("/profile", source, name, params, where, timeout, cancel))


def _planned(
    path: str,
    source: QuerySource,
    name: str | None,
    params: Mapping[str, object] | None,
    where: Mapping[str, str],
    timeout: float | None,
    cancel: threading.Event | None,
) -> Exchange[QueryPlan]:
    text, members = query_members(source, name, params)
    body = {**members, **where, "timeout_ms": millis(timeout)}
    request = post(path, body, timeout=timeout, cancel=cancel)
    try:
        found = yield from asked(request)
    except LanguageError as error:
        raise labelled(error, text) from None
    return record_from_json(QueryPlan, found)


# Blobs


_REDIRECT = 302
_BLOB_ANSWERS = (_REDIRECT, *range(400, 600))


@dataclass(frozen=True, slots=True)
class FoundBlob:
    """What a server tells of a blob."""

    commit_id: str
    size: int = 0
    uri: str | None = None
    """The address of an external blob."""


def blob_query(
    kind: str, type: str, id: str, property: str, where: Mapping[str, str]
) -> list[tuple[str, object]]:
    return [("entity", kind), ("type", type), ("id", id), ("property", property), *where.items()]


def find_blob(
    kind: str, type: str, id: str, property: str, branch: str, at: CommitName | None
) -> Exchange[FoundBlob]:
    """The error of a HEAD has no body, so a failed one is asked again.

    The redirect to an external blob is the result. It is not followed here.
    """
    where = yield from state(branch, at)
    parameters = blob_query(kind, type, id, property, where)
    request = get("/blob", *parameters)
    answer = yield RemoteRequest("HEAD", "/blob", request.query, allowed=_BLOB_ANSWERS)
    if answer.status >= 400:
        yield RemoteRequest("GET", "/blob", request.query, headers={"Range": "bytes=0-0"})
        raise InvalidArgument("the blob was missing and is there now; repeat the call")
    headers = answer.headers
    commit_id = headers.get("omnigraph-snapshot-id", "")
    if answer.status == _REDIRECT:
        return FoundBlob(commit_id, uri=headers["location"])
    return FoundBlob(commit_id, size=int(headers["content-length"]))


def blob_range(
    parameters: Sequence[tuple[str, object]], offset: int, length: int
) -> Exchange[bytes]:
    request = get("/blob", *parameters)
    wanted = {"Range": f"bytes={offset}-{offset + length - 1}"}
    answer = yield RemoteRequest("GET", "/blob", request.query, headers=wanted, is_long=True)
    content: bytes = answer.content()
    return content if answer.status == 206 else content[offset : offset + length]


# Exports


def export(
    path: str | os.PathLike[str] | BinaryIO | None,
    branch: str,
    at: CommitName | None,
    types: Sequence[str] | None,
    format: str,
    engine: str,
) -> Exchange[ExportReceipt]:
    """Read from one commit, so that the receipt and all files are of one state."""
    _require_local(engine, "export")
    require_export_format(format)
    found = yield from snapshot(branch, at)
    target = Path(path).expanduser() if isinstance(path, str | os.PathLike) else None
    if format == "ndjson":
        stream = None if isinstance(path, str | os.PathLike) else path
        yield from _export_lines(found, target, stream, types)
    elif target is None:
        raise NotServed(
            f"a server exports {format} to a directory, not to a stream",
            method="export",
            instead="give a directory, or format='ndjson'",
        )
    else:
        yield from _export_files(found, target, types, format)
    entities = chosen_types(found.catalog, types)
    counts = {
        key: None if key in found.uncounted else pin.row_count for key, pin in found.tables.items()
    }
    exported = exported_types(entities, counts)
    shown = None if target is None else str(target)
    return ExportReceipt(shown, format, found.graph_commit_id, exported)


def _export_lines(
    found: Snapshot, target: Path | None, stream: BinaryIO | None, types: Sequence[str] | None
) -> Exchange[None]:
    body = given(
        {
            "snapshot": found.graph_commit_id,
            "type_names": None if types is None else list(types),
            "every_id": False,
        }
    )
    request = RemoteRequest(
        "POST", "/export", json=body, accept=NDJSON, is_long=True, streamed=True
    )
    if target is None:
        yield from _copy(request, sys.stdout.buffer if stream is None else stream)
        return
    if target.is_dir():
        raise InvalidArgument(f"{target} is a directory; NDJSON is one file", file=str(target))
    fd, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            yield from _copy(request, file)
        unfinished.chmod(0o644)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _copy(request: RemoteRequest, stream: BinaryIO) -> Exchange[None]:
    answer = yield request
    while chunk := (yield NextChunk(answer)):
        stream.write(chunk)
    stream.flush()


def _export_files(
    found: Snapshot, target: Path, types: Sequence[str] | None, file_format: str
) -> Exchange[None]:
    """One file for each type, made here from Arrow batches, a batch at a time where that waits."""
    with whole_directory(target, f"{file_format} is one file per type") as unfinished:
        for entity in chosen_types(found.catalog, types):
            answer = yield read_sorted(entity.name, found.graph_commit_id)
            tables = streamed_rows.tables_of((yield from _waited_for(answer)))
            write_file(unfinished / f"{entity.name}.{file_format}", file_format, entity, tables)


def _waited_for(answer: RemoteAnswer) -> Exchange[Iterator[bytes]]:
    """The chunks of an answer as they come, or all of them if the reader may not wait."""
    rest = answer.rest()
    if rest is not None:
        return rest
    chunks = []
    while chunk := (yield NextChunk(answer)):
        chunks.append(chunk)
    return iter(chunks)
