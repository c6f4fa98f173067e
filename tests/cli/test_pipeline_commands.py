"""`pipeline infer`, wrong usage, and how plans, runs and states of pipelines are printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from omnigraph.cli.commands.pipeline import EXIT_WARNINGS, _leave
from omnigraph.cli.pipeline_lines import plan_lines, print_run, quarantine_lines, status_lines
from omnigraph.cli.session import Session
from omnigraph.spark.pipelines import (
    ExpectationResult,
    PipelinePlan,
    PipelineRun,
    PipelineStatus,
    PlannedSource,
    PlannedStage,
    PlannedTarget,
    QuarantinedRow,
    RunStatus,
    SourceResult,
    StepResult,
    TargetResult,
)

RUN = PipelineRun(
    pipeline="packages",
    run_id="R1",
    status=RunStatus.SUCCEEDED,
    branch="main",
    commit="C1",
    seconds=83.4,
    sources=(SourceResult(name="raw", rows=12_000, files=3),),
    steps=(StepResult(name="packages", rows_in=12_000, rows_out=11_990, seconds=4.25),),
    expectations=(
        ExpectationResult(
            step="packages", check="name IS NOT NULL", failed=10, action="quarantine", rows=12_000
        ),
    ),
    targets=(TargetResult(type="Package", inserted=11_000, updated=990),),
    review_branch="pipeline/packages/R1",
    report="/r/report.html",
    samples={"Package": [{"name": "a", "version": None}]},
)
FAILED = PipelineRun(
    pipeline="packages",
    run_id="R2",
    status=RunStatus.FAILED,
    branch="main",
    error={"error": "step packages: no column 'nam'", "code": "pipeline_failed"},
)


def test_a_run_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(Session(), RUN, str(Path.cwd() / "p.omni"))
    told = capsys.readouterr().out
    assert told.startswith("packages  run R1  succeeded in 1 min 23 s\n")
    for expected in (
        "  read    raw       12,000 rows from 3 files\n",
        "  compute packages  12,000 -> 11,990 rows, 4.25 s\n",
        "  check   packages: 10 of 12,000 (0.08%) rows fail `name IS NOT NULL`, in quarantine\n",
        "  merge   Package  11,000 inserted, 990 updated\n",
        "commit C1 on pipeline/packages/R1\n",
        "  omnigraph branch merge pipeline/packages/R1 --store p.omni\n",
        "Package, the first 1 row:\n",
        "report /r/report.html\n",
    ):
        assert expected in told
    print_run(Session(), RUN, "https://host/graphs/shop")
    assert "branch diff pipeline/packages/R1 --server https://host --graph shop" in (
        capsys.readouterr().out
    )
    print_run(Session(), FAILED, "p.omni")
    assert capsys.readouterr().err == "step packages: no column 'nam'\n"


def test_a_run_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(Session(json=True), RUN, "p.omni")
    assert json.loads(capsys.readouterr().out)["targets"][0]["inserted"] == 11_000
    # With --watch every run is one line.
    print_run(Session(json=True), RUN, "p.omni", brief=True)
    assert capsys.readouterr().out.count("\n") == 1


def test_exit_codes() -> None:
    conflicts = {"error": "2 conflicts", "code": "conflict"}
    conflicting = PipelineRun(
        pipeline="p", run_id="r", status=RunStatus.FAILED, branch="main", error=conflicts
    )
    _leave(RUN, strict_warnings=False)
    for run, strict, code in (
        (RUN, True, EXIT_WARNINGS),
        (FAILED, True, 1),
        (conflicting, True, 5),
    ):
        with pytest.raises(typer.Exit) as left:
            _leave(run, strict)
        assert left.value.exit_code == code


def test_a_plan_and_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    plan_lines(
        PipelinePlan(
            pipeline="packages",
            graph="p.omni",
            graph_exists=False,
            branch="main",
            via="merge",
            sources=(
                PlannedSource(
                    name="raw", kind="files", new_files=2, bytes=2048, first_files=("a", "b")
                ),
            ),
            steps=(PlannedStage(name="packages", kind="sql", inputs=("raw",), expectations=1),),
            targets=(PlannedTarget(type="Package", origin="packages", mode="merge", stored=3),),
        )
    )
    assert capsys.readouterr().out.splitlines() == [
        "packages -> p.omni, which the run makes, branch main, by merge",
        "  read    raw: files, 2 new files, 2.0 kB (a, b)",
        "  compute packages: sql of raw, 1 expectation",
        "  merge   Package from packages, 3 stored now",
    ]
    status_lines(
        PipelineStatus(
            pipeline="packages",
            graph="p.omni",
            branch="main",
            runs=2,
            last_commit="C1",
            last_run_at="2026-11-17T02:00:00Z",
            pending_files={"raw": 1},
            review_branches=("pipeline/packages/R1",),
        )
    )
    assert capsys.readouterr().out.splitlines() == [
        "packages -> p.omni, branch main: 2 runs committed",
        "  last    2026-11-17T02:00:00Z commit C1",
        "  waiting raw: 1 new file",
        "  review  pipeline/packages/R1",
    ]
    row = {"name": None, "n": 1}
    quarantine_lines(
        [QuarantinedRow(run_id="R1", step="packages", rule="n > 1", origin="a.csv", row=row)]
    )
    assert capsys.readouterr().out == "packages: n > 1 (a.csv)  name: NULL, n: 1\n"


def test_infer(cli, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,b_code\n1,x\n2,y\n3,z\n")
    (tmp_path / "b.csv").write_text("code,size\nx,1\ny,2\nz,2\n")
    told = cli("pipeline", "infer", tmp_path / "a.csv", tmp_path / "b.csv", "--out", tmp_path / "o")
    assert told.code == 0
    assert "node A: 3 rows of 1 file, key a_id\n  b_code -> B: 3 of 3 values match\n" in told.out
    again = cli("pipeline", "infer", tmp_path / "a.csv", "--out", tmp_path / "o", "--json")
    assert again.code == 1
    assert again.json["code"] == "invalid_argument"
    replaced = cli(
        "pipeline", "infer", tmp_path / "a.csv", "--out", tmp_path / "o", "--replace", "--json"
    )
    assert [table["type"] for table in replaced.json["tables"]] == ["A"]


def test_wrong_usage(cli, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    two = cli("pipeline", "run", file, "--master", "local[1]", "--remote", "sc://x")
    assert two.code == 2
    assert "give one of them" in two.err
    assert cli("pipeline", "run", file, "--watch", "5", "--full").code == 2
    assert cli("pipeline", "run", file, "--var", "x").code == 2


def test_the_command_line_wins_over_the_file(cli, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("name\na\n")
    (tmp_path / "p.pg").write_text("node P { name: String @key }\n")
    (tmp_path / "p.yaml").write_text(
        "version: 1\nname: p\ngraph: ${PLACE:-one.omni}\nschema: p.pg\n"
        'sources:\n  raw: {files: in.csv, format: csv, options: {header: "true"}}\n'
        "targets:\n  - {type: P, from: raw}\n"
    )
    file = tmp_path / "p.yaml"
    assert cli("pipeline", "plan", file, "--json").json["graph"] == str(tmp_path / "one.omni")
    other = cli("pipeline", "plan", file, "--var", "PLACE=two.omni", "--json").json
    assert other["graph"] == str(tmp_path / "two.omni")
    named = cli("pipeline", "plan", file, "--store", tmp_path / "three.omni", "--json").json
    assert named["graph"] == str(tmp_path / "three.omni")
    assert named["targets"] == [
        {"type": "P", "origin": "raw", "mode": "merge", "rows_estimated": 1, "stored": None}
    ]
    valid = cli("pipeline", "validate", file)
    assert (valid.code, valid.out) == (0, "p is valid: 1 source, 0 steps, 1 target\n")
    file.write_text(file.read_text().replace("type: P,", "typ: P,"))
    wrong = cli("pipeline", "validate", file, "--json")
    assert wrong.code == 1
    assert wrong.json["code"] == "pipeline_invalid"
    assert wrong.json["problems"][0]["line"] == 8


def test_lineage_of_a_commit_and_plans_of_a_served_graph(cli, people, tmp_path: Path) -> None:
    """What needs no Spark: `commit show`, and `plan`, `status` and `list` of stores and servers."""
    from omnigraph.manifest.records import StreamBatch
    from omnigraph_testing.http_server import ThreadServer

    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("name\nZoe\n")
    file = tmp_path / "crowd.yaml"
    file.write_text(
        "version: 1\nname: crowd\ngraph: crowd.omni\nsources:\n"
        "  raw: {files: 'in/*.csv', format: csv, options: {header: true}, incremental: files}\n"
        "targets:\n  - {type: Person, from: raw, mode: merge}\n"
    )
    sources = {"raw": {"files": 2, "rows": 3, "commit": "01M7H8QRSTGJB9M89XSVK2F5M5"}}
    details = {
        "name": "crowd",
        "stream": "pipeline:crowd",
        "run_id": "R1",
        "number": 0,
        "sources": sources,
    }
    people.load(
        [{"type": "Person", "data": {"name": "Zoe"}}],
        stream_batch=StreamBatch("pipeline:crowd", 0),
        details={"pipeline": details},
    )
    shown = cli("commit", "show", "HEAD", "--store", people.uri).out
    assert "crowd, run R1" in shown
    assert "2 files, 3 rows, up to commit 01M7H8QRSTGJB9M89XSVK2F5M5" in shown
    with ThreadServer(people.uri) as server:
        for place in (("--store", people.uri), ("--server", server.url, "--graph", "default")):
            listed = cli("pipeline", "list", *place, "--json").json["pipelines"]
            assert [(each["pipeline"], each["runs"]) for each in listed] == [("crowd", 1)]
            status = cli("pipeline", "status", str(file), *place, "--json").json
            assert (status["runs"], status["pending_files"]) == (1, {"raw": 1})
            plan = cli("pipeline", "plan", str(file), *place, "--json").json
            assert [each["new_files"] for each in plan["sources"]] == [1]
            assert cli("pipeline", "validate", str(file), *place, "--json").json["valid"] is True
