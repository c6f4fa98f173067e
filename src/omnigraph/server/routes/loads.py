"""`/load`, `/load/ndjson`, `/load/files` and `/ingest`: data in, parsed while it arrives.

A load of a stream prepares its rows on local disk and commits when the body has ended. So a client
that goes away before that has written nothing.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec
import pyarrow as pa
from msgspec import Struct, field

from omnigraph.errors import InvalidArgument, OmnigraphError, PolicyDenied, ReadOnlyGraph
from omnigraph.load.input_files import KeptCopy
from omnigraph.load.sources import Source, copied_file, find_sources
from omnigraph.manifest.records import StreamBatch
from omnigraph.policy import actions
from omnigraph.policy.actions import CHANGE
from omnigraph.server import answers as tell
from omnigraph.server.bodies_in import BodyStream, KeptBody
from omnigraph.server.calls import Call, in_thread, noted
from omnigraph.server.query_answers import ARROW, NDJSON
from omnigraph.server.replies import Refusal, Reply, reply_of
from omnigraph.server.route_entry import RouteEntry
from omnigraph.server.routes.long_work import run_later, wants_later
from omnigraph.values.identifiers import MAIN
from omnigraph.values.known_names import AUTO, LOCAL
from omnigraph.wire.records import record_to_json

PARQUET = "application/vnd.apache.parquet"
TAR = "application/x-tar"
STREAM_MEDIA = (NDJSON, PARQUET, ARROW)

_LARGEST_BATCH = 256 * 1024 * 1024
_BODY = "<body>"
Body = BodyStream | KeptBody
Opener = Callable[[Body], Any]
"""A body -> a context manager that gives a `LoadInput`."""
LoadInput = tuple[Any, dict[str, Any]]
"""The data of a load, and the details of the commit that came with it."""
INDEX = "sources.json"
_LARGEST_INDEX = 4 * 1024 * 1024
_LARGEST_RECORD = 64 * 1024
"""Bytes of a record about the next member, such as a long name, which are read into memory."""
_RECORDS = frozenset(b"xgXLK")
"""Types of such records."""
_COPY_BYTES = 1024 * 1024
_LONGEST_NAME = 255
"""Bytes that file systems allow for the name of a file."""
_NOT_READABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder of JSON raises for bytes of any kind."""
_STATUSES = (202, 400, 401, 403, 404, 408, 409, 412, 413, 415, 424, 429, 503)


class LoadQuery(Struct):
    """Where the entities go, and how the body is read. `from` starts a missing branch."""

    branch: str = MAIN
    source: str | None = field(name="from", default=None)
    mode: str = "merge"
    """One mode, or a JSON object of the mode of each type."""
    scope: str | None = None
    """With `mirror`: a condition, or a JSON object of the condition of each type."""
    type: str | None = None
    engine: str = AUTO
    map: str | None = None
    delimiter: str | None = None
    quote: str | None = None
    encoding: str | None = None
    on_error: str = "fail"
    max_errors: int | None = None
    rejects: bool = False
    message: str | None = None
    if_commit: str | None = None
    stream: str | None = None
    batch: int | None = None
    details: str | None = None
    """A JSON object that `Commit.details` records."""
    dry_run: bool = False


class LoadRequest(Struct, forbid_unknown_fields=True):
    """NDJSON as text, or addresses of files that the operator of the server allows."""

    data: str | None = None
    sources: list[str] | None = None
    branch: str = MAIN
    source: str | None = field(name="from", default=None)
    mode: str = "merge"
    type: str | None = None
    engine: str = AUTO
    on_error: str = "fail"
    max_errors: int | None = None
    message: str | None = None
    if_commit: str | None = None
    dry_run: bool = False


# Bodies that are data


async def load_stream(call: Call) -> Any:
    """POST `/load/ndjson`: NDJSON, Parquet or an Arrow stream."""
    asked: LoadQuery = call.query
    media = _content_type(call, STREAM_MEDIA)
    if media != NDJSON and asked.type is None:
        raise Refusal(400, f"a body of {media} needs ?type=, the type of its rows")
    return await _load_body(call, lambda body: _opened(call, body, media))


async def load_files(call: Call) -> Any:
    """POST `/load/files`: an archive of several files, for one commit."""
    _content_type(call, (TAR,))
    return await _load_body(call, lambda body: _unpacked(call, body))


@contextmanager
def _unpacked(call: Call, body: Body) -> Iterator[LoadInput]:
    with unpacked_archive(body.file, _scratch(call)) as (sources, details):
        known = [replace(source, digest=lambda: body.fingerprint) for source in sources]
        yield known, details


