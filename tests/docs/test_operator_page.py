"""docs/operator.md works as it says, on a server that the test starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from page_runner import PageRun, fences
from typer.testing import CliRunner

import omnigraph
from omnigraph.cli.main import app
from omnigraph_testing.http_server import ThreadServer

PAGE = Path(__file__).parents[2] / "docs" / "operator.md"
ROWS = [{"name": "Ada", "age": 36}, {"name": "Bob", "age": 7}, {"name": "Cleo", "age": 36}]


def test_the_page_of_the_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", "home")
    text = PAGE.read_text(encoding="utf-8")
    for block in fences(text):
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
    lines = [json.dumps({"type": "Person", "data": row}) for row in ROWS]
    Path("people.ndjson").write_text("\n".join(lines), encoding="utf-8")
    applied = CliRunner().invoke(app, ["cluster", "apply", "--config", "team"])
    assert applied.exit_code == 0, applied.output
    omnigraph.init("people.omni", Path("team/people.pg")).close()
    with ThreadServer({"people": "people.omni"}, queries=(("people", "queries"),)) as server:
        page = text.replace("http://localhost:8080", server.url)
        assert PageRun("docs/operator.md", tmp_path).follow(page) > 0
