"""docs/agents.md works as it says: the same story over HTTP and over stdio."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest
from page_runner import PageRun

from omnigraph_testing.http_server import ThreadServer

ROOT = Path(__file__).parents[2]
STORY = "## Two agents and a reviewer"


def test_the_page_of_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(tmp_path)
    for file in (ROOT / "examples" / "agent-memory").iterdir():
        (tmp_path / file.name).symlink_to(file)
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    first, story = page.split(STORY)
    run = PageRun("docs/agents.md", tmp_path)
    assert run.follow(first) == 3
    shutil.copytree("memory.omni", "desk.omni")
    policy = tmp_path / "policy.yaml"
    policy.write_text(story.split('title="policy.yaml"\n')[1].split("```")[0])
    actors = ("planner", "auditor", "maria")
    with ThreadServer(
        {"memory": "memory.omni"},
        tokens=json.dumps({actor: f"token-of-{actor}" for actor in actors}),
        queries=(("memory", str(tmp_path)),),
        policies=(("memory", str(policy)),),
    ) as server:
        assert run.follow(story.replace("http://localhost:8080", server.url)) == 1
    shown = story.split('/mcp")))\n')[1].split("```")[0]
    module = sys.modules.pop("story")
    capfd.readouterr()
    options = ("--store", "desk.omni", "--queries", ".", "--policy", "policy.yaml")
    asyncio.run(module.tell(module.over_stdio(*options)))
    assert capfd.readouterr().out == shown
