"""Request bodies and query parameters: read within their limits, and decoded as the route says."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from omnigraph.errors import ResourceLimit
from omnigraph.server.body_streams import too_large
from omnigraph.server.calls import Call
from omnigraph.server.compression import body_encoding, unpack
from omnigraph.server.replies import Refusal
from omnigraph.server.route_entry import RouteEntry

_FIRST_PART = 60


async def read_body(call: Call, limit: int) -> bytes:
    """The whole body, decompressed; 0 is no limit."""
    encoding = body_encoding(call.header(b"content-encoding"))
    stated = call.header(b"content-length")
    try:
        if stated is not None and stated.isdecimal():
            _require_size(int(stated), limit)
        raw = await _received(call, limit)
    except ResourceLimit:
        call.closes_connection()
        raise
    if encoding is None:
        return raw
    loop = asyncio.get_running_loop()
    content = await loop.run_in_executor(call.state.reads, unpack, raw, encoding, limit)
    _require_size(len(content), limit)
    return content


async def _received(call: Call, limit: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await call.receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the client went away before the end of its body")
        part = message.get("body", b"")
        size += len(part)
        _require_size(size, limit)
        parts.append(part)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _require_size(size: int, limit: int) -> None:
    if limit and size > limit:
        raise too_large(size, limit)


@lru_cache(maxsize=256)
def _decoder(kind: type) -> Any:
    return msgspec.json.Decoder(kind)


def decode_body(call: Call, entry: RouteEntry) -> Any:
    """The body as the struct of the route."""
    assert entry.body is not None
    if entry.body_optional and call.raw.strip() in (b"", b"null"):
        return entry.body()
    media = (call.header(b"content-type") or "").partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        named = f"not {media!r}" if media else "and the request names none"
        raise Refusal(415, f"the content type of this body is application/json, {named}")
    try:
        return _decoder(entry.body).decode(call.raw)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the body does not fit: {error}") from None
    except msgspec.DecodeError as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    except UnicodeDecodeError as error:
        raise Refusal(400, f"the body is not UTF-8: {error.reason}") from None


@lru_cache(maxsize=256)
def _query_fields(kind: type) -> dict[str, bool]:
    """Names of the parameters, and whether one may be repeated."""
    found: dict[str, bool] = {}
    for field in msgspec.structs.fields(kind):
        origin = msgspec.inspect.type_info(field.type)
        options = origin.types if isinstance(origin, msgspec.inspect.UnionType) else (origin,)
        found[field.encode_name] = any(
            isinstance(option, msgspec.inspect.ListType) for option in options
        )
    return found


def decode_query(call: Call, entry: RouteEntry) -> Any:
    """The query parameters as the struct of the route."""
    if entry.query is None:
        return None
    fields = _query_fields(entry.query)
    given: dict[str, Any] = {}
    text = call.scope["query_string"]
    if text:
        try:
            pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError as error:
            raise Refusal(400, f"the query string cannot be read: {error}") from None
        for name, value in pairs:
            if name not in fields:
                if entry.strict_query:
                    raise Refusal(400, f"unknown query parameter {name[:_FIRST_PART]!r}")
                continue
            if fields[name]:
                given.setdefault(name, []).append(value)
            elif name in given:
                raise Refusal(400, f"the query parameter {name!r} is given twice")
            else:
                given[name] = value
    try:
        return msgspec.convert(given, entry.query, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the query parameters do not fit: {error}") from None
