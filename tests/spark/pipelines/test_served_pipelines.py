"""Pipelines into a graph on a server: the same rows, marks and errors as into a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pipeline_case import FILE, SCHEMA, Case

import omnigraph
from omnigraph.spark import pipelines
from omnigraph.spark.pipelines import RunStatus, positions
from omnigraph_testing.http_server import ThreadServer

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

TOKENS = json.dumps({"etl": "t-etl-0123456789", "guest": "t-guest-0123456789"})
POLICY = """
version: 1
groups: {writers: [etl], readers: [guest]}
rules:
  - id: writers-write
    allow:
      actors: {group: writers}
      actions: [read, change]
      branch_scope: any
  - id: readers-read
    allow: {actors: {group: readers}, actions: [read], branch_scope: any}
"""


class ServedCase(Case):
    """A pipeline whose graph is on a server."""

    url = ""
    token: str | None = None

    def loaded(self, **variables: str) -> pipelines.LoadedPipeline:
        return pipelines.load(self.file, variables, server=self.url, token=self.token)


@contextmanager
def served(folder: Path, text: str = FILE, **options: Any) -> Iterator[ServedCase]:
    case = ServedCase(folder, text)
    omnigraph.init(case.uri, SCHEMA).close()
    with ThreadServer(case.uri, **options) as server:
        case.url = f"{server.url}/graphs/default"
        yield case


def content(case: Case) -> Any:
    with case.graph() as graph:
        packages = graph.read("Package").sort_by("id").to_pylist()
        edges = graph.read("Requires").to_pylist()
        pairs = sorted((row["src"], row["dst"], row["range"]) for row in edges)
    details = [c.details["pipeline"] for c in case.commits()]
    keys = ("number", "targets")
    recorded = [{key: found[key] for key in keys} for found in details]
    counts = [
        {n: (s["rows"], s["files"], s["processed"]["count"]) for n, s in found["sources"].items()}
        for found in details
    ]
    return packages, pairs, recorded, counts


def told(run: pipelines.PipelineRun) -> Any:
    return (
        run.status,
        [(s.name, s.rows, s.files) for s in run.sources],
        [(s.name, s.rows_in, s.rows_out) for s in run.steps],
        [(e.check, e.failed, e.action) for e in run.expectations],
        [(t.type, t.inserted, t.updated, t.unchanged, t.removed) for t in run.targets],
    )


def test_a_served_graph_gets_the_same_rows_marks_and_counts(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "served").mkdir()
    with served(tmp_path / "served") as there:
        here = Case(tmp_path / "local")
        for case in (here, there):
            case.packages(" A ,1.0,5", "b,x,7", ",2.0,1")
            case.requires("ab", "ba")
        assert told(first := there.run(spark)) == told(here.run(spark))
        assert first.commit is not None
        assert first.quarantine is not None
        for case in (here, there):
            case.packages("c,3.0,9", "a,1.1,5")
        assert told(there.run(spark)) == told(here.run(spark))
        assert content(there) == content(here)
        assert there.run(spark).status is RunStatus.EMPTY
        status = there.loaded().status()
        assert (status.runs, status.pending_files) == (2, {"raw": 0, "needs": 0})
        assert status.last_run_at is not None
        assert [run.status.value for run in there.loaded().runs()] == ["succeeded"] * 2
        listed = pipelines.list_pipelines(there.url)
        assert [(each.pipeline, each.runs) for each in listed] == [("packages", 2)]


@pytest.mark.parametrize("via", ["commit", "merge"])
def test_runs_of_one_increment_that_meet_commit_once(spark: Any, tmp_path: Path, via: str) -> None:
    """The other run ends while this one computes: through a server there is no lease."""
    text = FILE.replace("mode: merge", "mode: append") + f"publish: {{via: {via}}}\n"
    with served(tmp_path, text) as case, pytest.MonkeyPatch.context() as patch:
        case.packages("a,1,1", "b,1,1")
        case.requires("ab")
        others: list[pipelines.PipelineRun | None] = []

        def meanwhile(*arguments: Any) -> Any:
            found = positions.last_run(*arguments)
            if not others:
                others.append(None)
                others[0] = case.loaded().run(spark)
            return found

        patch.setattr("omnigraph.spark.pipelines.run.last_run", meanwhile)
        run = case.run(spark)
        assert others[0] is not None
        assert others[0].status is RunStatus.SUCCEEDED, others[0].error
        assert run.status is not RunStatus.FAILED, run.error
        assert case.names() == ["a", "b"]
        assert case.pairs() == ["ab"]
        assert len(case.commits()) == 1
        with case.graph() as graph:
            assert [branch.name for branch in graph.branches.list()] == ["main"]


def test_what_a_killed_run_left_on_its_branch_is_merged_once(spark: Any, tmp_path: Path) -> None:
    text = FILE.replace("mode: merge", "mode: append") + "publish: {via: merge}\n"
    with served(tmp_path, text) as case, pytest.MonkeyPatch.context() as patch:
        case.packages("a,1,1")
        case.requires("aa")

        def dies(*_: Any) -> Any:
            raise KeyboardInterrupt

        patch.setattr("omnigraph.spark.pipelines.publishing.RunBranch.publish", dies)
        patch.setattr("omnigraph.spark.pipelines.publishing.RunBranch.abandon", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            case.run(spark)
        patch.undo()
        assert case.names() == []
        case.packages("z,1,1")
        assert case.run(spark).status is RunStatus.SUCCEEDED
        assert case.names() == ["a"], "the increment is the one that was written"
        assert case.run(spark).status is RunStatus.SUCCEEDED
        assert case.names() == ["a", "z"]
        assert len(case.commits()) == 2


def test_the_policy_of_the_server_holds(spark: Any, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    with served(tmp_path, tokens=TOKENS, policies=(("default", str(policy)),)) as case:
        case.packages("a,1,1")
        case.requires("aa")
        case.token = "t-guest-0123456789"
        denied = case.run(spark)
        assert denied.status is RunStatus.FAILED
        assert denied.error is not None
        assert denied.error["cause"]["code"] == "forbidden"
        assert case.names() == []
        case.token = "t-etl-0123456789"
        assert case.run(spark).status is RunStatus.SUCCEEDED
        assert [commit.actor_id for commit in case.commits()] == ["etl"]


def test_what_a_served_graph_refuses(spark: Any, tmp_path: Path) -> None:
    with served(tmp_path) as case, pytest.MonkeyPatch.context() as patch:
        case.packages("a,1,1")
        case.requires("ax")
        broken = case.run(spark)
        assert broken.error is not None
        assert broken.error["target"] == "Requires", broken.error
        assert case.names() == []
        patch.setattr(positions, "MOST_SERVED_FILES", 1)
        case.requires("aa")
        many = case.run(spark)
        assert many.error is not None
        assert "records at most 1 of them" in many.error["error"]
        assert case.commits() == []


@pytest.mark.slow
def test_modes_and_schema_changes_of_a_served_graph(spark: Any, tmp_path: Path) -> None:
    """Mirror with a scope, patch and `evolve`, against the same in a store."""
    text = FILE.replace(", incremental: files}", "}").replace("    incremental: files\n", "")
    mirror = text.replace(
        "{type: Package, from: packages, mode: merge}",
        '{type: Package, from: packages, mode: mirror, scope: "size < 100"}',
    )
    patch = text.replace(
        "{type: Package, from: packages, mode: merge}",
        "{type: Package, from: packages, mode: patch, map: {name: name, size: size}}",
    )
    found = []
    for place in ("local", "served"):
        (tmp_path / place).mkdir()
        with served(tmp_path / place) as case:
            run_case: Case = case if place == "served" else Case(tmp_path / place)
            case.packages("a,1,1", "b,1,500", "c,1,3", file="one")
            case.requires("ab", "cb", file="one")
            assert run_case.run(spark).status is RunStatus.SUCCEEDED
            run_case.file.write_text(mirror)
            case.packages("a,1,1", file="one")
            case.requires("ab", file="one")
            runs = [told(run_case.run(spark))]
            run_case.file.write_text(patch.replace("schema: packages.pg", EVOLVING))
            wider = SCHEMA.replace("size: I32?", "size: I32?  note: String?")
            (run_case.folder / "packages.pg").write_text(wider)
            case.packages("a,9,77", file="one")
            runs.append(told(run_case.run(spark)))
            assert [each[0] for each in runs] == [RunStatus.SUCCEEDED] * 2
            with case.graph() as graph:
                rows = graph.read("Package").sort_by("id").to_pylist()
            found.append((runs, rows, case.pairs()))
    assert found[0] == found[1]
    assert [row["name"] for row in found[0][1]] == ["a", "b"]
    assert found[0][1][0]["size"] == 77
    assert found[0][1][0]["note"] is None


EVOLVING = "schema: packages.pg\nevolve: true"
