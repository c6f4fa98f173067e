"""docs/clients.md and docs/server.md work as they say, on a server that the test starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_runner import PageRun, fences

import omnigraph
from omnigraph_testing.http_server import ThreadServer

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["clients.md", "server.md"])
def test_pages_of_the_server(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    schema = next(block for block in fences(text) if block.title == "people.pg")
    omnigraph.init("people.omni", schema.text).close()
    with ThreadServer({"people": "people.omni"}) as server:
        page = text.replace("http://localhost:8080", server.url)
        assert PageRun(f"docs/{name}", tmp_path).follow(page) > 0
