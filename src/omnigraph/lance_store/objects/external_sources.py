"""The targets of external blobs: their sizes, and ranges of their bytes.

Only addresses that the caller has judged come here (`values.external_blobs`). Redirects of a web
server are not followed, because their targets were not judged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import unquote_to_bytes

import httpx
import obstore
from obstore.exceptions import BaseError

from omnigraph.errors import ExternalBlobUnavailable
from omnigraph.lance_store.objects.control_files import object_store
from omnigraph.lance_store.objects.storage_location import StorageLocation, s3_options
from omnigraph.values.external_blobs import local_path

NOT_FOUND, NOT_READABLE = "not_found", "not_readable"

_SECONDS = 30.0
_FOUND, _PART = 200, 206
_MISSING = (404, 410)


def source_size(uri: str, environment: Mapping[str, str]) -> int:
    """The size of the target in bytes; raises `ExternalBlobUnavailable`."""
    with _unavailable(uri):
        match uri.partition("://")[0]:
            case "file":
                return local_path(uri).stat().st_size
            case "s3":
                store, key = _bucket(uri, environment)
                return int(obstore.head(store, key)["size"])
            case _:
                return _web_size(uri)


def read_source(uri: str, offset: int, length: int, environment: Mapping[str, str]) -> bytes:
    """At most `length` bytes from `offset`; raises `ExternalBlobUnavailable`."""
    with _unavailable(uri):
        match uri.partition("://")[0]:
            case "file":
                with local_path(uri).open("rb") as file:
                    file.seek(offset)
                    return file.read(length)
            case "s3":
                store, key = _bucket(uri, environment)
                return bytes(obstore.get_range(store, key, start=offset, length=length))
            case _:
                return _web_range(uri, offset, length)


@contextmanager
def _unavailable(uri: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise _lost(uri, NOT_FOUND, "there is no such object") from error
    except (OSError, ValueError, BaseError) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise _lost(uri, NOT_READABLE, why) from error


def _lost(uri: str, reason: str, why: str) -> ExternalBlobUnavailable:
    return ExternalBlobUnavailable(
        f"the external blob {uri} is not available: {why}", uri=uri, reason=reason
    )


def _bucket(uri: str, environment: Mapping[str, str]) -> tuple[obstore.store.S3Store, str]:
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    place = StorageLocation(f"s3://{bucket}", bucket=bucket, options=s3_options(environment))
    return object_store(place), os.fsdecode(unquote_to_bytes(path))


def _web_size(uri: str) -> int:
    with _web_errors(uri), httpx.Client(timeout=_SECONDS) as client:
        # Without compression, so that the length is that of the content.
        answer = client.head(uri, headers={"Accept-Encoding": "identity"})
        _require(uri, answer.status_code, _FOUND)
        length = answer.headers.get("content-length", "")
        if not length.isdecimal():
            raise _lost(uri, NOT_READABLE, "its server does not tell the size")
        return int(length)


def _web_range(uri: str, offset: int, length: int) -> bytes:
    asked = {"Accept-Encoding": "identity", "Range": f"bytes={offset}-{offset + length - 1}"}
    with (
        _web_errors(uri),
        httpx.Client(timeout=_SECONDS) as client,
        client.stream("GET", uri, headers=asked) as answer,
    ):
        _require(uri, answer.status_code, _FOUND, _PART)
        skipped = 0 if answer.status_code == _PART else offset
        found = bytearray()
        for chunk in answer.iter_raw():
            found += chunk
            if len(found) >= skipped + length:
                break
        return bytes(found[skipped : skipped + length])


def _require(uri: str, status: int, *good: int) -> None:
    if status not in good:
        reason = NOT_FOUND if status in _MISSING else NOT_READABLE
        raise _lost(uri, reason, f"its server answered {status}")


@contextmanager
def _web_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise _lost(uri, NOT_READABLE, str(error) or type(error).__name__) from error