async def _load_body(call: Call, opened: Opener) -> Any:
    body = BodyStream(call, call.state.settings.limits.load_bytes)
    try:
        await in_thread(call, lambda: _authorize(call))
        if not wants_later(call):
            return await in_thread(call, lambda: _load_opened(call, body, opened))
        # The client gets its answer when the body has ended, so all of it is kept first.
        kept = await in_thread(call, lambda: body.kept(_scratch(call)))
    finally:
        await body.leave(call)

    def work() -> Any:
        with kept:
            return _load_opened(call, kept, opened)

    return await run_later(call, work, call.query.branch, unused=kept.remove)


def _load_opened(call: Call, body: Body, opened: Opener) -> Reply:
    with opened(body) as (data, details):
        found = _load(call, call.query, data, details)
    call.notes["bytes_in"] = body.received
    return found


def _authorize(call: Call) -> None:
    """Refuse what will be refused anyway before the client has sent all of its data."""
    graph = call.graph
    graph.require(CHANGE, call.query.branch)
    if graph.read_only:
        raise ReadOnlyGraph("this server only reads")


def _content_type(call: Call, known: tuple[str, ...]) -> str:
    named = (call.header(b"content-type") or "").partition(";")[0].strip().lower()
    if named not in known:
        given = f"not {named!r}" if named else "and the request names none"
        raise Refusal(415, f"the content type of this body is {' or '.join(known)}, {given}")
    return named


def _scratch(call: Call) -> str | None:
    return call.graph.engine.settings.load.temp_directory


@contextmanager
def _opened(call: Call, body: Body, media: str) -> Iterator[LoadInput]:
    if media == NDJSON:
        lines = Source(
            "ndjson", _BODY, call.query.type, stream=body.file, digest=lambda: body.fingerprint
        )
        yield lines, {}
    elif media == PARQUET:
        # The end of a Parquet file says where its columns are, so it is read from disk.
        path = body.spooled(_scratch(call))
        try:
            kept = KeptCopy(path, _BODY)
            rows = Source("parquet", _BODY, call.query.type, kept, digest=lambda: body.fingerprint)
            yield rows, {}
        finally:
            path.unlink(missing_ok=True)
    else:
        table = arrow_batches(body.file)
        rows = Source("arrow", _BODY, call.query.type, table=table, digest=lambda: body.fingerprint)
        yield rows, {}


class _BoundedReads:
    """A file for Arrow, which reads each batch at once: a batch may not be of any size."""

    closed = False

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def read(self, size: int = -1) -> bytes:
        if size > _LARGEST_BATCH:
            raise InvalidArgument(
                f"{_BODY}: not an Arrow stream, or one with a batch of more than "
                f"{_LARGEST_BATCH >> 20} MiB: send smaller batches"
            )
        data: bytes = self._opened.read(size)
        return data

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True


def arrow_batches(opened: Any) -> pa.RecordBatchReader:
    """The batches of an Arrow stream while it arrives."""
    with _arrow_errors():
        reader = pa.ipc.open_stream(pa.PythonFile(_BoundedReads(opened), "r"))

    def batches() -> Iterator[pa.RecordBatch]:
        with _arrow_errors():
            yield from reader

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


@contextmanager
def _arrow_errors() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InvalidArgument(f"{_BODY}: not an Arrow stream: {str(error)[:200]}") from error


# Bodies that are JSON


async def load(call: Call) -> Any:
    """POST `/load` and `/ingest`."""
    asked: LoadRequest = call.body
    if (asked.data is None) == (asked.sources is None):
        raise Refusal(400, "the body does not fit: give `data`, or `sources`")
    data: Any
    if asked.data is not None:
        stream = io.BytesIO(asked.data.encode())
        data = Source("ndjson", _BODY, asked.type, stream=stream, digest=lambda: digest)
    else:
        data = [_allowed(call, uri) for uri in asked.sources or ()]
    digest = hashlib.sha256(call.raw).hexdigest()

    def work() -> Reply:
        given = data if isinstance(data, Source) else _found(data, asked.type, digest)
        found = _load(call, asked, given)
        found.body["uri"] = call.graph_id  # as other writes: the address names storage
        return found

    if wants_later(call):
        return await run_later(call, work, asked.branch)
    return await in_thread(call, work)


def _found(uris: list[str], type_name: str | None, digest: str) -> list[Source]:
    """The files of addresses; a key stands for their names, because they are not read here."""
    sources = [source for uri in uris for source in find_sources(uri, type_name)]
    return [replace(source, digest=lambda: digest) for source in sources]


