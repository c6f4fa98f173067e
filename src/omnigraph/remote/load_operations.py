"""Loads into a graph on a server.

One NDJSON, Arrow or Parquet source is sent unchanged, and the server parses it while it arrives.
Everything else is sent as a tar archive: a list of the sources, and then a file for each.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from omnigraph.errors import InvalidArgument, NotServed, OmnigraphError
from omnigraph.load.input_files import open_unpacked, size_of
from omnigraph.load.modes import LoadModes
from omnigraph.load.options import LoadReceipt, OnError
from omnigraph.load.sources import Source, find_sources
from omnigraph.manifest.records import StreamBatch
from omnigraph.progress import tell
from omnigraph.remote.exchanges import (
    ARROW,
    NDJSON,
    Body,
    Exchange,
    RemoteRequest,
    asked,
    parameters,
    retold,
    sent_text,
)
from omnigraph.remote.write_operations import new_key
from omnigraph.values.json_values import json_text
from omnigraph.values.known_names import AUTO, LOCAL, SPARK, require_engine
from omnigraph.wire.records import record_from_json

TAR = "application/x-tar"
PARQUET = "application/vnd.apache.parquet"
SOURCES = "sources.json"
"""The first member of an archive: the sources in order, with their files, types and names, and
the details of the commit."""

type_of = type  # `load` has a parameter of that name
_CHUNK = 256 * 1024
_ROWS = 64 * 1024
_BODY = "<body>"
_LIST_SUFFIX = ".ndjson"


@dataclass(frozen=True, slots=True)
class LoadTerms:
    """The options of a load that the server gets as parameters of the request."""

    mode: str | Mapping[str, str]
    scope: str | Mapping[str, str] | None
    branch: str
    from_branch: str | None
    engine: str
    columns: Mapping[str, str] | None
    delimiter: str | None
    quote: str | None
    encoding: str | None
    on_error: str
    max_errors: int | None
    wants_rejects: bool
    message: str | None
    if_commit: str | None
    stream_batch: StreamBatch | None
    details: Mapping[str, Any] | None
    dry_run: bool

    def parameters(self, type_name: str | None) -> tuple[tuple[str, str], ...]:
        batch = self.stream_batch
        return parameters(
            ("branch", self.branch),
            ("from", self.from_branch),
            ("mode", _text(self.mode)),
            ("scope", _text(self.scope)),
            ("type", type_name),
            ("engine", None if self.engine == AUTO else self.engine),
            ("map", _text(self.columns)),
            ("delimiter", self.delimiter),
            ("quote", self.quote),
            ("encoding", self.encoding),
            ("on_error", None if self.on_error == OnError.FAIL else self.on_error),
            ("max_errors", self.max_errors),
            ("rejects", self.wants_rejects or None),
            ("message", self.message),
            ("if_commit", self.if_commit),
            ("stream", batch.stream if batch else None),
            ("batch", batch.batch if batch else None),
            ("details", _text(self.details)),
            ("dry_run", self.dry_run or None),
        )


def _text(given: str | Mapping[str, Any] | None) -> str | None:
    """A parameter: a text unchanged, an object as JSON."""
    if given is None or isinstance(given, str):
        return given
    return json_text(dict(given)) if given else None


def load(
    data: Any,
    mode: str | Mapping[str, str],
    branch: str,
    scope: str | Mapping[str, str] | None,
    from_branch: str | None,
    engine: str,
    type: str | None,
    map: Mapping[str, str] | None,
    columns: Mapping[str, str] | None,
    delimiter: str | None,
    quote: str | None,
    encoding: str | None,
    on_error: str,
    max_errors: int | None,
    rejects: str | os.PathLike[str] | None,
    progress: bool | Callable[[int, int], None] | None,
    message: str | None,
    if_commit: str | None,
    idempotency_key: str | None,
    stream_batch: StreamBatch | None,
    details: Mapping[str, Any] | None,
    dry_run: bool,
    before_commit: Callable[[LoadReceipt], object] | None,
) -> Exchange[LoadReceipt]:
    require_engine(engine, "load", (AUTO, LOCAL, SPARK))
    if type_of(data).__module__.startswith("pyspark."):
        raise NotServed(
            "a client of a server does not send a DataFrame of Spark",
            method="load",
            instead="write it as Parquet and load the files, or open the store itself",
        )
    terms = LoadTerms(
        mode=mode,
        scope=scope,
        branch=branch,
        from_branch=from_branch,
        engine=engine,
        columns=map if map is not None else columns,
        delimiter=delimiter,
        quote=quote,
        encoding=encoding,
        on_error=OnError.parse(on_error).value,
        max_errors=max_errors,
        wants_rejects=rejects is not None,
        message=message,
        if_commit=if_commit,
        stream_batch=stream_batch,
        details=details,
        dry_run=dry_run,
    )
    LoadModes.parse(mode, scope)  # refuses a mode that does not exist
    sent = progress if callable(progress) else None
    with ExitStack() as scratch:
        sources = find_sources(data, type)
        if before_commit is not None:
            sources = [_kept(source, scratch) for source in sources]
            planned = _request(sources, replace(terms, dry_run=True), new_key(), sent, scratch)
            before_commit((yield from _loaded(planned, sources, rejects)))
        request = _request(sources, terms, idempotency_key or new_key(), sent, scratch)
        return (yield from _loaded(request, sources, rejects))


def _loaded(
    request: RemoteRequest, sources: list[Source], rejects: str | os.PathLike[str] | None
) -> Exchange[LoadReceipt]:
    try:
        found = yield from asked(request)
    except OmnigraphError as error:
        _write_rejects(rejects, vars(error).get("envelope", {}))
        if len(sources) > 1:
            raise
        raise _named(error, sources[0].name) from None
    _write_rejects(rejects, found)
    return record_from_json(LoadReceipt, found)


def _named(error: OmnigraphError, name: str) -> OmnigraphError:
    """The error with the name of the input, which the server calls its body."""
    fields = {field: _renamed(value, name) for field, value in error.fields.items()}
    return retold(error, _renamed(error.message, name), fields)


def _renamed(value: Any, name: str) -> Any:
    match value:
        case str():
            return value.replace(_BODY, name)
        case list():
            return [_renamed(item, name) for item in value]
        case dict():
            return {key: _renamed(item, name) for key, item in value.items()}
        case _:
            return value


def _write_rejects(target: str | os.PathLike[str] | None, answer: Mapping[str, Any]) -> None:
    """The server sends the rejected rows in its answer, because the file is here."""
    if target is not None and "rejects" in answer:
        Path(target).expanduser().write_text(answer["rejects"], encoding="utf-8")


def _kept(source: Source, scratch: ExitStack) -> Source:
    """A source that can be read twice: a stream is copied to a file."""
    if source.stream is None:
        return source
    copy = _scratch_file(scratch)
    for chunk in _chunks(source.stream):
        copy.write(chunk)
    copy.flush()
    return replace(source, path=Path(copy.name), stream=None)


def _scratch_file(scratch: ExitStack) -> IO[bytes]:
    return scratch.enter_context(tempfile.NamedTemporaryFile(prefix="omnigraph-load-"))


def _request(
    sources: list[Source],
    terms: LoadTerms,
    key: str,
    sent: Callable[[int, int], None] | None,
    scratch: ExitStack,
) -> RemoteRequest:
    once = any(source.stream is not None for source in sources)
    direct = _direct(sources[0]) if len(sources) == 1 and not terms.wants_rejects else None
    if direct is not None and terms.encoding is None:
        content_type, body = direct
        path, query = "/load/ndjson", terms.parameters(sources[0].type_name)
    else:
        content_type, body = TAR, _archive(sources, terms.details, scratch)
        path, query = "/load/files", replace(terms, details=None).parameters(None)
    return RemoteRequest(
        "POST",
        path,
        query,
        body=_counted(body, sum(source.size for source in sources), sent),
        content_type=content_type,
        writes=True,
        key=key,
        is_long=True,
        once=once,
    )


def _counted(body: Body, total: int, sent: Callable[[int, int], None] | None) -> Body:
    def chunks() -> Iterator[bytes]:
        done = 0
        for chunk in body():
            yield chunk
            done += len(chunk)
            tell("sending", done, max(total, done) or None, "MB")
            if sent is not None:
                sent(len(chunk), 0)

    return chunks


def _direct(source: Source) -> tuple[str, Body] | None:
    """The content type and the chunks of a source that needs no archive."""
    path = source.path
    match source.format:
        case "ndjson" if source.stream is not None:
            return NDJSON, lambda: _chunks(source.stream)
        case "ndjson" if path is not None:
            return NDJSON, lambda: _closing(open_unpacked(path))
        case "rows":
            return NDJSON, lambda: _lines(source.table)
        case "parquet" if path is not None:
            return PARQUET, lambda: _closing(_opened(path))
        case "arrow" if isinstance(source.table, pa.Table):
            return ARROW, lambda: _arrow(source.table)
        case _:
            return None


def _chunks(opened: IO[bytes]) -> Iterator[bytes]:
    while chunk := opened.read(_CHUNK):
        yield chunk


def _closing(opened: IO[bytes]) -> Iterator[bytes]:
    with opened:
        yield from _chunks(opened)


def _lines(rows: list[Any]) -> Iterator[bytes]:
    for start in range(0, len(rows), 1000):
        texts = [json_text(row) for row in rows[start : start + 1000]]
        yield sent_text("\n".join(texts) + "\n")


def _arrow(table: pa.Table) -> Iterator[bytes]:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(_ROWS):
            writer.write_batch(batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


# Archives


def _archive(sources: list[Source], details: Mapping[str, Any] | None, scratch: ExitStack) -> Body:
    """The details of the commit are in the list, because an address has no room for long ones."""
    files = [_archived(source, scratch) for source in sources]
    listed = [
        {"file": f"{number}/{name}", "type": source.type_name, "name": source.name}
        for number, (source, (name, _, _)) in enumerate(zip(sources, files, strict=True))
    ]
    index = json_text({"sources": listed, "details": dict(details or {})}).encode()

    def body() -> Iterator[bytes]:
        yield from _member(SOURCES, len(index), io.BytesIO(index))
        for entry, (_, size, opened) in zip(listed, files, strict=True):
            yield from _member(str(entry["file"]), size, opened())
        yield b"\0" * 1024

    return body


def _member(name: str, size: int, content: IO[bytes]) -> Iterator[bytes]:
    header = tarfile.TarInfo(name)
    header.size = size
    yield header.tobuf(tarfile.PAX_FORMAT)
    with content:
        sent = 0
        for chunk in _chunks(content):
            sent += len(chunk)
            yield chunk
    if sent != size:
        raise InvalidArgument(f"{name} changed while it was sent: {sent} bytes instead of {size}")
    yield b"\0" * (-size % 512)


Opened = Callable[[], IO[bytes]]


def _archived(source: Source, scratch: ExitStack) -> tuple[str, int, Opened]:
    """(file name, size, how to open it). What is in memory is written to a file first."""
    path = source.path
    if path is not None:
        return path.name, size_of(path), lambda: _opened(path)
    file = _scratch_file(scratch)
    if source.stream is not None:
        chunks, suffix = _chunks(source.stream), _LIST_SUFFIX
    elif source.format == "rows":
        chunks, suffix = _lines(source.table), _LIST_SUFFIX
    elif source.format == "arrow":
        table = source.table if isinstance(source.table, pa.Table) else source.table.read_all()
        chunks, suffix = _arrow(table), ".arrows"
    else:
        raise NotServed(
            f"a client of a server cannot send {source.name}",
            method="load",
            instead="give files, Arrow tables or rows as dicts",
        )
    for chunk in chunks:
        file.write(chunk)
    file.flush()
    size = file.tell()
    return f"{source.type_name or 'rows'}{suffix}", size, lambda: Path(file.name).open("rb")


def _opened(path: Any) -> IO[bytes]:
    """The bytes as they are; the server unpacks `.gz` and `.zst` itself."""
    opened: IO[bytes] = path.open("rb") if isinstance(path, Path) else path.open()
    return opened
