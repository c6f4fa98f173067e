"""One suite on two graphs: in a store, and on a server. What callers see must be the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph
from omnigraph_testing.graph_suite import CASES, EXTERNAL, LINES, SCHEMA, STORED, observed
from omnigraph_testing.http_server import ThreadServer


@dataclass
class BothGraphs:
    """The same graph twice."""

    local: omnigraph.Graph
    remote: omnigraph.Graph


def create(uri: Path) -> None:
    with omnigraph.init(uri, SCHEMA, actor="tester") as graph:
        graph.load([json.loads(line) for line in LINES.splitlines()], message="people")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothGraphs]:
    folder = tmp_path_factory.mktemp("suite")
    create(folder / "local.omni")
    create(folder / "served.omni")
    queries = folder / "queries"
    queries.mkdir()
    (queries / "people.gq").write_text(STORED)
    local = omnigraph.open(
        folder / "local.omni", actor="tester", queries=queries, external_blobs=[EXTERNAL]
    )
    stored, allowed = (("people", str(queries)),), (("people", EXTERNAL),)
    with ThreadServer(
        {"people": str(folder / "served.omni")}, queries=stored, external_blobs=allowed
    ) as server:
        remote = omnigraph.open(f"{server.url}/graphs/people")
        yield BothGraphs(local, remote)
        remote.close()
    local.close()


@pytest.mark.parametrize("name", CASES)
def test_a_graph_on_a_server_behaves_like_one_in_a_store(
    both: BothGraphs, name: str, tmp_path: Path
) -> None:
    branch = name.replace("_", "-")
    seen = []
    for place, graph in (("local", both.local), ("remote", both.remote)):
        folder = tmp_path / "data"
        folder.mkdir()
        graph.branches.create(branch)
        seen.append(observed(CASES[name], graph, branch, folder))
        folder.rename(tmp_path / place)
    assert seen[1] == seen[0]
    assert "no error, but" not in json.dumps(seen[0])
