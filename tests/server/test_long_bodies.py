"""The memory of a server does not grow with the length of a body or of an export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraph
from omnigraph_testing.http_server import ProcessServer, client_of, wait_until
from omnigraph_testing.long_bodies import LONG_BODY_SCHEMA, peak_bytes, person_lines

_MB = 1_000_000


def load_and_export(folder: Path, size: int) -> tuple[int, int]:
    """Peak bytes of the server after a load of this size, and after an export of it."""
    uri = folder / f"graph-{size}.omni"
    omnigraph.init(uri, LONG_BODY_SCHEMA).close()
    with ProcessServer(uri, "--unauthenticated", "--max-load-bytes", "0") as server:
        assert server.process is not None
        with client_of(f"{server.url}/graphs/default") as http:
            answer = http.post(
                "/load/ndjson",
                content=person_lines(size),
                headers={"Content-Type": "application/x-ndjson"},
                timeout=httpx.Timeout(900),
            )
            assert answer.status_code == 200, answer.text
            rows = answer.json()["total_entities"]
            loaded = peak_bytes(server.process.pid)
            # The index of the ids is built now, which takes memory for itself.
            wait_until(lambda: not any(table["due"] for table in tables(http)), 120)
            lines = 0
            plain = {"Accept-Encoding": "identity"}
            with http.stream("POST", "/export", json={}, headers=plain, timeout=900) as export:
                for chunk in export.iter_raw():
                    lines += chunk.count(b"\n")
            assert lines == rows
        return loaded, peak_bytes(server.process.pid)


def tables(http: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get("/status").json()["branches"][0]["tables"]
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_peak_memory_of_a_long_load_and_export(tmp_path: Path) -> None:
    short = load_and_export(tmp_path, 100 * _MB)
    long = load_and_export(tmp_path, 2000 * _MB)
    # Buffers of writer and sorter fill up to a fixed size; the lines themselves are never held.
    assert long[0] - short[0] < 250 * _MB, (short, long)
    assert long[1] - short[1] < 250 * _MB, (short, long)
    assert long[1] - long[0] < 500 * _MB, (short, long)