def _allowed(call: Call, uri: str) -> str:
    """An address below one that the operator named; the server reads no other."""
    parts = uri.split("/")
    for prefix in call.state.settings.load_sources:
        below = prefix if prefix.endswith("/") else f"{prefix}/"
        if ".." not in parts and (uri == prefix or uri.startswith(below)):
            return uri
    raise PolicyDenied(
        f"{uri}: this server does not read from there; its operator names the places with "
        "--load-source",
        action=CHANGE,
        actor_id=call.actor,
    )


# The load


def _load(
    call: Call,
    asked: LoadQuery | LoadRequest,
    data: Any,
    details: dict[str, Any] | None = None,
) -> Reply:
    mode: str | dict[str, str] = asked.mode
    more: dict[str, Any] = {}
    if isinstance(asked, LoadQuery):
        mode = _by_type("mode", asked.mode) or asked.mode
        more = {
            "scope": _by_type("scope", asked.scope) or asked.scope,
            "details": details or _details(asked.details),
            "map": _column_map(asked.map),
            "delimiter": asked.delimiter,
            "quote": asked.quote,
            "encoding": asked.encoding,
            "stream_batch": _stream_batch(asked),
        }

    def run(rejects: Path | None) -> Reply:
        receipt = call.graph.load(
            data,
            mode,
            asked.branch,
            from_branch=asked.source,
            engine=asked.engine if asked.engine != AUTO or _has_size(data) else LOCAL,
            type=asked.type,
            on_error=asked.on_error,
            max_errors=asked.max_errors,
            rejects=rejects,
            progress=False,
            message=asked.message,
            if_commit=asked.if_commit,
            idempotency_key=call.idempotency_key,
            dry_run=asked.dry_run,
            **more,
        )
        noted(call, receipt.commit, repeated=receipt.repeated)
        return Reply({**record_to_json(receipt), "actor_id": call.actor})

    if isinstance(asked, LoadQuery) and asked.rejects:
        return _with_rejects(call, run)
    return run(None)


def _with_rejects(call: Call, run: Callable[[Path | None], Reply]) -> Reply:
    """The answer with the rejected rows, because their file is on the side of the client."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-rejects-", dir=_scratch(call)) as folder:
        path = Path(folder) / "rejects.ndjson"
        try:
            reply = run(path)
        except OmnigraphError as error:
            if wants_later(call):
                raise
            reply = reply_of(error, call.request_id)
        if path.exists():
            reply.body["rejects"] = path.read_text(encoding="utf-8")
        return reply


def _has_size(data: Any) -> bool:
    """A stream has no size by which an engine could be chosen."""
    return isinstance(data, list)


def _column_map(text: str | None) -> dict[str, str] | None:
    return None if text is None else _json_object("map", text, dict[str, str])


def _by_type(name: str, text: str | None) -> dict[str, str] | None:
    """The texts of each type; None for a parameter that is one text."""
    if text is None or not text.startswith("{"):
        return None
    return _json_object(name, text, dict[str, str])


def _details(text: str | None) -> dict[str, Any] | None:
    return None if text is None else _json_object("details", text, dict[str, Any])


def _json_object(name: str, text: str, kind: type[dict[str, Any]]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = msgspec.json.decode(text, type=kind)
    except _NOT_READABLE as error:
        raise Refusal(400, f"{name} is a JSON object: {error}") from None
    return found


def _stream_batch(asked: LoadQuery) -> StreamBatch | None:
    if asked.stream is None and asked.batch is None:
        return None
    if asked.stream is None or asked.batch is None:
        raise Refusal(400, "stream and batch are given together")
    return StreamBatch(asked.stream, asked.batch)


class ArchivedFile(Struct, forbid_unknown_fields=True):
    """One member of the list: a file of the archive, and how errors call it."""

    file: str
    type: str | None = None
    name: str | None = None


class ArchiveIndex(Struct, forbid_unknown_fields=True):
    """The list of an archive, and what `Commit.details` records; a plain list has no details."""

    sources: list[ArchivedFile]
    details: dict[str, Any] = {}


class _ArchiveEntry(tarfile.TarInfo):
    """What an archive says of one of its files."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: Any, errors: Any) -> _ArchiveEntry:
        found = super().frombuf(buf, encoding, errors)
        if found.type == tarfile.GNUTYPE_SPARSE:
            raise InvalidArgument(f"{found.name}: an archive of a load holds only whole files")
        if found.type[0] in _RECORDS and found.size > _LARGEST_RECORD:
            raise InvalidArgument(
                f"the archive has a record of {found.size:,} bytes about a member: give its files "
                "shorter names"
            )
        return found


