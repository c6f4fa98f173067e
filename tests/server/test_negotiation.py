"""Which form of an answer a client gets."""

from __future__ import annotations

import pytest

from omnigraph.server.negotiation import choose_encoding, choose_media

OFFERS = ("application/json", "application/x-ndjson", "text/csv")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/json, application/x-ndjson", "application/json"),
        ("application/x-ndjson, application/json", "application/x-ndjson"),
        ("application/json;q=0.5, text/csv", "text/csv"),
        ("application/json;q=0.5, text/csv;q=0.5", "application/json"),
        ("text/*", "text/csv"),
        ("text/*;q=0.1, */*", "application/json"),
        ("TEXT/CSV ; Q=1", "text/csv"),
        ("application/json;q=0, */*", "application/x-ndjson"),
        ("text/html, application/xhtml+xml, */*;q=0.8", "application/json"),
        ("text/html", None),
        ("text/csv;q=0", None),
        ("text/csv;q=rubbish", None),
    ],
)
def test_media(accept: str | None, expected: str | None) -> None:
    assert choose_media(accept, OFFERS) == expected


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, None),
        ("identity", None),
        ("gzip", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=1, zstd;q=0.5", "gzip"),
        ("br", None),
        ("*", "zstd"),
        ("zstd;q=0, *", "gzip"),
        ("identity;q=1, gzip;q=0.5", None),
        ("gzip;q=0", None),
    ],
)
def test_encoding(accept: str | None, expected: str | None) -> None:
    assert choose_encoding(accept) == expected