@contextmanager
def unpacked_archive(
    body: IO[bytes], directory: str | None
) -> Iterator[tuple[list[Source], dict[str, Any]]]:
    """The sources and details of an archive; its files lie on local disk until the end."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-load-", dir=directory) as folder:
        try:
            with tarfile.open(fileobj=body, mode="r|", tarinfo=_ArchiveEntry) as archive:
                unpacked = _members_on_disk(archive, Path(folder))
        except tarfile.TarError as error:
            raise InvalidArgument(f"the body is not a whole tar archive: {error}") from error
        yield unpacked


def _members_on_disk(archive: tarfile.TarFile, folder: Path) -> tuple[list[Source], dict[str, Any]]:
    index: ArchiveIndex | None = None
    paths: dict[str, Path] = {}
    names: set[str] = set()
    for member in archive:
        content = archive.extractfile(member) if member.isfile() else None
        if content is None:
            raise InvalidArgument(f"{member.name}: an archive of a load holds only files")
        if index is None:
            index = _index(member, content)
            names = {each.file for each in index.sources}
            continue
        if member.name not in names:
            raise InvalidArgument(f"the list of the archive has no file {member.name!r}")
        # The folder of a member is a number, so equal names of files do not meet.
        place = folder / str(len(paths)) / _file_name(member)
        if member.name in paths:
            raise InvalidArgument(f"the archive has two files {member.name!r}")
        place.parent.mkdir()
        with place.open("wb") as kept:
            shutil.copyfileobj(content, kept, _COPY_BYTES)
        paths[member.name] = place
    listed = index.sources if index is not None else []
    missing = [each.file for each in listed if each.file not in paths]
    if index is None or not listed or missing:
        told = f"it has no {missing[0]!r}" if missing else f"its first member is {INDEX}"
        raise InvalidArgument(f"the archive is not complete: {told}")
    found = [copied_file(paths[each.file], each.type, each.name or each.file) for each in listed]
    return found, index.details


def _file_name(member: tarfile.TarInfo) -> str:
    """The last part of the name of a member, by which a file of its own can be called."""
    name = Path(member.name).name
    if name in ("", "..") or "\0" in name or len(os.fsencode(name)) > _LONGEST_NAME:
        raise InvalidArgument(f"{member.name[:_LONGEST_NAME]!r} in the archive names no file")
    return name


def _index(member: tarfile.TarInfo, content: IO[bytes]) -> ArchiveIndex:
    if member.name != INDEX or member.size > _LARGEST_INDEX:
        raise InvalidArgument(f"the first member of the archive is {INDEX}, not {member.name}")
    try:
        found = msgspec.json.decode(content.read(), type=list[ArchivedFile] | ArchiveIndex)
    except _NOT_READABLE as error:
        raise InvalidArgument(f"{INDEX} does not fit: {error}") from None
    return found if isinstance(found, ArchiveIndex) else ArchiveIndex(found)


LOAD_ROUTES = (
    RouteEntry(
        "POST",
        "/load/ndjson",
        "loadNdjson",
        "mutations",
        load_stream,
        "Load a body of NDJSON, Parquet or Arrow as one commit, parsed as it arrives.",
        action=actions.CHANGE,
        query=LoadQuery,
        strict_query=True,
        answer=tell.GraphBatchLoadOutput,
        body_media=STREAM_MEDIA,
        body_limit="load_bytes",
        statuses=_STATUSES,
        admission="body length",
        is_async_work=True,
        takes_key=True,
    ),
    RouteEntry(
        "POST",
        "/load/files",
        "loadFiles",
        "mutations",
        load_files,
        "Load several files, sent as a tar archive, as one commit.",
        action=actions.CHANGE,
        query=LoadQuery,
        strict_query=True,
        answer=tell.GraphBatchLoadOutput,
        body_media=(TAR,),
        body_limit="load_bytes",
        statuses=_STATUSES,
        admission="body length",
        is_async_work=True,
        takes_key=True,
    ),
    RouteEntry(
        "POST",
        "/load",
        "load",
        "mutations",
        load,
        "Load NDJSON in a JSON body, or files that the operator allows, as one commit.",
        action=actions.CHANGE,
        body=LoadRequest,
        answer=tell.IngestOutput,
        body_limit="load_bytes",
        statuses=_STATUSES,
        admission="len(data)",
        is_async_work=True,
        takes_key=True,
    ),
    RouteEntry(
        "POST",
        "/ingest",
        "ingest",
        "mutations",
        load,
        "Load NDJSON in a JSON body; use /load.",
        action=actions.CHANGE,
        body=LoadRequest,
        answer=tell.IngestOutput,
        body_limit="load_bytes",
        statuses=_STATUSES,
        admission="len(data)",
        is_async_work=True,
        takes_key=True,
        successor="load",
    ),
)
